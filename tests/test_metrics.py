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


def test_tallies_of_two_prompts_add_up_to_that_of_all_their_rounds(
    rounds: list[RoundTrace],
) -> None:
    """Depths differ in number: the second prompt never got past its first draft token."""
    short = [chain_round((50, 51), (8, 9), seconds=(0.5, 1.0, 0.5))]
    both = metrics.tally(rounds) + metrics.tally(short)
    assert both == metrics.tally(short) + metrics.tally(rounds)
    assert both == metrics.tally([*rounds, *short])
    assert (both.num_rounds, both.num_tokens, both.num_rows) == (4, 7, 12)
    assert [(d.num_reached, d.num_accepted) for d in both.depths] == [(4, 2), (2, 1)]
    assert (both.tau, both.accepted_per_round, both.acceptance_rate) == (7 / 4, 3 / 4, 3 / 8)
    assert both.time.seconds == pytest.approx(12.5)


def test_without_the_targets_own_token_a_cut_round_counts_what_it_kept() -> None:
    """A stop on the first draft token: one token, accepted, and none of the target's own."""
    tree = DraftTree.chain(0, (1, 2))
    cut = metrics.tally([round_trace(tree, greedy_verdict(tree, (1, 2, 3)).cut(1, tree))])
    assert (cut.tau, cut.accepted_per_round) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("values", "quartiles"),
    [
        ([3.0], (3, 3, 3)),
        ([4.0, 1.0, 2.0, 3.0], (1.75, 2.5, 3.25)),
        ([1.0, 2.0], (1.25, 1.5, 1.75)),
    ],
)
def test_quartiles_lie_between_the_values(
    values: list[float], quartiles: tuple[float, float, float]
) -> None:
    found = metrics.spread(values)
    assert (found.low, found.median, found.high) == quartiles


def test_a_difference_is_a_near_tie_by_the_steps_of_the_dtype(plain: list[RoundTrace]) -> None:
    """Logits of 14 and 14 - 1/8: two bfloat16 steps apart, a hundred thousand of float32."""
    near = [replace(r, odds=round_trace(r.tree, r.verdict, gap=0.125).odds) for r in plain]
    difference = metrics.first_difference([chain_round((), (40, 0))], near)
    assert difference is not None
    assert difference.is_near_tie("bfloat16")
    assert not difference.is_near_tie("float32")


@pytest.mark.parametrize(
    ("num_hits", "num_tries", "low", "high"),
    [(5, 10, 0.2366, 0.7634), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (1, 1, 0.2065, 1.0)],
)
def test_the_interval_of_a_rate_is_wilsons(
    num_hits: int, num_tries: int, low: float, high: float
) -> None:
    """Worked values of the score interval at 95 %, as tables of it print them."""
    assert metrics.interval(num_hits, num_tries) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("answer", "share"),
    [((1, 2, 3, 4), 1.0), ((9, 1, 2, 9), 0.0), ((2, 3, 4, 9, 9), 1 / 3), ((1, 2), None)],
)
def test_the_copied_share_counts_runs_that_stand_in_the_prompt(
    answer: tuple[int, ...], share: float | None
) -> None:
    assert metrics.copied_share((1, 2, 3, 4, 5), answer, 3) == share


def test_the_longest_loop_has_its_shortest_phrase() -> None:
    assert metrics.longest_loop((7, 1, 2, 1, 2, 1, 2, 1, 9), 3) == metrics.Loop(1, 2, 7)
    assert metrics.longest_loop((5, 5, 5, 5), 3) == metrics.Loop(0, 1, 4)
    assert metrics.longest_loop((1, 2, 3, 1, 2, 3, 4), 3) is None, "said twice is no loop"
    assert metrics.longest_loop((), 3) is None


def test_a_loop_is_found_wherever_it_stands() -> None:
    """Planted in tokens that never repeat, at every place and of several periods."""
    for start in range(0, 12, 3):
        for period in (1, 2, 5):
            phrase = tuple(range(100, 100 + period))
            text = (*range(start), *phrase * 4, *range(200, 206))
            assert metrics.longest_loop(text, 3) == metrics.Loop(start, period, 4 * period)
