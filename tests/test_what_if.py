"""Estimates against enumeration, brute force and recorded runs; against the engine: `tests/engine`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest

from specviz import best, cost, what_if
from specviz.replays import (
    Mark,
    Shape,
    kept_in_budget,
    kept_of_chain,
    marks_of,
    replayed,
)
from specviz.theory import Costs
from specviz.trace import RoundTrace
from specviz.tree import DraftTree
from specviz.what_if import Recording
from specviz.words import Refusal
from tests import recorded
from tests.traces import bushy_trees, chain_trees, decode, greedy_verdict, lane_start, plain_trees
from tests.traces import round_trace as made_round


def played(hits: Sequence[bool], length: int) -> list[RoundTrace]:
    """A text-alone drafter at `length`: its guess at token i is right iff hits[i]. Token by token."""
    rounds, done, answer = list[RoundTrace](), 0, [100 + i for i in range(len(hits))]
    while done < len(hits):
        ends = range(done, min(done + length, len(hits) - 1))
        draft = [answer[i] if hits[i] else 9 for i in ends]
        tree = DraftTree.chain(1, draft)
        verdict = greedy_verdict(tree, [*answer[done:], 0])
        new = [*(tree.tokens[r] for r in verdict.accepted_rows), verdict.next_token]
        rounds.append(
            replace(
                made_round(DraftTree.chain(1), greedy_verdict(DraftTree.chain(1), (2,))),
                tree=tree,
                verdict=verdict,
                new_tokens=tuple(t for t in new if t is not None),
                draft_probs=(1.0,) * len(tree),
                rows_written=len(tree),
                draft_step_seconds=(0.1,) * len(draft),
                draft_seconds=0.1 * len(draft),
                verify_seconds=1.0 + 0.02 * len(tree),
            )
        )
        done += len(rounds[-1].new_tokens)
    return rounds


def recording(rounds: Sequence[RoundTrace], drafter: str = "draft_model") -> Recording:
    start = replace(lane_start(1, drafter), knobs={"num_draft_tokens": 4})
    plain = [replace(r, draft_seconds=0.0, verify_seconds=1.0) for r in played([False] * 5, 0)]
    return Recording(start, rounds, cost.account(rounds, plain))


def test_marks_say_of_each_token_whether_its_guess_was_right() -> None:
    hits = [True, True, True, True, True, False, False, True, True, False, True]
    marks: list[Mark] = [True] * 4 + [None, False, False, True, True, False, None]
    assert marks_of(played(hits, 4)) == tuple(marks)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 7])
def test_every_text_of_eight_tokens_lies_within_the_bounds(length: int) -> None:
    """All 256 patterns of right and wrong guesses: recorded at 3, played at `length` as well."""
    expected = measured = 0.0
    for hits in product((True, False), repeat=8):
        estimate = what_if.truncated(recording(played(hits, 3)), length)
        num_rounds = len(played(hits, length))
        assert estimate.bounds is not None
        low, high = estimate.bounds
        assert low - 1e-9 <= 8 / num_rounds <= high + 1e-9
        assert low - 1e-9 <= estimate.tau <= high + 1e-9
        expected += 8 / estimate.tau
        measured += num_rounds
    assert expected == pytest.approx(measured, rel=0.03)


def test_known_guesses_leave_nothing_to_estimate() -> None:
    """No round kept all four, so every token of the answer was guessed at."""
    hits = [True, True, False] * 6 + [False]
    estimate = what_if.truncated(recording(played(hits, 4)), 1)
    assert estimate.bounds == (estimate.tau, estimate.tau)
    assert estimate.tau == pytest.approx(19 / len(played(hits, 1)))


def clumped(luck: random.Random, count: int, rates: tuple[float, float]) -> list[bool]:
    """Right guesses in stretches of 20 tokens, easy and hard in turn."""
    return [luck.random() < rates[(i // 20) % 2] for i in range(count)]


def test_by_position_is_right_where_places_are_alike_and_too_low_where_not() -> None:
    """What the docstring says of it, measured: the heads' estimate on a text-alone drafter."""
    luck = random.Random(5)
    for rates, is_alike in (((0.7, 0.7), True), ((0.95, 0.3), False)):
        hits = clumped(luck, 3000, rates)
        by_position = what_if.truncated(recording(played(hits, 4), "medusa"), 2).tau
        set_anew = what_if.truncated(recording(played(hits, 4)), 2).tau
        measured = 3000 / len(played(hits, 2))
        assert set_anew == pytest.approx(measured, rel=0.02)
        if is_alike:
            assert by_position == pytest.approx(measured, rel=0.02)
        else:
            assert by_position < 0.97 * measured


