"""The formulas, against worked values, limits, brute force and simulated rounds."""

from __future__ import annotations

import math
import random
from itertools import pairwise, product

import pytest

from specviz import theory
from specviz.metrics import DepthAcceptance
from specviz.theory import Costs

ALPHAS = [0.0, 0.05, 0.2, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.999, 1.0]
FREE = Costs(draft_step=0.0, host=0.0, reads=((1, 1.0),))
MEASURED = Costs(draft_step=0.12, host=0.05, reads=((1, 0.96), (4, 1.1), (8, 1.2), (16, 1.6)))


def accepted_in(alpha: float, length: int, luck: random.Random) -> int:
    """A round of a chain, played token by token."""
    count = 0
    while count < length and luck.random() < alpha:
        count += 1
    return count


@pytest.mark.parametrize(("length", "tokens"), [(4, 3.36), (5, 3.69)])
def test_expected_tokens_at_alpha_08(length: int, tokens: float) -> None:
    assert theory.expected_tokens(0.8, length) == pytest.approx(tokens, abs=0.005)


@pytest.mark.parametrize("alpha", [a for a in ALPHAS if a < 1])
@pytest.mark.parametrize("length", [0, 1, 3, 16])
def test_expected_tokens_is_the_closed_form(alpha: float, length: int) -> None:
    closed = (1 - alpha ** (length + 1)) / (1 - alpha)
    assert theory.expected_tokens(alpha, length) == pytest.approx(closed, rel=1e-9)


@pytest.mark.parametrize("length", [1, 2, 4])
def test_expected_tokens_is_the_mean_over_all_outcomes(length: int) -> None:
    """Every pattern of kept and refused drafts, with its probability."""
    alpha, mean = 0.7, 0.0
    for pattern in product((True, False), repeat=length):
        weight = math.prod(alpha if kept else 1 - alpha for kept in pattern)
        first_refusal = (*pattern, False).index(False)
        mean += weight * (first_refusal + 1)
    assert theory.expected_tokens(alpha, length) == pytest.approx(mean)


def test_the_limits_of_alpha() -> None:
    for length in range(6):
        assert theory.expected_tokens(1.0, length) == length + 1
        assert theory.expected_tokens(0.0, length) == 1.0
    assert theory.expected_tokens(0.8, 500) == pytest.approx(theory.most_tokens(0.8))
    assert theory.most_tokens(1.0) == math.inf


def test_more_agreement_and_longer_drafts_never_yield_less() -> None:
    for length in range(1, 12):
        yields = [theory.expected_tokens(a, length) for a in ALPHAS]
        assert all(a < b for a, b in pairwise(yields))
    for alpha in ALPHAS:
        yields = [theory.expected_tokens(alpha, k) for k in range(12)]
        gains = [b - a for a, b in pairwise(yields)]
        assert all(gain >= 0 for gain in gains)
        assert all(b <= a + 1e-12 for a, b in pairwise(gains)), "returns diminish"


@pytest.mark.parametrize("alpha", [-0.1, 1.1, math.nan])
def test_an_alpha_outside_of_0_to_1_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        theory.expected_tokens(alpha, 4)


def test_alpha_is_where_the_likelihood_is_largest() -> None:
    """Brute force over a fine grid, on rounds of unequal length, some of them censored."""
    accepted, drafted = [4, 2, 0, 3, 5, 1, 0], [4, 4, 4, 3, 6, 2, 1]

    def log_likelihood(alpha: float) -> float:
        terms = [
            a * math.log(alpha) + (math.log(1 - alpha) if a < k else 0.0)
            for a, k in zip(accepted, drafted, strict=True)
        ]
        return sum(terms)

    best = max((i / 10_000 for i in range(1, 10_000)), key=log_likelihood)
    fitted = theory.fit_alpha(accepted, drafted)
    assert fitted is not None
    assert fitted.rate == pytest.approx(best, abs=1e-4)
    assert (fitted.num_accepted, fitted.num_tried) == (15, 20)


