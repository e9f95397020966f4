"""The drafters in assets/drafters: one of each method, small enough to be pushed anywhere, documented."""

from __future__ import annotations

import json

import pytest
import torch

from specviz.drafters import NEEDS_WEIGHTS
from specviz.lm.checkpoints import MAX_FILE_BYTES, load_checkpoint
from specviz.presets import DEFAULT_TARGET, SHIPPED_DRAFTERS

FOLDER = SHIPPED_DRAFTERS / DEFAULT_TARGET.name
METHODS = sorted({"draft_model", *NEEDS_WEIGHTS.values()})
MAX_TOTAL_BYTES = 80_000_000


def test_there_is_one_of_each_method_and_nothing_else() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == METHODS
    assert [path.name for path in SHIPPED_DRAFTERS.iterdir()] == [DEFAULT_TARGET.name]


def test_they_can_be_pushed_anywhere() -> None:
    sizes = [path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()]
    assert max(sizes) <= MAX_FILE_BYTES
    assert sum(sizes) <= MAX_TOTAL_BYTES


@pytest.mark.parametrize("method", METHODS)
def test_a_drafter_says_what_it_is_for_and_how_it_was_made(method: str) -> None:
    checkpoint = load_checkpoint(FOLDER / method)
    kinds = {t.dtype for t in checkpoint.tensors.values() if t.is_floating_point()}
    assert kinds == {torch.bfloat16}
    assert checkpoint.config["specviz_target"]["name"] == DEFAULT_TARGET.name
    provenance = json.loads((FOLDER / method / "provenance.json").read_text("utf-8"))
    assert provenance["corpus"]["answer_tokens"] >= 2_000_000
    assert provenance["phases"]
    card = (FOLDER / method / "CARD.md").read_text("utf-8")
    for heading in ("How it was trained", "Data", "Figures", "Limits", "Licence", "Use"):
        assert f"\n## {heading}\n" in card
    assert f"{provenance['held_out']['chain_tau']:.2f}" in card
