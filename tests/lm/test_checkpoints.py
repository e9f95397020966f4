"""Drafter checkpoints: what is written is read, and what cannot be used says so in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from specviz.lm import checkpoints
from specviz.lm.checkpoints import (
    DrafterCheckpoint,
    check_target,
    check_tensors,
    draft_ids,
    load_checkpoint,
    save_checkpoint,
    tokenizer_sha256,
)
from tests.models import spm_tokenizer, tiny_tokenizer

CONFIG = {"method": "eagle", "num_attention_heads": 4}
INDEX = "model.safetensors.index.json"


def tensors() -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(0)
    found = {f"layers.{i}.weight": torch.randn(40, 30, generator=rng) for i in range(5)}
    return found | {"d2t": torch.arange(50) * 2, "t2d": torch.arange(90) % 2 == 0}


def assert_holds(folder: Path, wanted: dict[str, Tensor]) -> None:
    found = load_checkpoint(folder)
    assert (found.folder, found.config) == (folder, CONFIG)
    assert found.tensors.keys() == wanted.keys()
    for name, tensor in wanted.items():
        kept = tensor.bfloat16() if tensor.is_floating_point() else tensor
        assert torch.equal(found.tensors[name], kept)
        assert found.tensors[name].dtype == kept.dtype


def test_one_file_holds_a_small_drafter(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "eagle", CONFIG, tensors())
    names = {path.name for path in (tmp_path / "eagle").iterdir()}
    assert names == {"config.json", "model.safetensors"}
    assert [path.name for path in tmp_path.iterdir()] == ["eagle"]
    assert_holds(tmp_path / "eagle", tensors())


@pytest.mark.parametrize("limit", [2000, 5600, 9000])
def test_a_large_drafter_comes_in_files_that_can_be_pushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """At the smallest limit each matrix (2,400 bytes) is over it, and stands alone."""
    monkeypatch.setattr(checkpoints, "MAX_FILE_BYTES", limit)
    save_checkpoint(tmp_path, CONFIG, tensors())
    files = sorted(tmp_path.glob("*.safetensors"))
    assert files[0].name == f"model-00001-of-{len(files):05}.safetensors"
    assert len(files) == {2000: 6, 5600: 3, 9000: 2}[limit]
    homes = json.loads((tmp_path / INDEX).read_text())["weight_map"]
    for file in files:
        with safe_open(file, framework="pt") as shard:
            held = set(shard.keys())
        assert held == {name for name, home in homes.items() if home == file.name}
        assert file.stat().st_size <= limit or len(held) == 1
    assert_holds(tmp_path, tensors())


def test_the_shipped_limit_fits_a_head_of_8192_rows(tmp_path: Path) -> None:
    rows = torch.zeros(8192, 576)
    save_checkpoint(tmp_path, CONFIG, {"lm_head.weight": rows, "fc.weight": rows[:576]})
    assert max(path.stat().st_size for path in tmp_path.iterdir()) <= 9_500_000
    assert len(list(tmp_path.glob("*.safetensors"))) == 2


def test_an_earlier_save_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shards of the last save beside a single file of this one: two answers to one question."""
    (tmp_path / "CARD.md").write_text("kept")
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "MAX_FILE_BYTES", 2000)
        save_checkpoint(tmp_path, CONFIG, tensors())
    fewer = {"fc.weight": torch.ones(3, 3)}
    save_checkpoint(tmp_path, CONFIG, fewer)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"CARD.md", "config.json", "model.safetensors"}
    assert_holds(tmp_path, fewer)


def damaged(folder: Path, what: str) -> Path:
    if what == "no folder":
        return folder / "nowhere"
    weights = folder / "model.safetensors"
    if what == "cut":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif what == "pickle":
        weights.rename(folder / "pytorch_model.bin")
    else:
        (folder / what).unlink()
    return folder


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("no folder", "There is no folder"),
        ("cut", "cut off"),
        ("pickle", "pickle"),
        ("config.json", "config.json is missing"),
        ("model.safetensors", "model.safetensors is missing"),
    ],
)
def test_a_damaged_folder_says_what_is_wrong(tmp_path: Path, what: str, reason: str) -> None:
    save_checkpoint(tmp_path, CONFIG, tensors())
    with pytest.raises(ValueError, match=reason):
        load_checkpoint(damaged(tmp_path, what))