def test_alpha_at_its_ends_and_without_data() -> None:
    always, never = theory.fit_alpha([3, 3], [3, 3]), theory.fit_alpha([0, 0], [3, 3])
    assert always is not None
    assert never is not None
    assert (always.rate, never.rate) == (1.0, 0.0)
    assert theory.fit_alpha([], []) is None
    assert theory.fit_alpha([0], [0]) is None, "a round without drafts decides nothing"
    with pytest.raises(ValueError, match="got 3 of 2"):
        theory.fit_alpha([3], [2])


def test_alpha_is_recovered_and_accepted_over_drafted_is_not() -> None:
    luck = random.Random(7)
    for alpha in (0.3, 0.6, 0.9):
        accepted = [accepted_in(alpha, 4, luck) for _ in range(20_000)]
        fitted = theory.fit_alpha(accepted, [4] * len(accepted))
        assert fitted is not None
        assert fitted.rate == pytest.approx(alpha, abs=0.01)
        assert sum(accepted) / (4 * len(accepted)) < alpha - 0.05


def test_the_interval_holds_the_truth_nineteen_times_in_twenty() -> None:
    luck, held, num_runs = random.Random(11), 0, 2000
    for run in range(num_runs):
        alpha = (0.4, 0.7, 0.85)[run % 3]
        fitted = theory.fit_alpha([accepted_in(alpha, 4, luck) for _ in range(40)], [4] * 40)
        assert fitted is not None
        low, high = fitted.interval
        held += low <= alpha <= high
    assert 0.935 <= held / num_runs <= 0.97


def test_alpha_of_depths_is_alpha_of_the_rounds() -> None:
    """Rounds of 2 drafts that keep 2, 1, 0: three ask at depth 1, two at depth 2."""
    depths = (DepthAcceptance(1, 3, 2), DepthAcceptance(2, 2, 1))
    assert theory.alpha_of(depths) == theory.fit_alpha([2, 1, 0], [2, 2, 2])
    assert theory.alpha_of(()) is None


def test_the_chance_to_keep_is_what_p_and_q_share() -> None:
    """Worked by the rule itself: draw x from q, keep it with min(1, p/q)."""
    p, q = (0.5, 0.3, 0.2, 0.0), (0.1, 0.6, 0.1, 0.2)
    by_rule = sum(b * min(1.0, a / b) for a, b in zip(p, q, strict=True))
    assert theory.acceptance_probability(p, q) == pytest.approx(by_rule)
    assert theory.acceptance_probability(p, p) == pytest.approx(1.0)
    assert theory.acceptance_probability((1, 0), (0, 1)) == 0.0


def test_a_free_draft_gives_all_its_tokens_as_speed() -> None:
    choice = theory.predicted(0.8, 4, FREE)
    assert (choice.rho, choice.speedup) == (1.0, pytest.approx(3.3616))


@pytest.mark.parametrize(("alpha", "c", "length"), [(0.75, 0.02, 7), (0.8, 0.1, 5), (0.5, 0.3, 2)])
def test_the_speedup_is_leviathans_where_reads_cost_one_step(
    alpha: float, c: float, length: int
) -> None:
    costs = Costs(draft_step=c, host=0.0, reads=((1, 1.0),))
    theirs = (1 - alpha ** (length + 1)) / ((1 - alpha) * (length * c + 1))
    assert theory.predicted(alpha, length, costs).speedup == pytest.approx(theirs)


def test_a_read_between_two_measured_ones_costs_between_them() -> None:
    assert MEASURED.delta(4) == 1.1
    assert MEASURED.delta(6) == pytest.approx(1.15)
    assert MEASURED.delta(24) == pytest.approx(2.0), "the last slope goes on"
    assert (MEASURED.delta(0.5), FREE.delta(30)) == (0.96, 1.0)
    falling = Costs(0.1, 0.0, ((1, 1.0), (4, 0.9)))  # noise: no larger read is cheaper for it
    assert falling.delta(16) == 0.9
    assert MEASURED.covers(16)
    assert not MEASURED.covers(17)


