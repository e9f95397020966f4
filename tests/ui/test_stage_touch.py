"""The stage under a finger: a tap is a click, and a tree that was tapped moves instead of the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from specviz.words import word
from tests.ui.stage_harness import (
    ITEMS,
    items_of,
    lane,
    round_of,
    seek,
    send,
    settle,
    stage_page,
)
from tests.ui.test_stage_speed import long_run

pytestmark = pytest.mark.browser
NODE = '.sv-tree [data-row="8"]'


@pytest.fixture
def phone(chromium: Any) -> Iterator[Any]:
    with stage_page(chromium, width=390, height=844, touch=True) as page:
        send(page, ITEMS)
        seek(page, round_of(2, 1)["at"][3])
        settle(page)
        yield page


def drag(page: Any, box: Any, by: int) -> None:
    """A finger put down in the middle of `box` and moved `by` pixels down."""
    at = box.bounding_box()
    x, y = at["x"] + at["width"] / 2, at["y"] + at["height"] / 2
    fingers = page.context.new_cdp_session(page)
    for step in range(9):
        kind = "touchMove" if step else "touchStart"
        point = {"x": x, "y": y + by * step / 8}
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
        page.wait_for_timeout(16)
    fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_timeout(150)


def scrolled(page: Any) -> int:
    return int(page.evaluate("scrollY"))


def test_a_tap_keeps_a_row_and_opens_its_card(phone: Any) -> None:
    lane(phone, 2).locator(NODE).tap()
    settle(phone)
    assert lane(phone, 2).locator('[data-lit="self"]').first.get_attribute("data-row") == "8"
    assert round_of(2, 1)["tree"]["text"][8] in phone.locator(".sv-card").inner_text()


def test_a_finger_reads_what_words_mean_and_loses_no_tap(phone: Any) -> None:
    """What they mean stood in `title` alone, which shows under a mouse only."""
    box = phone.locator(".sv-meaning")
    here = lane(phone, 2)
    tau = here.locator(".sv-figure[data-name=tau] .sv-term")
    for place, means in {
        ".sv-phase[data-part=draft]": "term.draft", ".sv-cachename": "cache_title",
        ".sv-chip.sv-term": "promise_title.text", ".sv-figure[data-name=tau] .sv-term": "figure_title.tau",
    }.items():  # fmt: skip
        here.locator(place).tap()
        assert box.text_content() == word(f"stage.{means}")
        inside = box.bounding_box()
        assert inside["x"] >= 0
        assert inside["x"] + inside["width"] <= 390
    tau.tap()
    assert box.count() == 0
    tau.tap()
    here.locator(NODE).tap()  # a tap elsewhere closes the words, and still does what it does
    settle(phone)
    assert box.count() == 0
    assert here.locator('[data-lit="self"]').first.get_attribute("data-row") == "8"
    name = phone.locator(".sv-racename").nth(1)
    name.tap()
    settle(phone)
    assert word("stage.term.lane") in box.text_content()
    assert name.get_attribute("aria-pressed") == "true"


def test_a_large_tree_moves_under_a_finger_once_it_was_tapped(chromium: Any) -> None:
    """Every drag scrolled the page: what lay below in a tall tree could not be reached by touch."""
    items = items_of(long_run(3))
    with stage_page(chromium, width=390, height=844, touch=True) as phone:
        send(phone, items)
        seek(phone, next(item for item in items if item["kind"] == "round")["at"][3])
        settle(phone)
        box = phone.locator(".sv-treebox[data-pans=true] >> visible=true").first
        tree = box.locator(".sv-tree")
        box.scroll_into_view_if_needed()
        before, moved = scrolled(phone), tree.get_attribute("style")
        drag(phone, box, -60)
        assert scrolled(phone) > before
        assert tree.get_attribute("style") == moved
        box.tap(position={"x": 5, "y": 5})
        settle(phone)
        before = scrolled(phone)
        drag(phone, box, 60)
        drag(phone, box, -40)
        assert scrolled(phone) == before
        assert tree.get_attribute("style") != moved


def test_a_tree_that_was_made_larger_by_a_finger_moves_at_once(chromium: Any) -> None:
    items = items_of(long_run(3))
    with stage_page(chromium, width=390, height=844, touch=True) as phone:
        send(phone, items)
        seek(phone, next(item for item in items if item["kind"] == "round")["at"][3])
        settle(phone)
        box = phone.locator(".sv-treebox[data-pans=true] >> visible=true").first
        larger = phone.get_by_role("button", name=word("stage.zoom_in"), exact=True)
        larger.locator("visible=true").first.tap()
        settle(phone)
        box.scroll_into_view_if_needed()
        before, moved = scrolled(phone), box.locator(".sv-tree").get_attribute("style")
        drag(phone, box, 60)
        drag(phone, box, -40)
        assert scrolled(phone) == before
        assert box.locator(".sv-tree").get_attribute("style") != moved
        fit = phone.get_by_role("button", name=word("stage.zoom_fit")).locator("visible=true").first
        fit.tap()  # which made a large tree as small as it takes
        letter = "(n) => parseFloat(getComputedStyle(n).fontSize) * n.getScreenCTM().a"
        assert 10 <= box.locator(".sv-node text").first.evaluate(letter) < 11.4
        assert fit.get_attribute("aria-pressed") == "true"


def test_a_tap_opens_the_card_on_the_screen_and_moves_nothing_under_the_finger(phone: Any) -> None:
    """The card stood up to 440 pixels below the screen: a tap seemed to do nothing."""
    card, here = phone.locator(".sv-card"), lane(phone, 2)
    shut = phone.get_by_role("button", name=word("stage.close_card"))
    for what in (NODE, "[data-token='2']"):
        thing = here.locator(what)
        thing.evaluate("(node) => node.scrollIntoView({ block: 'center' })")
        before = thing.bounding_box()["y"]
        thing.tap()
        settle(phone)
        seen = card.bounding_box()
        top = phone.locator(".sv-sheet").bounding_box()["y"]
        assert 0.55 * 844 - 1 <= top <= seen["y"] < 844
        assert abs(thing.bounding_box()["y"] - min(before, top - 40)) < 30
        shut.tap() if what == NODE else phone.keyboard.press("Escape")
        settle(phone)
        assert shut.count() == 0
        assert phone.locator(".sv-pane > .sv-card").count() == 1
        assert here.locator('[data-lit="self"]').count() == 0
    low = here.locator(NODE)  # at the lower edge, where the sheet will lie
    low.evaluate("(node) => node.scrollIntoView({ block: 'end' })")
    low.tap()
    settle(phone)
    assert low.bounding_box()["y"] + 20 < phone.locator(".sv-sheet").bounding_box()["y"]


def test_a_finger_has_room(phone: Any) -> None:
    """Boxes of the race had 17 pixels and names 21, which looks are not changed for."""
    for part in (".sv-racecheck", ".sv-racename", ".sv-tools .sv-button:visible"):
        sizes = [target.bounding_box() for target in phone.locator(part).all()]
        assert min(min(size["width"], size["height"]) for size in sizes) >= 32
    box, title = phone.locator(".sv-racecheck").nth(1), phone.locator(".sv-lane").nth(1)
    was_open = title.is_visible()
    box.tap(position={"x": 2, "y": 2})
    settle(phone)
    assert title.is_visible() != was_open


def test_a_wide_page_has_no_sheet(chromium: Any) -> None:
    with stage_page(chromium, width=1280) as page:
        send(page, ITEMS)
        seek(page, round_of(2, 1)["at"][3])
        lane(page, 2).locator(NODE).click()
        settle(page)
        assert page.locator(".sv-sheet").count() == 0
        assert round_of(2, 1)["tree"]["text"][8] in page.locator(".sv-card").inner_text()
