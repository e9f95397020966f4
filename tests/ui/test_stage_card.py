"""What the card of a decision tells beside its sentence: how close it was, and where the row stands."""

from __future__ import annotations

import math
from typing import Any

import pytest

from specviz.trace import LaneEnd, RoundTrace, RunEnd, SessionEvent
from specviz.tree import DraftTree
from specviz.words import word
from tests.grown import grown_round
from tests.traces import greedy_verdict, ids, lane_start, round_trace, run_start
from tests.ui.stage_harness import items_of, send, settle, stage_page

pytestmark = pytest.mark.browser


def run_of(*rounds: RoundTrace) -> list[SessionEvent]:
    """One greedy lane."""
    return [run_start(), lane_start(0, "eagle2"), *rounds, LaneEnd(0, "length", ""), RunEnd(0.1)]


def told(page: Any, part: str, **place: Any) -> str:
    page.evaluate("(place) => stage.go(place)", {"lane": 0, "round": 1, **place})
    settle(page)
    return str(page.locator(f".sv-{part}").text_content())


def test_a_greedy_decision_tells_how_far_the_second_choice_was(chromium: Any) -> None:
    """It was told of near ties alone, and there it took the place of the drafter's score."""
    with stage_page(chromium) as page:
        send(page, items_of(run_of(grown_round(0))))
        gap = math.log(0.58 / 0.12)
        assert told(page, "cardmore", row=2) == (
            "The drafter's score -0.900, rank 3 of 12 candidates. "
            f"The target's second choice scores {gap:.2f} less."
        )
        gap = math.log(0.52 / 0.2)
        assert told(page, "cardmore", row=-1) == word("stage.gap_wide", gap=f"{gap:.3f}")


def test_a_near_tie_is_marked_as_one(chromium: Any) -> None:
    tree = DraftTree.chain(9, ids(" slow"))
    tied = round_trace(tree, greedy_verdict(tree, ids(" slow", ",")), gap=1e-6)
    with stage_page(chromium) as page:
        send(page, items_of(run_of(tied)))
        assert told(page, "cardmore", row=1).startswith("Close: ")


def test_the_facts_of_a_row_tell_its_path_where_paths_part(chromium: Any) -> None:
    chain = DraftTree.chain(9, ids(" slow"))
    second = round_trace(chain, greedy_verdict(chain, ids(" slow", ",")), index=1)
    with stage_page(chromium) as page:
        send(page, items_of(run_of(grown_round(0), second)))
        assert told(page, "cardfacts", row=5).endswith(" · path 1·0·0")
        assert told(page, "cardfacts", row=3).endswith(" · path 0·0")
        assert "path" not in told(page, "cardfacts", row=0)
        assert "path" not in told(page, "cardfacts", round=2, row=1)


def test_rows_of_one_depth_are_said_to_share_a_position(chromium: Any) -> None:
    with stage_page(chromium) as page:
        send(page, items_of(run_of(grown_round(0))))
        said = word("stage.mask_shared", n=2, depth=2, position=7)
        texts = [text.replace(" ", "␣").replace("\n", "↵") for text in grown_round(0).texts]
        assert told(page, "maskwords", row=3).endswith(said)
        assert told(page, "maskwords", row=5) == (
            "Row 5 “␣reads” reads the prefix, "
            f"its ancestors {', '.join(f'{row} “{texts[row]}”' for row in (0, 2, 4))}, and itself."
        )
