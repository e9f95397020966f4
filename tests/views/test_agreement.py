"""Identical, different by rounding, different by a fault, or different by right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from specviz import metrics
from specviz.config import SamplingParams
from specviz.metrics import near_tie_gap
from specviz.views.agreement import Comparison
from tests.traces import ids, lane_start, odds

A, B, C = ids("Reading", " a", " model")


class CountedReads(Sequence[int]):
    """A list that counts how often an element is looked at."""

    def __init__(self, values: list[int]) -> None:
        self.values, self.reads = values, 0

    def __getitem__(self, index: Any) -> Any:
        self.reads += 1
        return self.values[index]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[int]:
        self.reads += len(self.values)
        return iter(self.values)


def compare(ours: list[int], plain: list[int], *, gap: float = 2.0, **lane: Any) -> Any:
    start = lane_start(1, "draft_model", **lane)
    plain_odds = [odds(t, gap=gap) for t in plain]
    return Comparison(start, "bfloat16").update(ours, plain, plain_odds)


def test_identical_as_far_as_both_have_come() -> None:
    found = compare([A, B, C], [A, B])
    assert (found.state, found.num_tokens) == ("identical", 2)
    assert found.sentence == "identical to plain for 2 tokens"


def test_first_difference_is_counted_from_one_and_names_the_gap() -> None:
    found = compare([A, C], [A, B], gap=0.75)
    assert (found.state, found.num_tokens, found.top_two_gap) == ("differs", 1, 0.75)
    assert found.sentence == (
        "first difference at token 2: top two logits differ by 0.75 (not a near-tie): "
        "␣a 14, ␣model 13.25"
    )


def test_two_steps_of_the_dtype_are_a_near_tie() -> None:
    """bfloat16 keeps 8 bits: between 8 and 16 its step is 1/16, between 16 and 32 it is 1/8."""
    assert near_tie_gap(odds(A, top=14.0), "bfloat16") == 2 / 16
    assert near_tie_gap(odds(A, top=16.0), "bfloat16") == 2 / 8
    assert near_tie_gap(odds(A, top=-20.0, gap=-1.0), "torch.bfloat16") == 2 / 8
    assert near_tie_gap(odds(A, top=1.0, gap=0.5), "float32") == 2 * 2.0**-23
    assert "near-tie, rounding" in compare([A, C], [A, B], gap=0.125).sentence
    assert "not a near-tie" in compare([A, C], [A, B], gap=0.126).sentence


def test_a_difference_stays_where_it_was_found() -> None:
    comparison = Comparison(lane_start(1, "draft_model"), "float32")
    first = comparison.update([A, C], [A, B], [odds(A), odds(B)])
    assert comparison.update([A, C, A], [A, B, A], [odds(A), odds(B), odds(A)]) == first


def test_independent_draws_are_not_counted_against_a_lane() -> None:
    warm = SamplingParams(temperature=0.8)
    assert compare([A, C], [A, B], sampling=warm).state == "independent"
    coupled = compare([A, C], [A, B], sampling=warm, verification="coupled")
    assert coupled.state == "differs"
    assert "logits" not in coupled.sentence


def test_a_lossy_lane_is_called_lossy_only_where_it_differs() -> None:
    assert compare([A, B], [A, B], exactness="lossy").state == "identical"
    assert compare([A, C], [A, B], exactness="lossy").state == "lossy"


@pytest.mark.parametrize("length", [10, 100])
def test_each_token_is_looked_at_once(length: int) -> None:
    comparison = Comparison(lane_start(1, "draft_model"), "float32")
    ours, plain = CountedReads([]), CountedReads([])
    for _ in range(length):
        ours.values.append(A)
        plain.values.append(A)
        comparison.update(ours, plain, [])
    assert (ours.reads, plain.reads) == (length, length)


def test_agrees_with_metrics_on_where_lanes_part() -> None:
    from tests.traces import ANSWER, chain_trees, decode, plain_trees

    other = [*ids(*ANSWER[:7]), *ids(*ANSWER[8:20])]
    plain = list(decode(0, plain_trees()))
    ours = list(decode(1, chain_trees(other), answer=other))
    difference = metrics.first_difference(ours, plain)
    answers = metrics.answer_tokens(ours), metrics.answer_tokens(plain)
    found = Comparison(lane_start(1, "draft_model"), "float32").update(
        *answers, [o for r in plain for o in r.odds]
    )
    assert difference is not None
    assert (found.num_tokens, found.top_two_gap) == (7, 2.0)
    assert (difference.position, difference.top_two_gap) == (7, 2.0)