def test_a_shorter_draft_reads_and_drafts_less() -> None:
    rounds = recording(played([True, True, False] * 10, 4))
    one, four = (what_if.truncated(rounds, k) for k in (1, 4))
    assert one.rho < four.rho
    assert four.rho == pytest.approx(rounds.account.rho, rel=0.02)
    costs = rounds.account.costs
    assert one.rho == pytest.approx(costs.delta(2) + costs.draft_step + costs.host, rel=0.02)


def test_a_drafter_that_makes_a_pass_per_level_makes_fewer() -> None:
    """By position: one pass for one level; a drafter with one pass for all levels keeps it."""
    (round_, *_) = played([True] * 9, 4)
    assert replayed(round_, frozenset({1}), 1).shape == Shape(num_rows=2, num_steps=1)
    at_once = replace(round_, draft_step_seconds=(0.1,))
    assert replayed(at_once, frozenset({1, 2}), 2).shape == Shape(num_rows=3, num_steps=1)
    assert replayed(round_, frozenset({1})).shape.num_steps == 4


@pytest.mark.parametrize("name", recorded.NAMES)
def test_what_was_recorded_is_estimated_as_it_was_measured(name: str) -> None:
    for lane in recorded.recordings(name):
        whole = what_if.budgeted(lane, 1000)
        assert whole.tau == pytest.approx(lane.account.tau)
        assert whole.rho == pytest.approx(lane.account.rho)
        deepest = what_if.truncated(lane, lane.deepest)
        if lane.is_text_alone:
            assert deepest.bounds is not None
            assert deepest.bounds[0] <= lane.account.tau + 1e-9
            assert lane.account.tau <= deepest.bounds[1] + 1e-9
        else:
            assert deepest.tau == pytest.approx(lane.account.tau)


@pytest.mark.parametrize("name", recorded.NAMES)
def test_the_oracle_is_never_slower_than_any_one_length(name: str) -> None:
    for lane in recorded.recordings(name):
        fixed = [what_if.truncated(lane, k).speedup for k in range(1, lane.deepest + 1)]
        assert what_if.oracle(lane).speedup >= max(fixed) - 1e-9
        found = best.best_length(lane)
        assert found is not None
        assert found.estimate.speedup >= max(fixed)


def test_the_oracle_by_position_is_the_best_of_all_combinations() -> None:
    lane = recording(played([True, False, True, True, True, False, False, True, True], 3), "medusa")
    lengths = range(lane.deepest + 1)
    speeds = []
    for chosen in product(lengths, repeat=len(lane.rounds)):
        kept = [
            replayed(r, frozenset(range(1, min(k, len(r.tree) - 1) + 1)), k)
            for r, k in zip(lane.rounds, chosen, strict=True)
        ]
        costs = sum(lane.cost(r.shape) for r in kept) * lane.scale
        speeds.append(sum(r.num_tokens for r in kept) / costs)
    assert what_if.oracle(lane).speedup == pytest.approx(max(speeds))


def test_the_oracle_drafts_nothing_where_nothing_is_right() -> None:
    rounds = recording(played([False] * 12, 4))
    assert what_if.oracle(rounds).tau == 1.0
    assert what_if.oracle(rounds).rho < what_if.truncated(rounds, 1).rho


