"""How the page is laid out: what the first screen shows, and what a phone does. In Chromium."""

from __future__ import annotations

import re
from typing import Any

import pytest

from specviz.ui.playback import Recordings
from specviz.words import word
from tests.ui.serving import SECONDS, opened, served, wait_for_text
from tests.ui.sessions import SlowSession
from tests.ui.visiting import RUN, SETTINGS, STOP

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_the_stage_begins_above_the_fold(
    chromium: Any, session: SlowSession, recorded: Recordings, width: int, height: int
) -> None:
    """Form and bars filled the first screen: nothing of the tree was seen without scrolling."""
    with (
        served(session, recorded) as url,
        opened(chromium, url, width=width, height=height) as page,
    ):
        wait_for_text(page, "Recorded")
        share = 0.35 if width > height else 0.5
        assert page.locator(".specviz-stage").bounding_box()["y"] < share * height
        assert "4 lanes: Plain decoding, Draft model" in page.inner_text("#specviz-settings")
        assert not page.is_visible("#specviz-lanes")
        chips = page.locator(".specviz-offers .specviz-chip")
        if (
            width < height
        ):  # a phone: the picture of a round, and what offers something behind a button
            assert page.locator(".sv-lane[data-lead=true] .sv-phases").bounding_box()["y"] < height
            assert not chips.first.is_visible()
            page.click(f"text={word('page.more_rows')}")
            assert page.is_visible(f"text={word('page.copy_link')}")
        boxes = [chip.bounding_box() for chip in chips.all()]
        assert max(box["x"] + box["width"] for box in boxes) <= width  # none is out of sight


@pytest.mark.parametrize("query", ["", "?__theme=dark"], ids=["light", "dark"])
def test_a_phone_scrolls_in_one_direction_only(
    chromium: Any, session: SlowSession, recorded: Recordings, query: str
) -> None:
    with (
        served(session, recorded) as url,
        opened(chromium, url, width=390, height=844, query=query) as page,
    ):
        wait_for_text(page, "Recorded")
        page.click(SETTINGS)
        page.click(RUN)
        page.wait_for_selector(RUN, state="visible")
        page.wait_for_timeout(0.5 * SECONDS)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        ink = page.evaluate("getComputedStyle(document.querySelector('h1')).color")
        assert (min(map(int, re.findall(r"\d+", ink)[:3])) > 200) == bool(query)


def test_a_run_that_begins_is_seen_and_not_the_settings(page: Any) -> None:
    """With the settings open the stage, and with it the run, was below the fold."""
    page.click(SETTINGS)
    page.wait_for_selector("#specviz-more", state="visible")
    page.click(RUN)
    wait_for_text(page, "Live")
    page.wait_for_selector("#specviz-more", state="hidden")
    assert page.get_attribute(SETTINGS, "aria-expanded") == "false"
    assert page.locator(".specviz-stage").bounding_box()["y"] < 400


def test_what_gradio_says_of_a_lost_server_does_not_lie_on_stop(
    chromium: Any, url: str, session: SlowSession
) -> None:
    session.seconds = 0.1
    offline = "ERR_|Failed to fetch|Connection|reconnect|TypeError"
    with opened(chromium, url, expected=offline) as page:
        page.click(RUN)
        wait_for_text(page, "A round costs")
        page.evaluate(
            "() => { const toast = document.createElement('div'); toast.className = 'toast-wrap';"
            " toast.style.cssText = 'position:fixed;right:10px;height:120px;width:400px;z-index:999;"
            "background:#fff'; document.querySelector('.gradio-container').append(toast); }"
        )
        page.click(STOP, timeout=3 * SECONDS)
        page.wait_for_selector(RUN, state="visible")