def test_costs_that_make_no_sense_are_refused() -> None:
    for reads in ((), ((4, 1.0), (1, 1.0)), ((0, 1.0),), ((1, 1.0), (1, 2.0))):
        with pytest.raises(ValueError, match="one entry per number of rows"):
            Costs(0.1, 0.0, reads)
    with pytest.raises(ValueError, match="0 or more"):
        Costs(-0.1, 0.0, ((1, 1.0),))


def test_a_round_costs_the_sum_of_its_parts() -> None:
    rho = theory.round_cost(MEASURED, num_rows=4, num_steps=3)
    assert rho == pytest.approx(1.1 + 3 * 0.12 + 0.05)


def test_at_break_even_the_speedup_is_one() -> None:
    for length in (1, 3, 7):
        for rho in (1.0, 1.3, 1.9):
            alpha = theory.break_even_alpha(rho, length)
            assert alpha is not None
            assert theory.expected_tokens(alpha, length) == pytest.approx(rho)
    assert theory.break_even_alpha(2.01, 1) is None
    assert theory.break_even_alpha(0.9, 1) == 0.0


def test_the_best_length_is_the_best_of_all_lengths() -> None:
    for alpha in ALPHAS:
        best = theory.best_length(alpha, MEASURED, 12)
        speeds = [theory.predicted(alpha, k, MEASURED).speedup for k in range(13)]
        assert best.speedup == max(speeds)
        assert best.num_draft_tokens == speeds.index(max(speeds))


def test_plain_decoding_is_best_where_no_draft_repays() -> None:
    costs = Costs(draft_step=0.9, host=0.1, reads=((1, 1.0), (8, 2.0)))
    assert theory.best_length(0.6, costs, 8) == theory.Choice(0, 1.0, 1.0)


def test_the_best_length_grows_with_agreement_and_shrinks_with_cost() -> None:
    by_alpha = [theory.best_length(a, MEASURED, 16).num_draft_tokens for a in ALPHAS]
    assert by_alpha == sorted(by_alpha)
    cheap, dear = (Costs(c, 0.05, MEASURED.reads) for c in (0.02, 0.3))
    lengths = [theory.best_length(0.8, c, 16).num_draft_tokens for c in (cheap, dear)]
    assert lengths[0] > lengths[1] > 0


def test_another_row_pays_exactly_when_the_speed_grows() -> None:
    for survival in (0.05, 0.1, 0.2, 0.6):
        tau, now, then = 2.0, 1.4, 1.5
        grows = (tau + survival) / then > tau / now
        assert theory.another_row_pays(survival, tau, now, then) == grows


def test_the_nearest_costs_that_never_fall() -> None:
    assert theory.rising([1.0, 1.2, 1.1, 3.0]) == pytest.approx([1.0, 1.15, 1.15, 3.0])
    assert theory.rising([3.0, 2.0, 1.0]) == pytest.approx([2.0, 2.0, 2.0])
    assert theory.rising([]) == []


def test_rows_are_added_as_long_as_they_pay_even_over_a_step_of_the_kernel() -> None:
    """The second row costs as much as four: alone it does not pay, with the next two it does."""
    costs = Costs(0.0, 0.0, ((1, 1.0), (2, 1.8), (4, 1.8), (5, 9.0)))
    assert theory.paying_rows([0.6, 0.5, 0.5, 0.5], costs, 0) == 4
    assert theory.paying_rows([0.6], costs, 0) == 1
    assert theory.paying_rows([], costs, 0) == 1


def test_a_dear_drafter_wants_more_rows_of_each_round() -> None:
    """What a round costs anyway is shared by more rows: the optimum moves out."""
    chances = [0.8**depth for depth in range(1, 16)]
    reads = tuple((n, 1 + 0.1 * (n - 1)) for n in (1, 16))
    cheap = theory.paying_rows(chances, Costs(0.0, 0.0, reads), 4)
    dear = theory.paying_rows(chances, Costs(0.2, 0.0, reads), 4)
    assert 1 < cheap < dear
