"""Weight files of published drafters: what is chosen, what is read, and that nothing ever runs."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from specviz.lm.checkpoints import load_checkpoint
from specviz.lm.drafter_files import read_tensors


def tensors(value: float = 1.0) -> dict[str, Tensor]:
    return {"fc.weight": torch.full((3, 4), value, dtype=torch.float16), "d2t": torch.arange(5)}


def assert_holds(place: Path, value: float = 1.0) -> None:
    found, wanted = read_tensors(place), tensors(value)
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize("name", ["pytorch_model.bin", "medusa_lm_head.pt", "head.pth"])
def test_a_pickle_of_bare_tensors_is_read(tmp_path: Path, name: str, is_zip: bool) -> None:
    torch.save(tensors(), tmp_path / name, _use_new_zipfile_serialization=is_zip)
    torch.save({"lr": 1.0}, tmp_path / "optimizer.pt")
    torch.save({"seed": 1.0}, tmp_path / "training_args.bin")
    assert_holds(tmp_path)
    assert_holds(tmp_path / name)


def test_safetensors_come_first(tmp_path: Path) -> None:
    torch.save(tensors(2.0), tmp_path / "pytorch_model.bin")
    assert_holds(tmp_path, 2.0)
    save_file(tensors(1.0), tmp_path / "model.safetensors")
    assert_holds(tmp_path, 1.0)


def test_any_one_file_will_do_and_two_are_asked_about(tmp_path: Path) -> None:
    save_file(tensors(), tmp_path / "eagle_head.safetensors")
    assert_holds(tmp_path)
    save_file(tensors(), tmp_path / "other_head.safetensors")
    with pytest.raises(ValueError, match=r"several .*\(eagle_head.safetensors, other_head"):
        read_tensors(tmp_path)


def test_pickles_in_several_files(tmp_path: Path) -> None:
    homes = {"fc.weight": "pytorch_model-1.bin", "d2t": "pytorch_model-2.bin"}
    for name, home in homes.items():
        torch.save({name: tensors()[name]}, tmp_path / home)
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": homes}))
    assert_holds(tmp_path)
    (tmp_path / "pytorch_model-2.bin").unlink()
    with pytest.raises(ValueError, match=r"pytorch_model-2.bin is missing"):
        read_tensors(tmp_path)
    index.write_text(json.dumps({"weight_map": {"d2t": "../elsewhere.bin"}}))
    with pytest.raises(ValueError, match="expected a file beside it"):
        read_tensors(tmp_path)


def test_a_file_may_be_given_instead_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": 4}')
    save_file(tensors(), tmp_path / "one.safetensors")
    save_file(tensors(2.0), tmp_path / "two.safetensors")
    found = load_checkpoint(tmp_path / "two.safetensors")
    assert (found.folder, found.config) == (tmp_path, {"hidden_size": 4})
    assert float(found.tensors["fc.weight"][0, 0]) == 2.0


class Evil:
    """Unpickled, it makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.marker),)


WRITERS: dict[str, Callable[[Any, Path], object]] = {
    "zip": lambda value, path: torch.save(value, path),
    "old": lambda value, path: torch.save(value, path, _use_new_zipfile_serialization=False),
    "raw": lambda value, path: path.write_bytes(pickle.dumps(value)),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_pickle_that_would_run_code_is_refused_and_does_not(tmp_path: Path, writer: str) -> None:
    marker, file = tmp_path / "marker", tmp_path / "pytorch_model.bin"
    WRITERS[writer]({"fc.weight": Evil(marker)}, file)
    with pytest.raises(ValueError, match=r"pytorch_model.bin in .* is .*pickle"):
        read_tensors(tmp_path)
    assert not marker.exists()
    pickle.loads(pickle.dumps(Evil(marker)))  # it would have
    assert marker.exists()


@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.95])
def test_a_cut_pickle_is_named(tmp_path: Path, is_zip: bool, share: float) -> None:
    file = tmp_path / "pytorch_model.bin"
    torch.save(tensors(), file, _use_new_zipfile_serialization=is_zip)
    whole = file.read_bytes()
    file.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match=r"pytorch_model.bin .*fetch it again"):
        read_tensors(tmp_path)


@pytest.mark.parametrize("held", [[torch.ones(2)], {"epoch": 3}, torch.ones(2)])
def test_a_pickle_of_something_else_is_refused(tmp_path: Path, held: Any) -> None:
    torch.save(held, tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match="does not hold tensors by name"):
        read_tensors(tmp_path)


def test_a_pointer_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"model.safetensors is missing from"):
        read_tensors(tmp_path)
    pointer = "version https://git-lfs.github.com/spec/v1\nsize 850\n"
    (tmp_path / "pytorch_model.bin").write_text(pointer)
    with pytest.raises(ValueError, match="Git LFS pointer"):
        read_tensors(tmp_path)
