"""Runs that were refused, stopped or cut off: what is kept, what is said, and where. In Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from specviz.config import Request
from specviz.trace import Failure, Progress, RunStart, SessionEvent
from specviz.ui.playback import Recordings
from specviz.words import word
from tests.traces import demo_run
from tests.ui.serving import SECONDS, free_port, opened, served, stage_text, wait_for_text
from tests.ui.sessions import SlowSession
from tests.ui.visiting import PROMPT, RUN, STOP, run_to_the_end, saying, unfold, wait_told

pytestmark = pytest.mark.browser
CHIPS = ".specviz-mine .specviz-chip:not(.specviz-pin)"
TEMPERATURE = "#specviz-form .block:has(> .wrap label:has-text('Temperature'))"
GONE = "AbortError|Connection errored out|ERR_|Failed to fetch|reconnect|TypeError"


@dataclass
class Choosy(SlowSession):
    """Refuses a prompt with "long" in it once it has been looked at, and begins no run with "cut"."""

    def _run(self, request: Request) -> Iterator[SessionEvent]:
        if "long" in request.prompt:
            yield Progress("load", "Looking at it.")
            yield Failure("The prompt has too many tokens.")
        elif "cut" in request.prompt:
            yield next(e for e in demo_run() if isinstance(e, RunStart))
            yield Failure("Cut off.")
        else:
            yield from super()._run(request)


def refuse_a_knob(page: Any) -> None:
    unfold(page)
    page.click(".specviz-add-lane > summary")
    page.click(".specviz-add-lane [data-drafter=draft_model]")
    page.locator(".specviz-own-lane input[type=number]").first.fill("999")
    page.click(RUN)
    wait_told(page, "num_draft_tokens")


def test_a_refused_run_takes_no_place_among_the_kept_ones(page: Any) -> None:
    """The oldest of five good runs made room for one that never was."""
    for number in range(1, 6):
        run_to_the_end(page, f"question {number}")
    refuse_a_knob(page)
    chips = page.locator(CHIPS)
    assert chips.all_inner_texts() == [f"{n}. question {n}" for n in range(1, 6)]
    page.reload()
    page.wait_for_function("globalThis.specviz !== undefined")
    assert chips.all_inner_texts() == [f"{n}. question {n}" for n in range(1, 6)]


def test_a_run_without_a_round_leaves_no_chip(chromium: Any, recorded: Recordings) -> None:
    with served(Choosy(seconds=0.01), recorded) as url, opened(chromium, url) as page:
        run_to_the_end(page, "good")
        for prompt, sentence in (("too long", "too many tokens"), ("cut", "Cut off.")):
            page.fill(PROMPT, prompt)
            page.click(RUN)
            page.wait_for_function("(text) => document.body.innerText.includes(text)", arg=sentence)
            page.wait_for_selector(RUN, state="visible")
        assert page.locator(CHIPS).all_inner_texts() == ["1. good"]
        page.locator(CHIPS).click()
        page.click("text=/^Prompt, \\d+ token/")
        wait_for_text(page, "good")


def test_a_refusal_stands_beside_run_in_the_words_of_the_page(page: Any) -> None:
    """It stood at the stage, below the fold, and named the API's field alone."""
    refuse_a_knob(page)
    label = word("knob.num_draft_tokens")
    assert f"{label} (num_draft_tokens) is a whole number" in page.inner_text(".specviz-told")
    box = page.locator(".specviz-told").bounding_box()
    assert 0 <= box["y"] <= 900 - box["height"]
    assert page.get_attribute(".specviz-told", "role") == "alert"


def test_a_refusal_leaves_the_recorded_run(chromium: Any, recorded: Recordings) -> None:
    """A too long prompt on a fresh page left "A run will appear here."."""
    session = Choosy(seconds=0.01)
    with served(session, recorded) as url, opened(chromium, url) as page:
        page.fill(PROMPT, "too long")
        page.click(RUN)
        wait_told(page, "too many tokens")
        wait_for_text(page, "Recorded 2026-01-02")


def test_a_recorded_run_that_comes_late_is_shown_after_a_refusal(
    chromium: Any, recorded: Recordings
) -> None:
    session = Choosy(seconds=0.01)
    with served(session, recorded) as url:
        context = chromium.new_context()
        page = context.new_page()
        page.route("**/component_server*", lambda route: hold(page, route))
        page.goto(url)
        page.wait_for_function("globalThis.specviz !== undefined")
        page.fill(PROMPT, "too long")
        page.click(RUN)
        wait_told(page, "too many tokens")
        wait_for_text(page, "Recorded 2026-01-02")
        context.close()


def hold(page: Any, route: Any, milliseconds: float = 0.3 * SECONDS) -> None:
    page.wait_for_timeout(milliseconds)
    route.continue_()


