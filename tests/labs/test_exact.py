"""Rules of acceptance: enumeration against p, draws against enumeration, and the engine among them."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from specviz.labs import draws, exact
from specviz.labs.exact import Odds, output_of
from specviz.ui import labs_exact
from specviz.words import Refusal

P, Q = (0.5, 0.2, 0.15, 0.1, 0.05), (0.1, 0.35, 0.3, 0.05, 0.2)
WRONG = exact.RULES[1:]


def odds(num_siblings: int = 2, is_sampled: bool = True, **other: Any) -> Odds:
    return exact.checked(
        Odds(other.get("p", P), other.get("q", Q), tuple("abcde"), num_siblings, is_sampled)
    )


@pytest.mark.parametrize("is_sampled", [True, False])
@pytest.mark.parametrize("num_siblings", [1, 2, 3])
def test_the_right_rule_gives_p_exactly(num_siblings: int, is_sampled: bool) -> None:
    assert output_of("right", odds(num_siblings, is_sampled)) == pytest.approx(P, abs=1e-12)


@pytest.mark.parametrize("is_sampled", [True, False])
@pytest.mark.parametrize("rule", WRONG)
def test_a_wrong_rule_gives_a_distribution_that_is_not_p(rule: Any, is_sampled: bool) -> None:
    found = output_of(rule, odds(2, is_sampled))
    assert found.sum() == pytest.approx(1)
    assert exact.divergence(tuple(found), P) > 0.01


def test_with_one_guess_there_is_no_sibling_to_get_wrong() -> None:
    for is_sampled in (True, False):
        assert output_of("siblings_kept", odds(1, is_sampled)) == pytest.approx(P, abs=1e-12)


@pytest.mark.parametrize("rule", exact.RULES)
def test_draws_by_a_rule_are_what_enumeration_says(rule: Any) -> None:
    counts = exact.drawn(rule, odds(), 40_000, np.random.default_rng(2))
    assert counts / 40_000 == pytest.approx(output_of(rule, odds()), abs=0.012)


@pytest.mark.parametrize("is_sampled", [True, False])
def test_the_chance_of_a_kept_guess_is_told_where_it_is_drawn(is_sampled: bool) -> None:
    """0.1 + 0.2 + 0.15 + 0.05 + 0.05: of each token the smaller of p and q."""
    last = list(draws.experiment(odds(is_sampled=is_sampled), num_draws=100, seed=1))[-1]
    said = labs_exact.paint("en", last)[0]
    assert ("kept with probability Σ min(p, q) = 0.55." in said) == is_sampled


def test_the_engine_comes_to_p_and_wrong_rules_do_not() -> None:
    steps = list(draws.experiment(odds(), num_draws=3000, seed=1))
    last = steps[-1]
    assert last.is_over
    assert [curve.rule for curve in last.curves] == list(exact.RULES)
    limit = exact.chi_square_limit(P)
    right, *wrong = last.curves
    assert sum(right.counts) == right.num_draws[-1] == 3000
    assert right.chi_square(last.odds) < limit
    assert right.divergences[-1] < right.divergences[0]
    for curve in wrong:
        assert curve.chi_square(last.odds) > 4 * limit
        assert curve.divergences[-1] == pytest.approx(
            exact.divergence(tuple(output_of(curve.rule, last.odds)), P), abs=0.05
        )


def test_siblings_are_drawn_as_enumeration_says() -> None:
    found = draws.drafted(odds(), 20_000, np.random.default_rng(3))
    for siblings, chance in exact.drafts(odds()):
        assert found.count(siblings) / 20_000 == pytest.approx(chance, abs=0.012)


def test_divergence_and_chi_square_by_hand() -> None:
    assert exact.divergence((1, 0), (0.5, 0.5)) == pytest.approx(math.log(2))
    assert exact.divergence((1, 1), (1.0, 0.0)) == math.inf
    assert exact.chi_square((30, 10), (0.5, 0.5)) == 10
    assert exact.chi_square_limit((0.2,) * 5) == pytest.approx(18.467, rel=0.02)  # tables


def test_marks_end_at_the_number_asked_for() -> None:
    assert draws.marks_to(100_000)[-1] == 100_000
    assert draws.marks_to(7) == (7,)
    assert all(a < b for a, b in pairwise(draws.marks_to(1000)))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"p": (0.5, -0.1, 0.2, 0.2, 0.2)}, "p needs"),
        ({"q": (0.0,) * 5, "is_sampled": False}, "q needs"),
        ({"q": (1.0, 0.0, 0.0, 0.0, 0.0)}, "from 1 to 1"),
        ({"q": (0.5, 0.5)}, "as many"),
        ({"p": (1.0,), "q": (1.0,)}, "from 2 to"),
        ({"num_siblings": 4}, "from 1 to 3"),
    ],
)
def test_what_is_no_pair_of_distributions_is_refused(changes: Any, sentence: str) -> None:
    with pytest.raises(Refusal, match=sentence):
        odds(**changes)
