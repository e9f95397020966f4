"""What the stage shows at a moment, in a real browser, and that text stays text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from specviz.trace import Failure, SessionEvent
from specviz.tree import DraftTree
from specviz.words import tell
from tests.traces import ANSWER, HOSTILE, greedy_verdict, ids, lane_start, round_trace, run_start
from tests.ui.stage_harness import (
    ENDS,
    ITEMS,
    items_of,
    lane,
    round_of,
    scripts,
    seek,
    send,
    settle,
    stage_page,
    state,
    styles,
)

pytestmark = pytest.mark.browser


@pytest.fixture
def stage(chromium: Any) -> Iterator[Any]:
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, 0)
        yield page


def looks(page: Any, number: int) -> list[str]:
    nodes = lane(page, number).locator(".sv-tree [data-row]:not([data-row='-1'])")
    shown = "(nodes) => nodes.filter((n) => n.style.display !== 'none').map((n) => n.dataset.look)"
    return list(nodes.evaluate_all(shown))


def figures(page: Any, number: int) -> dict[str, str]:
    """The figures of a lane's head, by name."""
    read = "(boxes) => boxes.map((b) => [b.dataset.name, b.querySelector('dd').textContent])"
    return dict(lane(page, number).locator(".sv-figure").evaluate_all(read))


def test_the_scripts_draw_no_numbers_and_ask_for_nothing_outside() -> None:
    code = scripts()
    for forbidden in (
        "Math.random",
        "getRandomValues",
        "fetch(",
        "XMLHttp",
        "import ",
        "export ",
        "innerHTML",
        "eval(",
    ):
        assert forbidden not in code
    addresses = set(re.findall(r"https?://[^\"'\s]+", code))
    assert addresses == {"http://www.w3.org/2000/svg"}


def test_the_style_sheet_can_stand_in_a_template() -> None:
    css = styles()
    for live in ("\\", "`", "${", "{{", "}}", "@keyframes", "@import", "url("):
        assert live not in css


def test_draft_nodes_come_by_depth_then_one_pass_checks_all_then_the_walk(stage: Any) -> None:
    start, drafted, verified, end = round_of(1, 0)["at"]
    seek(stage, start + 0.6 * (drafted - start))
    assert looks(stage, 1) == ["root", "pending", "pending", "hidden", "hidden"]
    seek(stage, drafted + 0.01 * (verified - drafted))
    assert looks(stage, 1) == ["root", *["checking"] * 4]
    assert figures(stage, 1)["passes"] == "0"
    seek(stage, verified)
    assert looks(stage, 1) == ["root", *["checked"] * 4]
    assert figures(stage, 1)["passes"] == "1"
    seek(stage, verified + 0.5 * (end - verified))
    assert looks(stage, 1) == ["root", "accepted", "accepted", "checked", "checked"]
    seek(stage, end)
    assert looks(stage, 1) == ["root", "accepted", "accepted", "accepted", "rejected"]
    own = lane(stage, 1).locator('.sv-tree [data-row="-1"]')
    assert own.get_attribute("data-look") == "recovered"


def test_text_and_counters_at_a_round_end_are_those_of_the_items(stage: Any) -> None:
    item = round_of(1, 1)
    seek(stage, item["at"][3])
    box = lane(stage, 1)
    words = box.locator(".sv-token").evaluate_all("(all) => all.map((t) => t.textContent)")
    assert "".join(words).replace("␣", " ") == "".join(ANSWER[:9])
    origins = box.locator(".sv-token").evaluate_all(
        "(all) => all.map((t) => t.dataset.depth || t.dataset.from)"
    )
    assert origins == ["1", "2", "3", "recovered", "1", "2", "3", "4", "bonus"]
    assert box.locator(".sv-sentence").text_content() == tell(item["sentence"])
    shown = figures(stage, 1)
    assert (shown["rate"], shown["tau"]) == ("114.4", "4.50")
    assert (shown["accepted"], shown["passes"]) == ("7 / 8 (88%)", "2")
    assert tell(item["sentence"]) in str(stage.locator(".sv-spoken").text_content())


