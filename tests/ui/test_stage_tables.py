"""The stage for those who do not see the picture: tables of rounds and rows, rows said aloud."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from specviz.views.tokens import glyphs
from tests.grown import grown_round, sampled_run
from tests.ui.stage_harness import ITEMS, items_of, lane, seek, send, settle, stage_page

pytestmark = pytest.mark.browser
DRAFTED, READ, END = 0.0125, 0.0405, 0.0417  # of the grown round, on its lane's clock
CELLS = """(rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"""


@pytest.fixture
def grown(chromium: Any) -> Iterator[Any]:
    with stage_page(chromium) as page:
        send(page, items_of(sampled_run()))
        seek(page, END)
        page.evaluate("document.querySelector('.sv-body > .sv-table').open = true")
        settle(page)
        yield page


def rows(page: Any) -> list[list[str]]:
    return list(page.locator(".sv-rowsbox tbody tr").evaluate_all(CELLS))


def spoken(page: Any) -> str:
    return str(page.locator(".sv-spoken").text_content())


def walk(page: Any, key: str, times: int = 1) -> str:
    """What is said after arrow keys in the tree."""
    lane(page, 0).locator(".sv-tree").focus()
    for _ in range(times):
        page.keyboard.press(key)
    settle(page)
    return spoken(page)


def test_the_table_of_rows_tells_what_the_trace_tells(grown: Any) -> None:
    round_ = grown_round(0)
    tree, verdict = round_.tree, round_.verdict
    names = {"rejected": "refused", "accepted": "kept", "unreached": "never reached"}
    trials = {trial.row: trial for trial in verdict.trials}
    expected = []
    for row in range(1, len(tree)):
        trial = trials.get(row)
        draw = f"kept below {trial.threshold:.3f}; drew {trial.draw:.3f}" if trial else "–"
        expected.append(
            [
                *(str(row), glyphs(round_.texts[row]), str(tree.parents[row])),
                *(str(tree.depths[row]), str(round_.cache_length + tree.depths[row])),
                *(f"{round_.draft_probs[row]:.3f}", f"{round_.softmax_probs[row]:.3f}"),
                *(names[verdict.row_status[row]], draw),
            ]
        )
    assert rows(grown) == expected
    assert (
        grown.locator(".sv-rowsbox caption").text_content() == "EAGLE-2, round 1: its drafted rows"
    )


def test_greedy_rows_have_no_draw(chromium: Any) -> None:
    with stage_page(chromium) as page:
        send(page, ITEMS)
        page.evaluate("stage.go({ lane: 1, round: 1 })")
        page.evaluate("document.querySelector('.sv-body > .sv-table').open = true")
        settle(page)
        assert [row[7:] for row in rows(page)] == [*([["kept", "–"]] * 3), ["refused", "–"]]


def test_the_table_of_rows_tells_no_more_than_the_picture(grown: Any) -> None:
    seek(grown, 0.0041)  # the first pass of the drafter is over
    assert [row[0] for row in rows(grown)] == ["1", "2"]
    seek(grown, DRAFTED)
    assert {(row[6], row[7], row[8]) for row in rows(grown)} == {("–", "drafted", "–")}
    seek(grown, READ)
    assert [row[6:] for row in rows(grown)][0] == ["0.120", "read by the target", "–"]


def test_the_table_goes_with_the_row_that_is_pointed_at_and_with_the_round(grown: Any) -> None:
    lane(grown, 0).locator('[data-row="4"]').hover()
    settle(grown)
    lit = grown.locator('.sv-rowsbox tr[data-lit="true"] td').first
    assert lit.text_content() == "4"
    grown.evaluate("stage.go({ lane: 0, round: 2 })")
    settle(grown)
    assert [row[1] for row in rows(grown)] == ["␣slow", ","]
    assert grown.locator('.sv-table tr[data-lit="true"] button').text_content() == "2"


def test_tables_are_of_the_run_that_is_shown(grown: Any) -> None:
    """A table was kept for the lane's number and how many rounds it had, so that of another run with
    as many stayed on screen."""
    events = sampled_run()
    events[2], events[3] = grown_round(0), grown_round(0, index=1)
    send(grown, items_of(events), run="r2")
    seek(grown, END)
    texts = grown.locator(".sv-tablebox").first.locator("tbody tr").evaluate_all(CELLS)
    assert [cells[4] for cells in texts] == [" ".join(map(glyphs, grown_round(0).new_texts))] * 2


def test_a_row_that_keys_come_to_is_said(grown: Any) -> None:
    assert walk(grown, "ArrowDown", 2) == "␣a, depth 1: refused, q 0.670, p 0.120"
    root = glyphs("\n") + ", depth 0: root"
    assert walk(grown, "ArrowUp") == root
    assert walk(grown, "ArrowDown", 20) == "␣is, after row 4: correction"
    seek(grown, DRAFTED)
    assert walk(grown, "ArrowUp", 20) == root
    assert walk(grown, "ArrowDown") == "␣a, depth 1: drafted, q 0.670"
    assert walk(grown, "ArrowDown", 20) == "The target's own token comes at the end of the walk."


def test_a_pruned_candidate_is_said_and_in_chinese_too(grown: Any) -> None:
    said = walk(grown, "ArrowDown", 7)
    assert "pruned, score" in said
    grown.evaluate("words.choose('zh')")
    settle(grown)
    assert walk(grown, "ArrowDown", 2) == "␣a，深度 1：拒绝，q 0.670，p 0.120"


def test_the_round_is_said_once_and_not_again_over_a_row(chromium: Any) -> None:
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, 0.05)
        said = walk(page, "ArrowDown")
        page.wait_for_timeout(2200)  # the pause between two lines of rounds
        page.evaluate("stage.go({})")
        settle(page)
        assert spoken(page) == said


def test_a_row_of_the_table_previews_and_keeps_what_it_tells_of(grown: Any) -> None:
    lit = lane(grown, 0).locator('.sv-tree [data-lit="self"]')
    line = grown.locator(".sv-rowsbox tbody tr").nth(1)
    line.hover()
    settle(grown)
    assert lit.get_attribute("data-row") == "2"
    grown.mouse.move(5, 5)
    settle(grown)
    assert lit.count() == 0
    line.locator("button").focus()
    settle(grown)
    assert lit.get_attribute("data-row") == "2"
    grown.keyboard.press("Enter")
    grown.locator(".sv").focus()
    settle(grown)
    assert lit.get_attribute("data-row") == "2"
    assert line.get_attribute("data-lit") == "true"
