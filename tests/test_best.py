"""The best setting of a recorded lane, and the advice that is taken from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz import best, what_if
from specviz.trace import RoundTrace
from specviz.tree import DraftTree
from specviz.verdict import judge
from specviz.what_if import Recording
from specviz.words import tell
from tests.test_verdict import STEP, a_round, case_of
from tests.traces import greedy_verdict, lane_start


def bushy(hits: int, rows: int) -> RoundTrace:
    """`rows` guesses under the root, each half as likely as the one before, the first of them `hits`
    tokens deep and right; a read costs a tenth of a step for each."""
    guesses = [1000 + i for i in range(hits)]
    others = [9 + i for i in range(rows - hits)]
    tree = DraftTree((1, *guesses, *others), (-1, *range(hits), *[0] * len(others)))
    made = a_round(0, 0, first=1000, read=STEP * (1 + 0.1 * rows))
    return replace(
        made,
        tree=tree,
        verdict=greedy_verdict(tree, [*guesses, 5]),
        new_tokens=(*guesses, 5),
        draft_probs=(1.0, *[0.9] * hits, *(0.5 / 2**i for i in range(len(others)))),
        draft_step_seconds=(0.001,) * hits,
        draft_seconds=0.001 * hits,
        rows_written=len(tree),
        rows_kept=hits + 1,
    )


def test_rows_that_are_never_kept_are_advised_away_where_a_knob_can() -> None:
    """EAGLE-1 was told "Shorter drafts (K = 1)", which no knob of it sets."""
    rounds = [bushy(2, 12)] * 24
    start = replace(lane_start(1, "eagle"), knobs={"budget": 13})
    found = judge(case_of(rounds, start=start))
    assert found.advice is not None
    assert tell(found.advice).startswith("A tree of 3 rows would yield 3.00 at 1.")
    fixed = judge(case_of(rounds, start=replace(start, drafter="lookahead", knobs={})))
    assert fixed.advice is None


def test_the_best_width_is_the_best_of_those_that_are_tried() -> None:
    case = case_of([bushy(2, 12)] * 24, start=replace(lane_start(1, "eagle"), knobs={"budget": 13}))
    recording = Recording(case.start, case.rounds, case.account)
    found = best.best_width(recording)
    assert found is not None
    tried = [what_if.budgeted(recording, n).speedup for n in best.spread(2, 12, best.WIDTHS)]
    assert found.estimate.speedup == max(tried)
    assert found.num_rows == 3  # the root and the two that are kept each time
    chain = case_of([a_round(1, 3, first=1000)] * 24)
    assert best.best_width(Recording(chain.start, chain.rounds, chain.account)) is None


@pytest.mark.parametrize(
    ("least", "most", "count", "numbers"),
    [
        (2, 12, 8, [2, 3, 5, 6, 8, 9, 11, 12]),
        (2, 4, 8, [2, 3, 4]),
        (5, 5, 8, [5]),
        (2, 1, 8, []),
    ],
)
def test_numbers_are_spread_evenly(least: int, most: int, count: int, numbers: list[int]) -> None:
    assert best.spread(least, most, count) == numbers