def test_a_reload_in_a_run_says_so_and_keeps_what_was_asked(
    chromium: Any, url: str, session: SlowSession
) -> None:
    session.seconds = 0.15
    with opened(chromium, url, expected=GONE) as page:
        unfold(page)
        page.fill("label:has-text('Seed') input", "41")
        page.click("#specviz-lanes label:has-text('Lookahead')")
        page.fill(PROMPT, "before the reload")
        page.click(RUN)
        wait_for_text(page, "A round costs")
        page.reload()
        page.wait_for_function("globalThis.specviz !== undefined")
        saying(page, word("page.reloaded"))
        page.wait_for_function(
            "document.querySelector('#specviz-prompt textarea').value === 'before the reload'"
        )
        session.seconds = 0.01
        run_to_the_end(page, page.input_value(PROMPT))
    assert session.requests[1] == session.requests[0]
    assert session.requests[1].seed == 41


def test_run_waits_for_settings_that_are_on_their_way(
    chromium: Any, url: str, session: SlowSession
) -> None:
    """Who pressed Run right after a reload on a slow machine got the page's own settings."""
    with opened(chromium, url, expected=GONE) as page:
        unfold(page)
        page.fill("label:has-text('Seed') input", "41")
        run_to_the_end(page, "before the reload")
        page.route(re.compile("gradio_api/run/"), lambda route: hold(page, route, 1500))
        page.reload()
        page.wait_for_function("globalThis.specviz !== undefined")
        page.click(RUN)
        saying(page, word("page.settling"))
        page.wait_for_selector(STOP, state="visible")
        page.wait_for_selector(RUN, state="visible")
    assert session.requests[1] == session.requests[0]


def test_a_reload_before_the_first_round_says_so(
    chromium: Any, url: str, session: SlowSession
) -> None:
    session.seconds = 30
    with opened(chromium, url, expected=GONE) as page:
        page.fill(PROMPT, "too early")
        page.click(RUN)
        page.wait_for_selector(STOP, state="visible")
        page.reload()
        page.wait_for_function("globalThis.specviz !== undefined")
        wait_told(page, word("page.reloaded_early"))
        assert page.input_value(PROMPT) == "too early"
        assert page.locator(CHIPS).count() == 0
        page.reload()
        page.wait_for_function("globalThis.specviz !== undefined")
        assert page.inner_text(".specviz-told") == ""


def test_a_run_that_was_stopped_is_not_called_broken_off(page: Any, session: SlowSession) -> None:
    session.seconds = 0.1
    page.click("#specviz-settings")
    limited = "Temperature goes from 0 to 2: 999 was given, so 2 is taken."
    page.fill("label:has-text('Seed') input", "12")
    page.fill(f"{TEMPERATURE} input[type=number]", "999")
    page.click(RUN)  # straight from the field, where Gradio takes the nearest end without a word
    wait_told(page, limited)
    wait_for_text(page, "A round costs")
    assert session.requests[0].sampling.temperature == 2
    assert page.text_content(f"{TEMPERATURE} .specviz-limit") == limited
    page.click(STOP)
    wait_told(page, word("page.stopped"))
    page.click("#specviz-settings")
    page.fill(f"{TEMPERATURE} input[type=number]", "1")
    assert page.locator(".specviz-limit").count() == 0
    page.click(".specviz-recorded button:has-text('second')")
    wait_for_text(page, "Recorded")
    assert page.text_content(".specviz-told") == ""  # it was told of a run that is no longer shown
    page.click(CHIPS)
    saying(page, word("page.stopped_run"))


def test_what_was_typed_survives_a_restart_of_the_server(
    chromium: Any, recorded: Recordings
) -> None:
    port = free_port()
    with served(SlowSession(), recorded, port=port) as url:
        context = chromium.new_context()
        page = context.new_page()
        page.goto(url)
        page.wait_for_function("globalThis.specviz !== undefined")
        wait_for_text(page, "Recorded")
        page.fill(PROMPT, "typed before")
        page.wait_for_timeout(0.5 * SECONDS)
    with served(SlowSession(), recorded, port=port):
        page.goto(url)
        page.wait_for_function("globalThis.specviz !== undefined")
        wait_for_text(page, "Recorded")
        page.wait_for_timeout(0.5 * SECONDS)
        assert page.input_value(PROMPT) == "typed before"
        context.close()


def test_what_the_model_line_and_the_run_say_agree(chromium: Any, recorded: Recordings) -> None:
    """ "The model is ready." stood beside "Loading..."."""
    from specviz.ui.warm_up import WarmUp

    session = SlowSession(seconds=0)
    warm_up = WarmUp(session)
    warm_up._warm()
    warm_up._state = {"state": "ready", "message": word("page.model_ready"), "done": 0, "total": 0}
    session.seconds = 2
    line = ".specviz-readiness"
    with served(session, recorded, warm_up) as url, opened(chromium, url) as page:
        page.wait_for_selector(f"{line}[data-state=ready]")
        page.click(RUN)
        page.wait_for_selector(f"{line}[data-state=busy]")
        assert page.inner_text(line) == word("page.model_warming")
        wait_for_text(page, word("page.preparing"))
        page.click(STOP)
        page.wait_for_selector(f"{line}[data-state=ready]")
        assert word("page.preparing") not in stage_text(page)
