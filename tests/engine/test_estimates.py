"""Estimates from a recording against the engine, run with the other setting."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specviz import what_if
from specviz.config import SamplingParams
from specviz.engine.verify import verify
from specviz.replays import kept_in_budget, tokens_at_temperature_one
from specviz.tree import DraftTree
from specviz.words import Refusal
from tests.engine.chances import enumerate_outcomes
from tests.engine.lanes import Setup, answer_of, registered
from tests.engine.tables import blurred, random_table
from tests.test_what_if import recording
from tests.traces import greedy_verdict, round_trace

PROMPT, BUDGET = [1, 2, 3, 1, 2], 60
NUM_RUNS = 8


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("length", [2, 6])
def test_an_estimate_meets_a_measured_run(length: int, temperature: float) -> None:
    """A model that is a table, drafted for by a blurred copy: recorded at 4, run at `length`.

    Greedy texts are the same, so there the bounds must hold of every single run.
    """
    estimated = measured = recorded = 0.0
    for seed in range(8):
        lm = random_table(13, seed=seed)
        draft = blurred(lm, seed=1000 + seed, spread=1.5 if temperature else 0.7)
        sampling = SamplingParams(temperature=temperature)
        setup = Setup(lm, PROMPT, BUDGET, sampling, seed=seed, draft=draft)
        at_four, at_length = (
            setup.play(registered("draft_model", {"num_draft_tokens": k})) for k in (4, length)
        )
        estimate = what_if.truncated(recording(at_four), length)
        tau = BUDGET / len(at_length)
        if temperature == 0:
            assert estimate.bounds is not None
            assert estimate.bounds[0] - 1e-9 <= tau <= estimate.bounds[1] + 1e-9
        estimated += BUDGET / estimate.tau
        measured += len(at_length)
        recorded += len(at_four)
    assert estimated == pytest.approx(measured, rel=0.08)
    assert recorded != measured, "the two settings must differ to be compared"


@pytest.mark.parametrize(
    ("change", "estimated_by"),
    [
        ({"num_draft_tokens": 2}, lambda recorded: what_if.truncated(recorded, 2)),
        ({"budget": 6}, lambda recorded: what_if.budgeted(recorded, 6)),
    ],
    ids=["depth", "budget"],
)
def test_a_smaller_tree_is_estimated_as_it_is_measured(change, estimated_by) -> None:
    """Greedy trees of a blurred copy, recorded with 16 rows at depth 4 and run with fewer.

    Both runs write the same text, but their rounds begin elsewhere: a single run of 60 tokens may
    be off by two fifths, the sum over `NUM_RUNS` by a tenth at most.
    """
    whole = {"num_draft_tokens": 4, "top_k": 3, "budget": 16}
    estimated = measured = recorded = 0.0
    for seed in range(NUM_RUNS):
        lm = random_table(13, seed=seed)
        draft = blurred(lm, seed=1000 + seed, spread=0.7)
        setup = Setup(lm, PROMPT, BUDGET, seed=seed, draft=draft)
        large, small = (
            setup.play(registered("draft_model", knobs)) for knobs in (whole, whole | change)
        )
        assert answer_of(large) == answer_of(small)
        estimated += BUDGET / estimated_by(recording(large)).tau
        measured += len(small)
        recorded += len(large)
    assert estimated == pytest.approx(measured, rel=0.1)
    assert recorded < 0.9 * measured, "the two settings must differ to be compared"


def test_a_drawn_run_tells_of_temperature_zero_what_the_greedy_run_does_there() -> None:
    """Exact where the texts are the same: the rounds that are counted are the greedy run's own."""
    make = registered("draft_model", {"num_draft_tokens": 3, "top_k": 2, "budget": 8})
    told = 0
    for seed in range(6):
        lm = random_table(13, seed=seed)
        setup = Setup(
            lm, PROMPT, BUDGET, seed=seed, draft=blurred(lm, seed=1000 + seed, spread=0.7)
        )
        greedy = setup.play(make)
        drawn = replace(setup, sampling=SamplingParams(temperature=0.2)).play(make)
        same = 0
        while same < len(drawn) and drawn[same].new_tokens == greedy[same].new_tokens:
            same += 1
        lane = recording(drawn)
        lane = replace(lane, start=replace(lane.start, knobs={"top_k": 2}))
        if same < what_if.FEWEST_ROUNDS:
            with pytest.raises(Refusal, match="would part from this text"):
                what_if.at_temperature_zero(lane)
            continue
        told += same < len(drawn)
        tau = sum(len(r.new_tokens) for r in greedy[:same]) / same
        assert what_if.at_temperature_zero(lane).tau == pytest.approx(tau)
    assert told, "some text must part late enough to be told of"


@pytest.mark.parametrize("prompt", [[1, 2, 3], [4, 5], [6, 7, 8, 9]])
@pytest.mark.parametrize("num_rows", [2, 4, 6, 9])
def test_a_smaller_budget_keeps_what_the_drafter_itself_would_keep(
    prompt: list[int], num_rows: int
) -> None:
    """EAGLE-2 with 12 rows, cut down, is the tree that EAGLE-2 grows with fewer."""
    lm = random_table(13)
    large, small = (
        Setup(lm, prompt, 20)
        .lane(registered("eagle2", {"budget": rows, "depth": 3, "top_k": 3}))
        .play_round()
        for rows in (12, num_rows)
    )
    kept = {large.tree.path_tokens(row) for row in kept_in_budget(large, num_rows)}
    assert kept == {small.tree.path_tokens(row) for row in range(1, len(small.tree))}


def test_a_chosen_tree_at_temperature_one_yields_what_verification_yields() -> None:
    """Every outcome of the engine's own walk over a tree of chosen guesses, with its probability."""
    tree = DraftTree((0, 1, 2, 3, 1, 2, 5), (-1, 0, 0, 1, 1, 4, 2))
    rng = torch.Generator().manual_seed(3)
    probs = torch.randn(len(tree), 6, generator=rng, dtype=torch.float64).softmax(dim=-1)
    outcomes = enumerate_outcomes(
        lambda chance: (
            verify(
                "rejection", tree, lambda row: probs[row], None, chance, 0
            ).verdict.num_new_tokens
        )
    )
    softmax = [float(probs[tree.parents[r], tree.tokens[r]]) for r in range(1, len(tree))]
    bare = round_trace(tree, greedy_verdict(tree, (9,)))
    round_ = replace(bare, softmax_probs=(None, *softmax))
    assert sum(outcomes.values()) == pytest.approx(1)
    mean = sum(tokens * weight for tokens, weight in outcomes.items())
    assert tokens_at_temperature_one(round_) == pytest.approx(mean)