def bushy() -> Recording:
    rounds = list(decode(1, bushy_trees(), seconds=(0.004, 0.030, 0.0006)))
    plain = list(decode(0, plain_trees(), seconds=(0.0, 0.021, 0.0002)))
    return Recording(lane_start(1, "medusa"), rounds, cost.account(rounds, plain))


def test_without_branches_one_path_is_left() -> None:
    lane = bushy()
    for round_ in lane.rounds:
        rows = sorted(kept_of_chain(round_.tree))
        assert [round_.tree.parents[row] for row in rows] == [0, *rows[:-1]][: len(rows)]
    chain = what_if.unbranched(lane)
    assert 1 <= chain.tau < lane.account.tau
    assert chain.rho <= lane.account.rho


def test_a_chain_has_no_branches_to_drop() -> None:
    rounds = list(decode(1, chain_trees(), seconds=(0.012, 0.026, 0.0004)))
    plain = list(decode(0, plain_trees(), seconds=(0.0, 0.021, 0.0002)))
    lane = Recording(lane_start(1, "eagle"), rounds, cost.account(rounds, plain))
    assert what_if.unbranched(lane).tau == pytest.approx(lane.account.tau)
    assert what_if.unbranched(lane).rho == pytest.approx(lane.account.rho)


def test_a_smaller_budget_keeps_the_likeliest_rows_and_their_parents() -> None:
    """Among all closed choices of three rows, the one with the largest sum of path chances."""
    tree = DraftTree((0, 1, 2, 3, 4, 5), (-1, 0, 0, 1, 1, 2))
    round_ = replace(
        made_round(tree, greedy_verdict(tree, (1, 4, 7))),
        draft_probs=(1.0, 0.6, 0.3, 0.2, 0.7, 0.9),
    )
    assert kept_in_budget(round_, 4) == {1, 4, 2}
    assert kept_in_budget(round_, 1) == frozenset()
    assert replayed(round_, kept_in_budget(round_, 3)).num_tokens == 3
    assert replayed(round_, kept_in_budget(round_, 2)).num_tokens == 2
    assert replayed(round_, frozenset()).num_tokens == 1


def test_a_budget_yields_less_the_smaller_it_is() -> None:
    lane = bushy()
    taus = [what_if.budgeted(lane, rows).tau for rows in range(1, 40)]
    assert taus == sorted(taus)
    assert taus[0] == 1.0
    assert taus[-1] == pytest.approx(lane.account.tau)


def test_a_dropped_stop_token_is_added_by_the_target_itself() -> None:
    """The walk ended on draft token 2 of 3; with one draft the target says that token itself."""
    tree = DraftTree.chain(0, (1, 2, 3))
    cut = made_round(tree, greedy_verdict(tree, (1, 2, 3, 4)).cut(2, tree))
    assert replayed(cut, frozenset({1, 2, 3})).num_tokens == 2
    assert replayed(cut, frozenset({1})).num_tokens == 2


def test_at_other_costs_the_same_tokens_cost_what_is_given() -> None:
    lane = recording(played([True] * 25, 4))
    costs = Costs(draft_step=0.2, host=0.1, reads=((1, 1.0), (5, 1.4)))
    estimate = what_if.at_costs(lane, costs)
    assert estimate.tau == pytest.approx(lane.account.tau)
    assert estimate.rho == pytest.approx(1.4 + 4 * 0.2 + 0.1)
    small = replace(costs, reads=((1, 1.0), (2, 1.1)))
    said = [key for key, _ in what_if.at_costs(lane, small).assumes]
    assert said == ["verdict.assume.given_costs", "verdict.assume.beyond"]


