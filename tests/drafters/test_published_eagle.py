"""Published EAGLE files of every maker: read from disk, drafting as published, and lossless."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from specviz.config import SamplingParams
from specviz.drafters.base import Drafter
from specviz.lm.base import FeatureTap
from specviz.lm.checkpoints import load_checkpoint
from tests.drafters.eagle_rounds import made, rounds_by_hand, text_target
from tests.drafters.growth_by_hand import assert_same_tree, dynamic_by_hand
from tests.drafters.published64 import Meaning, Published64
from tests.drafters.published_files import PUBLISHED, Published, eagle3_1, eagle3_speculators
from tests.engine.lanes import PLAIN, Setup, kit_of
from tests.engine.tables import TableLM

TOLERANCE = 2e-4
KNOBS = {"top_k": 3, "depth": 3, "budget": 8}


def truth_of(
    published: Published, lm: TableLM, tokens: list[int], features: Tensor, meaning: Meaning
) -> Published64:
    tensors = {name.removeprefix("model."): t for name, t in published.tensors.items()}
    embedding = tensors.get("embed_tokens.weight", lm.embedding)
    head = tensors.get("lm_head.weight", lm.head_weight)
    return Published64(meaning, tensors, embedding, head, tokens, features)


def gap(published: Published, lm: TableLM, drafter: Drafter, meaning: Meaning) -> float:
    """Largest difference of scores between the drafter's trees and the publication's."""
    ids = list(range(lm.vocab_size)) if published.ids is None else published.ids.tolist()
    width, largest = lm.hidden_size * max(len(published.boundaries), 1), 0.0
    for tokens, features, proposal in rounds_by_hand(drafter, (2, 0, 1), width, prompt=12):
        truth = truth_of(published, lm, tokens, features, meaning)
        wanted = dynamic_by_hand(truth.log_probs, ids, 3, 3, 8)
        if meaning == published.meaning:
            assert_same_tree(proposal, wanted, tolerance=TOLERANCE)
        for candidate, node in zip(proposal.candidates, wanted, strict=True):
            largest = max(largest, abs(candidate.score - node.score))
    return largest


def drafter_of(published: Published, lm: TableLM, root: Path) -> Drafter:
    name = "eagle3" if published.method == "eagle3" else "eagle2"
    return made(name, dict(KNOBS), load_checkpoint(published.write(root)))(kit_of(lm))


@pytest.mark.parametrize("kind", PUBLISHED)
def test_it_reads_and_drafts_what_the_publication_says(kind: str, tmp_path: Path) -> None:
    """Taps, then trees of several rounds, kept and pruned nodes alike."""
    lm = text_target()
    published = PUBLISHED[kind](lm)
    drafter = drafter_of(published, lm, tmp_path)
    taps = [
        FeatureTap("output", layer - 1) if layer == lm.num_layers else FeatureTap("input", layer)
        for layer in published.boundaries
    ]
    assert drafter.taps == tuple(taps or [FeatureTap("normed")])
    assert gap(published, lm, drafter, published.meaning) < TOLERANCE


@pytest.mark.parametrize("kind", PUBLISHED)
def test_it_is_lossless(kind: str, tmp_path: Path) -> None:
    lm = text_target()
    published = PUBLISHED[kind](lm)
    checkpoint = load_checkpoint(published.write(tmp_path))
    hot = SamplingParams(temperature=1.0)
    for name in ("eagle3",) if published.method == "eagle3" else ("eagle", "eagle2"):
        greedy = Setup(lm, [1, 5, 9, 2], 20)
        for setup in (greedy, replace(greedy, sampling=hot, rule="coupled")):
            assert setup.answer(made(name, {}, checkpoint)) == setup.answer(PLAIN)


@pytest.mark.parametrize(
    ("maker", "wrong"),
    [
        (eagle3_speculators, {"has_normed_residual": False}),
        (eagle3_speculators, {"theta": 10_000.0}),
        (eagle3_1, {"has_normed_output": False}),
        (eagle3_1, {"before_fc": ""}),
    ],
)
def test_each_flag_matters_to_the_trees(
    maker: object, wrong: dict[str, object], tmp_path: Path
) -> None:
    """A reference that could not tell a dialect from another would hold nothing."""
    lm = text_target()
    published: Published = maker(lm)  # type: ignore[operator]
    meaning = replace(published.meaning, **wrong)  # type: ignore[arg-type]
    assert gap(published, lm, drafter_of(published, lm, tmp_path), meaning) > 10 * TOLERANCE


def test_it_says_what_it_borrows_and_what_it_corrects(tmp_path: Path) -> None:
    lm, told = text_target(), dict[str, str]()
    for kind, maker in PUBLISHED.items():
        told[kind] = drafter_of(maker(lm), lm, tmp_path / kind).description
    assert "the target's own head" in told.pop("EAGLE-3 ModelOpt")
    assert "rotated with base 10,000" in told.pop("EAGLE-3 AngelSlim")
    assert not any("own head" in text or "base" in text for text in told.values())


def test_the_owners_base_comes_before_all_others(tmp_path: Path) -> None:
    lm = text_target()
    published = PUBLISHED["EAGLE-3 AngelSlim"](lm)
    published.config["specviz_rope_theta"] = 500
    published.meaning = replace(published.meaning, theta=500.0)
    assert gap(published, lm, drafter_of(published, lm, tmp_path), published.meaning) < TOLERANCE


@pytest.mark.parametrize(
    "place",
    ["models--AngelSlim--Qwen3-4B_eagle3/snapshots/0123", "drafter--AngelSlim--Qwen3-4B_eagle3"],
)
@pytest.mark.parametrize("is_linked", [False, True])
def test_a_cache_tells_who_made_it(tmp_path: Path, place: str, is_linked: bool) -> None:
    """The Hub's cache or ours; a drafter from the command line is a folder of links into it."""
    lm = text_target()
    published = PUBLISHED["EAGLE-3 AngelSlim"](lm)
    published.place = place
    folder = published.write(tmp_path)
    if is_linked:
        (tmp_path / "eagle3").mkdir()
        for file in folder.iterdir():
            (tmp_path / "eagle3" / file.name).symlink_to(file)
        folder = tmp_path / "eagle3"
    drafter = made("eagle3", {}, load_checkpoint(folder))(kit_of(lm))
    assert "base 10,000" in drafter.description


def test_an_embedding_that_is_the_targets_is_shared_and_another_is_used(tmp_path: Path) -> None:
    """One of them is of a gigabyte; and heads that ship their own were overwritten elsewhere."""
    lm = text_target()
    shared = drafter_of(PUBLISHED["EAGLE Vicuna"](lm), lm, tmp_path / "shared")
    own = drafter_of(PUBLISHED["EAGLE-3 SpecForge"](lm), lm, tmp_path / "own")
    token = torch.tensor([3])
    assert torch.equal(shared.network.embed(token), lm.embed(token))  # type: ignore[attr-defined]
    assert shared.network.embed == lm.embed  # type: ignore[attr-defined]
    assert not torch.equal(own.network.embed(token), lm.embed(token))  # type: ignore[attr-defined]