def test_the_end_shows_the_final_comparison(stage: Any) -> None:
    seek(stage, ENDS[-1])
    final = ITEMS[-1]["versus"]["2"]
    assert figures(stage, 2)["speedup"] == f"{final['speedup']:.2f}x" == "2.20x"
    assert lane(stage, 2).locator(".sv-agreement").text_content() == (
        "identical to plain for 50 tokens"
    )
    assert figures(stage, 0)["speedup"] == "1x"
    said = "Finished: as many tokens as were asked for."
    assert str(lane(stage, 2).locator(".sv-state").text_content()).strip() == said
    places = stage.locator(".sv-raceplace").all_text_contents()
    assert places == ["place 4", "place 2", "place 1", "place 3"]


def test_a_click_on_the_race_goes_there(stage: Any) -> None:
    """When a race was over, the picture of it covered its last second only."""
    canvas = stage.locator(".sv-racecanvas")
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] / 2, "y": 10})
    assert state(stage)["time"] == pytest.approx(ENDS[-1] / 2, rel=0.01)
    assert f"0 to {ENDS[-1]:.2f} s of" in str(stage.locator(".sv-raceaxis").text_content())


def test_a_run_of_before_runs_along_as_pale_lanes(chromium: Any) -> None:
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, round_of(1, 1)["at"][3])
        page.evaluate("(items) => stage.ghost(items)", ITEMS)
        settle(page)
        assert page.locator(".sv-ghostname").count() == 4
        counts = page.locator(".sv-racecount").all_text_contents()
        assert counts[:4] == counts[4:]
        page.evaluate("stage.ghost(null)")
        settle(page)
        assert page.locator(".sv-ghostname").count() == 0


def test_statuses_differ_without_colour(stage: Any) -> None:
    seek(stage, round_of(2, 1)["at"][3])
    found = lane(stage, 2).evaluate(
        """(lane) => {
          const signs = {};
          for (const node of lane.querySelectorAll(".sv-node")) {
            if (node.style.display === "none") continue;
            const style = getComputedStyle(node.querySelector("rect"));
            const mark = node.querySelector(".sv-mark").getAttribute("d");
            const strike = getComputedStyle(node.querySelector(".sv-strike")).display;
            signs[node.dataset.look] = [style.strokeDasharray, mark, strike].join("|");
          }
          return signs;
        }"""
    )
    assert {"accepted", "rejected", "unreached", "bonus"} <= set(found)
    assert len(set(found.values())) == len(found)
    assert "M2 2" in found["rejected"]


def test_pointing_lights_row_and_ancestors_and_a_click_keeps_them(stage: Any) -> None:
    seek(stage, round_of(2, 1)["at"][3])
    box = lane(stage, 2)
    box.locator('[data-row="8"]').hover()
    lit = """(lane) => [...lane.querySelectorAll('.sv-tree [data-row]')]
      .map((n) => n.dataset.lit)"""
    expected = ["above" if row in (0, 7) else "self" if row == 8 else "" for row in range(13)]
    settle(stage)
    assert box.evaluate(lit)[:13] == expected
    tree = round_of(2, 1)["tree"]
    beside, position = tree["depth"].count(2), tree["position"][8]
    words = stage.locator(".sv-maskwords")
    assert words.text_content() == (
        f"Row 8 “{tree['text'][8]}” reads the prefix, "
        f"its ancestors 0 “{tree['text'][0]}”, 7 “{tree['text'][7]}”, and itself. "
        f"The {beside} rows at depth 2 share position {position}: at most one of them is kept."
    )
    box.locator('[data-row="8"]').click()
    stage.mouse.move(5, 5)
    settle(stage)
    assert box.evaluate(lit)[:13] == expected
    stage.locator(".sv").focus()
    stage.keyboard.press("Escape")
    settle(stage)
    assert set(box.evaluate(lit)) == {""}


