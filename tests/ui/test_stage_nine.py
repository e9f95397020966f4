"""A race of every method: what is open at first, what one line tells of the others, what is linked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from specviz.trace import LaneEnd, RunEnd, SessionEvent
from specviz.words import tell
from tests.traces import chain_trees, decode, lane_start, run_start
from tests.ui.stage_harness import items_of, lane, seek, send, settle, stage_page
from tests.ui.stage_nine import nine_lanes

pytestmark = pytest.mark.browser
ITEMS = items_of(nine_lanes())
ROUNDS = [item for item in ITEMS if item["kind"] == "round"]
END = max(item["at"][3] for item in ROUNDS)
EAGLE3, MTP, OWN_PLAIN = 8, 5, 9
OVERLAPS = """(roots) => {
  const texts = [...document.querySelectorAll(roots)].flatMap((root) => [...root.querySelectorAll("*")])
    .filter((n) => n.childElementCount === 0 || n.matches(".sv-racename"))
    .filter((n) => n.textContent.trim() && n.checkVisibility() && !n.closest(".sv-racename *"));
  const boxes = texts.map((n) => [n.textContent, n.getBoundingClientRect()]);
  const found = [];
  boxes.forEach(([a, one], i) => boxes.slice(i + 1).forEach(([b, two]) => {
    const wide = Math.min(one.right, two.right) - Math.max(one.left, two.left);
    const tall = Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top);
    if (wide > 1 && tall > 1) found.push([a, b]);
  }));
  return found;
}"""
OUTSIDE = """() => [...document.querySelectorAll(".sv *")]
  .filter((n) => n.checkVisibility() && !n.closest(".sv-treebox, .sv-maskbox, .sv-windowbox, .sv-spoken"))
  .filter((n) => n.getBoundingClientRect().right > innerWidth + 1)
  .map((n) => n.className)"""


def rounds_of(number: int) -> list[dict[str, Any]]:
    return [item for item in ROUNDS if item["lane"] == number]


@pytest.fixture
def race(chromium: Any) -> Iterator[Any]:
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, 0.25)
        yield page


def titles(page: Any) -> list[str]:
    return list(page.locator(".sv-lane:visible .sv-title").all_text_contents())


def other(page: Any, name: str) -> str:
    """The line of a lane that is not open."""
    return str(page.locator(".sv-other", has_text=name).inner_text())


def test_the_fastest_lane_and_one_of_another_kind_are_open_at_first(race: Any) -> None:
    """A race of many lanes opened with its first four, plain decoding above all."""
    assert titles(race) == ["MTP", "EAGLE-3"]
    assert race.locator('.sv-lane[data-lead="true"] .sv-title').text_content() == "EAGLE-3"
    assert race.locator(".sv-other").count() == 8
    assert race.locator(".sv-racerow input").count() == 10


def test_the_fastest_lane_stands_first_and_stays_there(race: Any) -> None:
    """A click into another lane must not move it away from under the pointer."""
    top = "(lane) => lane.getBoundingClientRect().top"
    assert lane(race, EAGLE3).evaluate(top) < lane(race, MTP).evaluate(top)
    lane(race, MTP).locator('.sv-tree [data-row="1"]').click()
    settle(race)
    assert race.locator('.sv-lane[data-lead="true"] .sv-title').text_content() == "MTP"
    assert lane(race, EAGLE3).evaluate(top) < lane(race, MTP).evaluate(top)


def test_a_line_tells_speedup_and_tau_and_a_click_opens_its_lane(race: Any) -> None:
    seek(race, END)
    item = rounds_of(4)[-1]
    line = other(race, "Medusa")
    speedup = ITEMS[-1]["versus"]["4"]["speedup"]
    assert f"{speedup:.2f}x" in line
    assert f"{item['total']['tau']:.2f} per pass" in line
    race.locator(".sv-other", has_text="Medusa").get_by_role("button").click()
    settle(race)
    assert titles(race) == ["Medusa", "MTP", "EAGLE-3"]
    assert race.locator('.sv-lane[data-lead="true"] .sv-title').text_content() == "Medusa"
    lane(race, 4).get_by_role("button", name="Close this lane").click()
    settle(race)
    assert titles(race) == ["MTP", "EAGLE-3"]
    assert "Medusa" in other(race, "Medusa")


def test_the_order_of_finish_is_told_in_lines_and_in_the_race(race: Any) -> None:
    seek(race, END)
    finish = [f["lane"] for f in ITEMS[-1]["finish"]]
    places = race.locator(".sv-raceplace").all_text_contents()
    assert places == [f"place {finish.index(number) + 1}" for number in range(10)]
    assert f"place {finish.index(2) + 1}" in other(race, "Prompt lookup")


def test_a_lane_of_a_tuned_model_says_so_and_has_its_own_baseline(race: Any) -> None:
    seek(race, END)
    box = lane(race, MTP)
    assert box.locator(".sv-chip").all_text_contents() == ["exact: same text", "own model"]
    assert "decodes with a model of its own" in str(box.locator(".sv-about").text_content())
    figure = box.locator('.sv-figure[data-name="speedup"]')
    versus = ITEMS[-1]["versus"][str(MTP)]
    assert versus["plain"] == OWN_PLAIN
    assert figure.inner_text().split("\n")[::-1] == [f"{versus['speedup']:.2f}x", "vs lane 10"]
    note = "Lane 6 decodes with a model of its own: its 1x is lane 10."
    assert race.locator(".sv-raceown").text_content() == note
    assert "Plain decoding (MTP)" in other(race, "Plain decoding (MTP)")
    assert lane(race, EAGLE3).locator(".sv-chip").all_text_contents() == ["exact: same text"]


@pytest.mark.parametrize("width", [390, 820, 1280])
def test_no_two_labels_of_the_race_overlap_and_nothing_sticks_out(
    chromium: Any, width: int
) -> None:
    with stage_page(chromium, width=width) as page:
        send(page, ITEMS)
        seek(page, END)
        assert page.evaluate(OVERLAPS, ".sv-race, .sv-others") == []
        assert page.evaluate(OUTSIDE) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_live_race_begins_with_two_lanes_that_draft_otherwise(chromium: Any) -> None:
    with stage_page(chromium) as page:
        send(page, ITEMS[:40], source="live")
        page.wait_for_selector(
            ".sv-lane[data-lead=true] .sv-title"
        )  # a live run is painted a little later
        assert titles(page) == ["Draft model", "Prompt lookup"]


def shown_ranks(page: Any) -> set[int]:
    read = """(nodes) => nodes.filter((n) => n.style.display !== "none" && n.dataset.look === "ghost")
      .map((n) => Number(n.querySelector(".sv-nodenote").textContent.match(/#(\\d+)/)[1]))"""
    return set(lane(page, EAGLE3).locator(".sv-tree .sv-node").evaluate_all(read))


def test_of_many_pruned_the_best_are_shown_and_a_click_shows_all(race: Any) -> None:
    """The page drew 24 pruned candidates and did not say that there were more."""
    item = rounds_of(EAGLE3)[0]
    seek(race, item["at"][3])
    draft = item["draft"]
    line = lane(race, EAGLE3).locator(".sv-ghostline")
    assert (draft["num_best"], draft["num_pruned"]) == (24, 90)
    assert line.inner_text().split("\n") == ["24 of 90 pruned candidates shown", "show all 90"]
    best = sorted(ghost["rank"] for ghost in draft["ghosts"])[:20]
    assert len(shown_ranks(race)) == 24
    assert set(best) <= shown_ranks(race)
    line.get_by_role("button").click()
    settle(race)
    assert len(shown_ranks(race)) == 90
    assert line.inner_text().split("\n") == ["90 of 90 pruned candidates shown", "show the best 24"]


def test_the_tree_stands_still_whether_pruned_candidates_are_shown_or_not(race: Any) -> None:
    seek(race, rounds_of(EAGLE3)[0]["at"][3])
    read = """(nodes) => nodes.filter((n) => Number(n.dataset.row) < 15)
      .map((n) => n.getAttribute("transform"))"""
    nodes = lane(race, EAGLE3).locator(".sv-tree .sv-node")
    before = nodes.evaluate_all(read)
    race.evaluate("stage.go({ghosts: false})")
    settle(race)
    assert nodes.evaluate_all(read) == before
    assert lane(race, EAGLE3).locator(".sv-ghostline").is_hidden()


def heads(page: Any, number: int) -> list[str]:
    visible = "(all) => all.filter((n) => n.style.display !== 'none').map((n) => n.textContent)"
    return list(lane(page, number).locator(".sv-headtext").evaluate_all(visible))


def test_each_method_has_its_own_word_above_a_depth(race: Any) -> None:
    assert [text for text in heads(race, EAGLE3) if "level" in text] == [
        f"level {n}" for n in (1, 2, 3, 4)
    ]
    kept = ["tree {1}/{0}".format(*level) for level in rounds_of(EAGLE3)[5]["draft"]["levels"]]
    assert [text for text in heads(race, EAGLE3) if "tree" in text] == kept
    assert heads(race, MTP)[0] == "step 1"


def test_before_a_verdict_the_card_tells_the_last_one(race: Any) -> None:
    rounds = rounds_of(EAGLE3)
    seek(race, rounds[1]["at"][1])
    name = race.locator(".sv-card h4")
    assert name.text_content() == "The last decision, in round 1"
    seek(race, rounds[1]["at"][3])
    assert name.text_content() == "The decision"
    seek(race, 0)
    assert race.locator(".sv-cardsentence").text_content() == "Nothing is decided yet."


def test_numbers_say_where_and_when_they_were_taken_and_what_pays(race: Any) -> None:
    numbers = race.locator(".sv-numbers")
    assert numbers.locator(".sv-badge").text_content() == "recorded"
    assert (
        numbers.locator(".sv-none").first.text_content()
        == "2026-01-02 03:04 UTC · cpu · float32 · batch 1 only"
    )
    seek(race, END)
    rho, tau = ITEMS[-1]["versus"]["8"]["rho"], rounds_of(EAGLE3)[-1]["total"]["tau"]
    said = str(numbers.locator(".sv-verdict").text_content())
    assert f"must yield {rho:.2f} tokens to break even; it yields {tau:.2f}." in said
    assert numbers.locator(".sv-balancerow").count() == 2
    widths = numbers.locator(".sv-balancefill").evaluate_all("(b) => b.map((n) => n.style.width)")
    assert widths[0] == "100%"
    assert float(widths[1].rstrip("%")) == pytest.approx(100 * rho / tau, rel=1e-3)


def test_at_the_end_it_is_told_why_and_what_is_estimated_is_called_so(race: Any) -> None:
    race.locator(".sv-racename", has_text="EAGLE-2").click()
    seek(race, 0.25)
    assert race.locator(".sv-findings").count() == 0
    seek(race, END)
    said = ITEMS[-1]["judged"]["7"]
    lines = race.locator(".sv-findings li").all_text_contents()
    assert lines == [tell(said["findings"][0]), "estimated " + tell(said["advice"])]


def test_a_round_chosen_in_the_chart_is_lit_in_text_histogram_and_table(race: Any) -> None:
    seek(race, END)
    race.locator(".sv-table summary").click()
    settle(race)
    canvas = race.locator(".sv-curvebox canvas").first
    count = len(rounds_of(EAGLE3))
    slot = min(26, canvas.bounding_box()["width"] / count)
    canvas.hover(position={"x": 2.5 * slot, "y": 60})
    settle(race)
    item = rounds_of(EAGLE3)[2]
    lit = lane(race, EAGLE3).locator('.sv-token[data-lit="self"]')
    assert lit.count() == len(item["new"]["text"])
    column = race.locator('.sv-column[data-lit="true"] span').last
    assert column.text_content() == str(item["num_accepted"])
    assert race.locator('.sv-table tr[data-lit="true"] button').text_content() == "3"
    canvas.click(position={"x": 2.5 * slot, "y": 60})
    assert race.evaluate("stage.state().time") == item["at"][3]


def test_without_a_plain_lane_the_stage_says_why_there_is_no_speedup(chromium: Any) -> None:
    events: list[SessionEvent] = [run_start(), lane_start(0, "draft_model", title="Draft model")]
    events += [*decode(0, chain_trees()), LaneEnd(0, "length", ""), RunEnd(1.0)]
    with stage_page(chromium) as page:
        send(page, items_of(events))
        seek(page, 0.1)
        why = "no plain lane in this race, so no speed-up can be told: add plain decoding"
        assert page.locator(".sv-verdict").text_content() == why
        assert page.locator('.sv-figure[data-name="speedup"] dd').text_content() == "–"
        assert page.locator(".sv-agreement").text_content() == why