def test_an_estimate_says_how_to_measure_it_and_what_it_assumes() -> None:
    lane = recording(played([True, False] * 8, 4))
    estimate = what_if.truncated(lane, 2)
    assert estimate.measure == (("num_draft_tokens", 2),)
    assert [key for key, _ in estimate.assumes][0] == "verdict.assume.set_anew"
    adaptive = replace(lane.start, knobs=lane.start.knobs | {"is_adaptive": True})
    fixed = what_if.truncated(Recording(adaptive, lane.rounds, lane.account), 2).measure
    assert fixed == (("num_draft_tokens", 2), ("is_adaptive", False))
    bare = replace(lane.start, knobs={})
    assert what_if.truncated(Recording(bare, lane.rounds, lane.account), 2).measure == ()


def test_a_budget_that_a_shorter_draft_would_fill_anew_is_mentioned() -> None:
    """EAGLE-2 at less depth reads other rows instead, which the recording never read."""
    lane = bushy()
    budgeted = replace(lane.start, knobs={"depth": 4, "budget": 16})
    with_budget = Recording(budgeted, lane.rounds, lane.account)
    keys = [[key for key, _ in what_if.truncated(x, 2).assumes] for x in (lane, with_budget)]
    assert "verdict.assume.refill" not in keys[0]
    assert "verdict.assume.refill" in keys[1]
    whole = what_if.truncated(with_budget, with_budget.deepest).assumes
    assert "verdict.assume.refill" not in [key for key, _ in whole]


def test_refused_siblings_are_mentioned_under_sampling_alone() -> None:
    lane = bushy()
    drawn = [
        replace(
            r,
            verdict=replace(
                r.verdict, trials=tuple(replace(t, threshold=0.5) for t in r.verdict.trials)
            ),
        )
        for r in lane.rounds
    ]
    sampled = Recording(lane.start, drawn, lane.account)
    keys = [[key for key, _ in what_if.budgeted(x, 4).assumes] for x in (lane, sampled)]
    assert "verdict.assume.siblings" not in keys[0]
    assert "verdict.assume.siblings" in keys[1]


def test_another_temperature_is_estimated_only_for_guesses_that_are_chosen() -> None:
    lanes = {r.start.drafter: r for r in recorded.recordings("code_fibonacci")}
    estimate = what_if.at_temperature_one(lanes["prompt_lookup"])
    assert 1 < estimate.tau < lanes["prompt_lookup"].account.tau, "a greedy text is easier"
    with pytest.raises(Refusal, match="draft_model would draw other guesses"):
        what_if.at_temperature_one(lanes["draft_model"])


def test_trees_that_grow_are_chosen_and_the_chains_of_their_drafters_are_drawn() -> None:
    """draft_model and mtp draft both; a lane says which by its number of branches."""
    start = recording(played([True] * 8, 4)).start
    for drafter in ("draft_model", "mtp"):
        for knobs, is_chosen in (({"top_k": 4}, True), ({"top_k": 1}, False), ({}, False)):
            lane = recording(played([True] * 8, 4))
            told = replace(start, drafter=drafter, knobs=knobs)
            assert Recording(told, lane.rounds, lane.account).is_chosen == is_chosen
    bushy_draft = replace(bushy().start, drafter="draft_model")
    assert not Recording(bushy_draft, bushy().rounds, bushy().account).is_text_alone


def test_what_the_trace_does_not_hold_is_refused() -> None:
    with pytest.raises(Refusal, match="from 1 to 4 deep; got 5"):
        what_if.truncated(recording(played([True] * 25, 4), "medusa"), 5)
    with pytest.raises(Refusal, match="got 0"):
        what_if.truncated(recording(played([True] * 25, 4)), 0)
    with pytest.raises(Refusal, match="1 at least"):
        what_if.budgeted(recording(played([True] * 25, 4)), 0)
    assert best.best_length(recording(played([False] * 5, 0))) is None
    with pytest.raises(Refusal, match="drafted nothing"):
        what_if.truncated(recording(played([False] * 5, 0)), 1)