def test_a_shard_that_is_gone_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "MAX_FILE_BYTES", 5600)
    save_checkpoint(tmp_path, CONFIG, tensors())
    (tmp_path / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(ValueError, match="model-00002-of-00003.safetensors is missing"):
        load_checkpoint(tmp_path)


HERE: dict[str, Any] = {
    "hidden_size": 64,
    "num_layers": 6,
    "vocab_size": 97,
    "tokenizer_sha256": "a" * 64,
}


@pytest.mark.parametrize("fact", HERE)
def test_a_drafter_of_another_target_is_refused(fact: str) -> None:
    record = {"name": "one", "architecture": "LlamaForCausalLM", **HERE}
    fits = DrafterCheckpoint(Path("folder"), {"specviz_target": record}, {})
    check_target(fits, **HERE)
    other = record | {fact: "b" * 64 if fact == "tokenizer_sha256" else 5}
    alien = DrafterCheckpoint(Path("folder"), {"specviz_target": other}, {})
    with pytest.raises(ValueError, match=rf"another target .*\(one\): {fact} is (5|bbb)"):
        check_target(alien, **HERE)


def test_a_published_drafter_does_not_name_its_target() -> None:
    check_target(DrafterCheckpoint(Path(), {"vocab_size": 5}, {}), **HERE)


def test_a_tokenizer_is_known_by_its_tokens(tmp_path: Path) -> None:
    """Two sources of one target write its tokenizer's file differently."""
    ours = tiny_tokenizer()
    ours.save_pretrained(tmp_path)
    again = type(ours).from_pretrained(tmp_path)
    assert tokenizer_sha256(again) == tokenizer_sha256(ours)
    assert tokenizer_sha256(spm_tokenizer()) != tokenizer_sha256(ours)
    again.add_tokens(["one more"])
    assert tokenizer_sha256(again) != tokenizer_sha256(ours)


def of(**held: Tensor) -> DrafterCheckpoint:
    return DrafterCheckpoint(Path("folder"), {}, held)


def test_offsets_name_ids_in_order() -> None:
    ids = draft_ids(of(d2t=torch.tensor([2, 2, 5, 5])), vocab_size=10, num_known_tokens=9)
    assert ids.tolist() == [2, 3, 7, 8]
    fewer = draft_ids(of(d2t=torch.tensor([2, 2, 5, 5])), vocab_size=10, num_known_tokens=8)
    assert fewer.tolist() == [2, 3, 7]
    assert draft_ids(of(), vocab_size=10, num_known_tokens=3).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("offsets", "reason"),
    [
        ([3, 1], "ascending"),
        ([3, 2], "ascending"),
        ([-1, 0], "ascending ids from 0 to 9"),
        ([0, 9], "holds the target's ids themselves"),
        ([0, 10], "ascending ids from 0 to 9"),
        ([0.0, 1.0], "whole numbers"),
        ([[0, 1]], "whole numbers"),
        ([], "whole numbers"),
    ],
)
def test_offsets_that_cannot_be_are_refused(offsets: list[Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        draft_ids(of(d2t=torch.tensor(offsets)), vocab_size=10, num_known_tokens=10)


def test_tensors_are_checked_by_name_and_shape() -> None:
    held = of(fc=torch.zeros(3, 6), bias=torch.zeros(3))
    check_tensors(held, {"fc": (3, None)}, {"bias": (3,)}, "toy")
    for required, optional, reason in (
        ({"fc": (3, 6), "norm": (3,)}, {"bias": (3,)}, "lacks 1 tensors, norm among"),
        ({"fc": (3, 6)}, {}, "no use for, bias among"),
        ({"fc": (6, None)}, {"bias": (3,)}, "fc of 3 x 6; 6 x any fits"),
        ({"fc": (3,)}, {"bias": (3,)}, "fc of 3 x 6; 3 fits"),
    ):
        with pytest.raises(ValueError, match=f"toy drafter in folder .*{reason}"):
            check_tensors(held, required, optional, "toy")  # type: ignore[arg-type]
