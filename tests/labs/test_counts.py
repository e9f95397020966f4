"""The labs of greedy acceptance and of alpha, against what a formula or plain decoding says."""

from __future__ import annotations

from typing import Any

import pytest

from specviz.labs import alpha, greedy
from specviz.theory import expected_tokens


def test_a_perfect_draft_keeps_everything() -> None:
    found = greedy.count(greedy.models(3, 0.0), 4, seed=3)
    assert found.num_accepted == 4 * found.num_passes
    assert found.counted == found.formula == 5
    assert found.num_same == greedy.NUM_PROMPTS


@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0])
def test_whatever_the_draft_the_answers_are_the_targets(noise: float) -> None:
    for found in greedy.sweep(seed=1, noise=noise, max_draft_tokens=5):
        assert found.num_same == greedy.NUM_PROMPTS
        assert found.counted == pytest.approx(found.formula, rel=0.2)
    assert found.num_accepted < 5 * found.num_passes


@pytest.mark.parametrize("broken", ["keep_all", "draft_word"])
def test_a_broken_rule_writes_another_text(broken: Any) -> None:
    assert greedy.count(greedy.models(1, 1.0), 4, 1, broken).num_same < greedy.NUM_PROMPTS / 2


def test_counts_of_alpha_lie_on_the_formula() -> None:
    for found in alpha.sweep(num_draft_tokens=4, num_rounds=20_000, seed=5):
        assert found.formula == pytest.approx((1 - found.alpha**5) / (1 - found.alpha))
        assert abs(found.mean - found.formula) < 2 * found.half
        assert found.share_of_most == pytest.approx(1 - found.alpha**5)


def test_broken_counts_of_alpha_do_not() -> None:
    def at(broken: alpha.Break) -> alpha.AlphaCount:
        return alpha.count(0.7, 4, 20_000, 5, broken)

    assert at("no_own").mean == pytest.approx(expected_tokens(0.7, 4) - 1, abs=0.05)
    assert at("after_refusal").mean == pytest.approx(1 + 4 * 0.7, abs=0.05)
    rate = (expected_tokens(0.7, 4) - 1) / 4  # accepted / drafted is well below alpha
    assert at("rate").shown_alpha == pytest.approx(rate, abs=0.02)
