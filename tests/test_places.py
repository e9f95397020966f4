"""What --drafters and --draft name, and where the engine then finds it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specviz.lm.checkpoints import load_checkpoint
from specviz.lm.weights import Checkpoint
from specviz.places import gathered
from specviz.trace import Progress
from tests.models import tiny_folder

TENSORS: dict[str, dict[str, Tensor]] = {
    "eagle": {"fc.weight": torch.ones(2, 4), "layers.0.mlp.up_proj.weight": torch.ones(2, 2)},
    "eagle3": {"midlayer.hidden_norm.weight": torch.ones(2), "fc.weight": torch.ones(2, 6)},
    "medusa": {"0.0.linear.weight": torch.ones(2, 2)},
    "mtp": {"model.layers.2.eh_proj.weight": torch.ones(2, 4)},
}


def heard(progress: Progress) -> None:
    assert progress.message


def drafter(folder: Path, method: str, name: str = "model.safetensors") -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"hidden_size": 2}')
    if name.endswith(".safetensors"):
        save_file(TENSORS[method], folder / name)
    else:
        torch.save(TENSORS[method], folder / name)
    return folder


def test_a_folder_with_a_folder_for_each_method_is_taken_as_it_is(tmp_path: Path) -> None:
    drafter(tmp_path / "medusa", "medusa")
    assert gathered([str(tmp_path)], None, heard).drafters == tmp_path
    assert gathered([], None, heard).drafters is None


def test_single_drafters_are_known_by_their_tensors(tmp_path: Path) -> None:
    """Folders, a file of one of them alone, a pickle; what each holds is found under its method."""
    places = [drafter(tmp_path / f"from-{method}", method) for method in ("eagle", "eagle3", "mtp")]
    pickled = drafter(tmp_path / "heads", "medusa", "medusa_lm_head.pt") / "medusa_lm_head.pt"
    root = gathered([*map(str, places), str(pickled)], None, heard).drafters
    assert root is not None
    assert sorted(path.name for path in root.iterdir()) == sorted(TENSORS)
    for method, tensors in TENSORS.items():
        found = load_checkpoint(root / method)
        assert found.tensors.keys() == tensors.keys()
        assert found.config == {"hidden_size": 2}


def test_one_file_of_a_folder_with_several_is_the_one_used(tmp_path: Path) -> None:
    folder = drafter(tmp_path / "heads", "medusa", "best.safetensors")
    save_file({"other": torch.ones(1)}, folder / "last.safetensors")
    root = gathered([str(folder / "best.safetensors")], None, heard).drafters
    assert root is not None
    assert load_checkpoint(root / "medusa").tensors.keys() == TENSORS["medusa"].keys()


def test_a_whole_language_model_is_a_draft_model(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "small")
    found = gathered([str(folder)], None, heard)
    assert (found.drafters, found.draft) == (None, folder)
    assert gathered([], str(folder), heard).draft == folder
    with pytest.raises(ValueError, match="Two draft models were given"):
        gathered([str(folder)], str(folder), heard)


def test_a_draft_model_of_pickles_is_taken_by_its_safe_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path / "cache"))
    folder, told = tiny_folder(tmp_path / "small"), list[str]()
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    for options in (([str(folder)], None), ([], str(folder))):
        draft = gathered(*options, lambda progress: told.append(progress.message[0])).draft
        assert draft is not None
        assert draft.is_relative_to(tmp_path / "cache")
        assert load_file(draft / "model.safetensors").keys() == tensors.keys()
    assert "progress.rewrite" in told


def test_repositories_are_fetched_and_the_catalogue_knows_their_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, told = list[str](), list[Progress]()

    def fetch_drafter(drafter_: Any) -> Generator[Progress, None, Checkpoint]:
        asked.append(drafter_.repository)
        yield Progress("fetch", "on its way")
        return Checkpoint(tmp_path / drafter_.repository.partition("/")[2], "the Hub")

    monkeypatch.setattr("specviz.lm.weights.fetch_drafter", fetch_drafter)
    drafter(tmp_path / "medusa-vicuna-7b-v1.3", "medusa")
    drafter(tmp_path / "a-head", "eagle3")
    texts = ["FasterDecoding/medusa-vicuna-7b-v1.3", "eagle3=somebody/a-head"]
    root = gathered(texts, None, told.append).drafters
    assert root is not None
    assert asked == ["FasterDecoding/medusa-vicuna-7b-v1.3", "somebody/a-head"]
    assert sorted(path.name for path in root.iterdir()) == ["eagle3", "medusa"]
    assert [p.message for p in told] == ["on its way"] * 2


def odd(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    save_file({"something.weight": torch.ones(1)}, folder / "model.safetensors")
    return folder


def test_what_cannot_be_used_is_told_in_a_sentence(tmp_path: Path) -> None:
    one, two = (drafter(tmp_path / name, "medusa") for name in ("one", "two"))
    for texts, words in (
        (
            ["no/such/place"],
            "--drafters takes a folder of trained drafters, a drafter's own folder",
        ),
        (
            ["eagel=a/b"],
            "there is no method 'eagel' with trained weights; there are: eagle, eagle3",
        ),
        ([str(one), str(two)], "--drafters names medusa twice: .*one and .*two"),
        ([str(odd(tmp_path / "odd"))], "which method .* is for cannot be told; write METHOD=PLACE"),
    ):
        with pytest.raises(ValueError, match=words):
            gathered(texts, None, heard)
    with pytest.raises(ValueError, match="--draft takes the folder of a checkpoint, or a repos"):
        gathered([], str(tmp_path), heard)