def test_the_tree_can_be_walked_with_the_keyboard(stage: Any) -> None:
    seek(stage, round_of(2, 1)["at"][3])
    lane(stage, 2).locator(".sv-tree").focus()
    for _ in range(3):
        stage.keyboard.press("ArrowDown")
    settle(stage)
    lit = lane(stage, 2).locator('.sv-tree [data-lit="self"]')
    assert lit.get_attribute("data-row") == "2"


def test_a_line_end_in_the_text_starts_a_line_and_goes_with_its_token(stage: Any) -> None:
    seek(stage, ENDS[-1])
    assert lane(stage, 1).locator(".sv-text br").count() == 1
    seek(stage, ENDS[4])
    assert lane(stage, 1).locator(".sv-text br").count() == 0


def test_a_click_on_a_token_goes_to_its_round(stage: Any) -> None:
    seek(stage, ENDS[-1])
    lane(stage, 1).locator(".sv-token").nth(5).click()
    assert state(stage)["time"] == round_of(1, 1)["at"][3]
    settle(stage)
    assert lane(stage, 1).locator('.sv-tree [data-lit="self"]').get_attribute("data-row") == "2"


def test_hostile_text_stays_text(chromium: Any) -> None:
    tokens = ids(*HOSTILE)
    tree = DraftTree.chain(9, tokens)
    round_ = round_trace(tree, greedy_verdict(tree, [*tokens, 9]))
    evil = "<img src=x onerror=window.pwned=1>"
    events: list[SessionEvent] = [
        run_start(),
        lane_start(0, "medusa", title=evil),
        round_,
        Failure(evil),
    ]
    with stage_page(chromium) as page:
        send(page, items_of(events))
        seek(page, round_.seconds)
        page.wait_for_timeout(100)  # an image that fails to load says so a little later
        assert page.evaluate("window.pwned") is None
        assert page.locator("img, script").count() == 0
        shown = page.locator(".sv-strip .sv-token").all_text_contents()
        assert shown[0] == "<img␣src=x␣onerror=window.pwned=1>"
        assert shown[2:4] == ["${window.pwned=1}", "{{y}}"]
        assert page.locator(".sv-title").text_content() == evil
        assert page.get_by_role("alert").text_content() == evil


@pytest.mark.parametrize("width", [390, 820, 1280])
def test_no_width_makes_the_page_scroll_sideways(chromium: Any, width: int) -> None:
    with stage_page(chromium, width=width) as page:
        send(page, ITEMS)
        seek(page, ENDS[20])
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        tops = page.locator(".sv-lane").evaluate_all("(l) => l.map((n) => n.offsetLeft)")
        assert len(set(tops)) == 1


CONTRAST = """() => {
  const channels = (text) => text.match(/[0-9.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    const box = node.closest(".sv-node");
    const shape = box && !node.matches(".sv-nodenote") && box.querySelector("rect");
    if (shape) return channels(getComputedStyle(shape).fill);
    for (let at = node; at; at = at.parentElement) {
      const found = channels(getComputedStyle(at).backgroundColor);
      if (found.length < 4 || found[3] > 0.9) return found;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const node of document.querySelectorAll(".sv *")) {
    const own = [...node.childNodes].some((c) => c.nodeType === 3 && c.data.trim());
    if (!own || !node.checkVisibility({ visibilityProperty: true })) continue;
    if (node.closest(".sv-spoken, option")) continue;
    const style = getComputedStyle(node);
    const ink = channels(node instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(ink), light(ground(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push([node.getAttribute("class"), node.textContent, ratio.toFixed(2)]);
  }
  return poor;
}"""


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_has_enough_contrast(chromium: Any, dark: bool) -> None:
    with stage_page(chromium, dark=dark) as page:
        send(page, ITEMS)
        for moment in (ENDS[4], ENDS[5], ENDS[5] + 0.004, ENDS[-1]):
            seek(page, moment)
            assert page.evaluate(CONTRAST) == []
        page.locator(".sv-figure .sv-term").first.click()
        assert page.locator(".sv-meaning").is_visible()
        assert page.evaluate(CONTRAST) == []
