"""Every number's definition, on rounds small enough to count by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz import metrics
from specviz.trace import RoundTrace
from specviz.tree import DraftTree
from tests.traces import greedy_verdict, round_trace

# Three rounds of a chain of 2 drafts each: both kept, first kept, none kept. Answer 1 2 3 4 5 6 ...
GUESSES = ((1, 2), (4, 50), (51, 52))


def chain_round(guess: tuple[int, ...], answer: tuple[int, ...], **facts: object) -> RoundTrace:
    tree = DraftTree.chain(0, guess)
    return round_trace(tree, greedy_verdict(tree, answer), **facts)  # type: ignore[arg-type]


@pytest.fixture
def rounds() -> list[RoundTrace]:
    answers = ((1, 2, 3), (4, 5), (6, 7))
    return [
        chain_round(g, a, seconds=(1.0, 2.0, 0.5)) for g, a in zip(GUESSES, answers, strict=True)
    ]


@pytest.fixture
def plain() -> list[RoundTrace]:
    return [chain_round((), (token, 0), seconds=(0.0, 1.75, 0.25)) for token in range(1, 7)]


def test_tokens_drafts_and_acceptance(rounds: list[RoundTrace]) -> None:
    assert metrics.answer_tokens(rounds) == (1, 2, 3, 4, 5, 6)
    assert metrics.num_tokens(rounds) == 6
    assert metrics.mean_acceptance_length(rounds) == 2.0
    assert (metrics.num_drafted(rounds), metrics.num_accepted(rounds)) == (6, 3)
    assert metrics.acceptance_rate(rounds) == 0.5


def test_a_draft_that_is_never_right_has_length_one_and_no_accepted_token() -> None:
    """The target's own token counts: 1.0 tokens a pass, and 0 accepted drafts."""
    rounds = [chain_round((50, 51), (token, 0)) for token in range(5)]
    assert metrics.mean_acceptance_length(rounds) == 1.0
    assert metrics.acceptance_rate(rounds) == 0.0


def test_nothing_drafted_has_no_rate(plain: list[RoundTrace]) -> None:
    assert metrics.acceptance_rate(plain) is None
    assert metrics.acceptance_by_depth(plain) == ()
    assert metrics.mean_acceptance_length(plain) == 1.0


def test_acceptance_by_depth_counts_survivors(rounds: list[RoundTrace]) -> None:
    first, second = metrics.acceptance_by_depth(rounds)
    assert (first.depth, first.num_reached, first.num_accepted) == (1, 3, 2)
    assert (second.depth, second.num_reached, second.num_accepted) == (2, 2, 1)
    assert (first.rate, second.rate) == (2 / 3, 1 / 2)


def test_a_stop_on_a_draft_token_is_no_rejection_of_the_next() -> None:
    """After a stop nobody asked for the next depth, so it must not count as refused there."""
    tree = DraftTree.chain(0, (1, 2, 3))
    verdict = greedy_verdict(tree, (1, 2, 3, 4)).cut(2, tree)
    cut = round_trace(tree, verdict)
    assert [(d.num_reached, d.num_accepted) for d in metrics.acceptance_by_depth([cut])] == [
        (1, 1),
        (1, 1),
    ]


def test_speed_and_its_parts(rounds: list[RoundTrace], plain: list[RoundTrace]) -> None:
    split = metrics.time_split(rounds)
    assert (split.draft_seconds, split.verify_seconds, split.commit_seconds) == (3.0, 6.0, 1.5)
    assert metrics.tokens_per_second(rounds) == pytest.approx(6 / 10.5)
    assert metrics.tokens_per_second(plain) == pytest.approx(0.5)
    assert metrics.speedup(rounds, plain) == pytest.approx(6 / 10.5 / 0.5)
    assert metrics.rho(rounds, plain) == pytest.approx(3.5 / 2.0)
    tau = metrics.mean_acceptance_length(rounds)
    assert metrics.speedup(rounds, plain) == pytest.approx(tau / metrics.rho(rounds, plain))


def test_the_first_difference_and_its_gap(plain: list[RoundTrace]) -> None:
    assert metrics.first_difference(plain, plain) is None
    assert metrics.first_difference(plain[:3], plain) is None  # not there yet is not different
    other = [*plain[:3], chain_round((), (40, 0))]
    gaps = [
        replace(r, odds=round_trace(r.tree, r.verdict, gap=i).odds) for i, r in enumerate(plain)
    ]
    difference = metrics.first_difference(other, gaps)
    assert difference is not None
    assert (difference.position, difference.top_two_gap) == (3, 3.0)
