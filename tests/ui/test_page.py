"""The page in real Chromium, on sessions that play hand-made runs."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specviz.session import ReplaySession
from specviz.trace_io import dump_events
from specviz.ui import build, playback
from specviz.ui.offers import EXAMPLES, presets
from specviz.ui.playback import Recordings
from specviz.ui.warm_up import WarmUp
from specviz.words import word
from tests.traces import demo_run
from tests.ui.serving import opened, served, stage_text, wait_for_text
from tests.ui.sessions import SlowSession
from tests.ui.test_playback import wait_until
from tests.ui.visiting import unfold, wait_told

pytestmark = pytest.mark.browser
PROMPT = "#specviz-prompt textarea"
RUN, STOP = "#specviz-run", "#specviz-stop"
SETTINGS = "#specviz-settings"
SEED = "label:has-text('Seed') input"
HOSTILE = (
    "<img src=x onerror=window.pwned=1></div><style>*{display:none}</style>${window.pwned=1}{{y}}`"
)


@pytest.fixture
def recorded(tmp_path: Path) -> Recordings:
    for name in ("rainbows", "copying_text"):
        path = tmp_path / f"{name}.jsonl.gz"
        path.write_bytes(gzip.compress(dump_events(demo_run()).encode()))
    return Recordings(sorted(tmp_path.iterdir()))


@pytest.fixture
def session() -> SlowSession:
    return SlowSession(seconds=0.02)


@pytest.fixture
def page(chromium: Any, session: SlowSession) -> Iterator[Any]:
    with served(session) as url, opened(chromium, url) as visitor:
        yield visitor


def test_the_page_opens_on_a_recorded_run_marked_as_such(
    chromium: Any, session: SlowSession, recorded: Recordings
) -> None:
    with served(session, recorded, WarmUp(session)) as url, opened(chromium, url) as page:
        wait_for_text(page, "Recorded 2026-01-02 on a test bench", seconds=5)
        page.wait_for_function(  # the prompt of what is shown, as nobody has typed another
            "(box) => document.querySelector(box).value === 'Why guess?'", arg=PROMPT
        )
        offers = len(EXAMPLES) + len(presets(session.catalog()))
        assert page.locator(".specviz-offers .specviz-chip").count() == offers
        assert page.is_visible(RUN)
        assert not page.is_visible(STOP)
        told = f"{word('page.model_starting')} {word('page.model_then')}"
        assert page.inner_text(".specviz-readiness") == told
        assert page.locator(".specviz-recorded button").all_inner_texts() == [
            "copying text",
            "rainbows",
        ]
    assert session.requests == []


def test_recorded_runs_play_with_the_network_off(
    chromium: Any, session: SlowSession, recorded: Recordings
) -> None:
    with served(session, recorded) as url, opened(chromium, url) as page:
        wait_for_text(page, "Recorded")
        page.context.set_offline(True)
        page.focus(".specviz-stage [tabindex='0']")
        page.keyboard.press("End")
        wait_for_text(page, "identical to plain for 50 tokens", seconds=5)
        page.keyboard.press("Home")
        page.wait_for_function(
            "!document.querySelector('.specviz-stage').innerText.includes('for 50 tokens')"
        )


def test_a_run_is_what_the_controls_ask_for_and_arrives_whole(
    page: Any, session: SlowSession
) -> None:
    page.fill(PROMPT, "How do tides work?")
    page.click(RUN)
    wait_for_text(page, "Live", seconds=5)
    assert page.is_visible(STOP)
    assert not page.is_visible(RUN)
    page.wait_for_selector(RUN, state="visible")
    wait_for_text(page, "50 tokens")
    (request,) = session.requests
    assert request.prompt == "How do tides work?"
    assert [lane.drafter for lane in request.lanes] == [
        "autoregressive",
        "draft_model",
        "prompt_lookup",
        "lookahead",
    ]


@pytest.mark.alone
def test_stop_is_answered_at_once_and_keeps_what_was_there(page: Any, session: SlowSession) -> None:
    page.click(RUN)
    wait_for_text(page, "identical to plain for")
    begun = time.perf_counter()
    page.click(STOP)
    page.wait_for_selector(RUN, state="visible")
    wait_told(page, word("page.stopped"), seconds=1)
    assert page.get_attribute(".specviz-told", "data-trouble") == "false"  # it was wished for
    assert wait_until(lambda: session.num_closed == 1, seconds=1)
    assert time.perf_counter() - begun < 1
    rounds = session.num_rounds
    assert "identical to plain for" in stage_text(page)
    time.sleep(0.3)
    assert session.num_rounds == rounds


def test_a_run_right_after_stop_shows_only_itself(page: Any, session: SlowSession) -> None:
    """After a cancel, other apps went on with the old iterator (gradio 4969)."""
    page.fill(PROMPT, "first question")
    page.click(RUN)
    wait_for_text(page, "Live")
    page.click(STOP)
    page.fill(PROMPT, "second question")
    page.click(RUN)
    page.wait_for_selector(RUN, state="visible")
    assert [r.prompt for r in session.requests] == ["first question", "second question"]
    page.click("text=/^Prompt, \\d+ token/")
    assert "second question" in stage_text(page)
    assert "first question" not in stage_text(page)
    wait_for_text(page, "50 tokens")


def test_the_second_visitor_is_told_the_place_in_line(chromium: Any) -> None:
    session = SlowSession(seconds=0.03)
    with served(session) as url, opened(chromium, url) as first, opened(chromium, url) as second:
        first.click(RUN)
        wait_for_text(first, "Live")
        second.click(RUN)
        wait_for_text(second, "You are number 1 in line.", seconds=3)
        first.click(STOP)
        wait_for_text(second, "Live", seconds=3)


def test_leaving_the_line_frees_the_place(chromium: Any, session: SlowSession) -> None:
    with served(session) as url, opened(chromium, url) as first, opened(chromium, url) as second:
        first.click(RUN)
        second.click(RUN)
        wait_for_text(second, "in line")
        second.click(STOP)
        assert wait_until(lambda: session.num_closed == 1, seconds=2)
        assert first.is_visible(STOP)


@pytest.mark.parametrize("is_reload", [True, False], ids=["reload", "close"])
def test_a_visitor_who_leaves_stops_the_run(
    chromium: Any, session: SlowSession, is_reload: bool
) -> None:
    session.seconds = 0.1
    # Gradio's own script complains of its connection when the page goes away under it.
    gone = "AbortError|Connection errored out"
    with served(session) as url, opened(chromium, url, expected=gone) as page:
        page.click(RUN)
        wait_for_text(page, "Live")
        if not is_reload:
            page.close()
            assert wait_until(lambda: session.num_closed == 1, seconds=4)
            return
        page.reload()
        assert wait_until(lambda: session.num_closed == 1, seconds=4)
        page.wait_for_function("globalThis.specviz !== undefined")
        page.click(RUN)
        wait_for_text(page, "Live")


def test_hostile_text_is_shown_and_never_run(chromium: Any, tmp_path: Path) -> None:
    with served(SlowSession(seconds=0.01, is_hostile=True)) as url, opened(chromium, url) as page:
        page.fill(PROMPT, HOSTILE)
        page.click(RUN)
        page.wait_for_selector(RUN, state="visible")
        page.click("text=/^Prompt, \\d+ token/")
        assert "<img src=x onerror=window.pwned=1></div><style>" in stage_text(page)
        assert "${window.pwned=1}" in stage_text(page)
        assert page.evaluate("window.pwned") is None
        assert page.locator(".specviz-stage img").count() == 0


def test_a_hostile_sentence_of_an_error_is_only_text(chromium: Any) -> None:
    with served(SlowSession(failure=f"No room: {HOSTILE}")) as url, opened(chromium, url) as page:
        page.click(RUN)
        wait_told(page, "No room: <img src=x onerror=window.pwned=1>", seconds=5)
        page.wait_for_selector(RUN, state="visible")
        assert page.evaluate("window.pwned") is None


def test_a_refused_value_is_a_sentence_and_the_next_run_works(
    page: Any, session: SlowSession
) -> None:
    page.click(RUN)
    page.wait_for_selector(RUN, state="visible")
    page.click(SETTINGS)
    page.fill(SEED, "-5")
    page.click(RUN)
    wait_told(page, "seed is a whole number from 0 to", seconds=5)
    assert "50 tokens" in stage_text(page)  # what was there stays
    page.fill(SEED, "7")
    page.click(RUN)
    page.wait_for_selector(RUN, state="visible")
    assert [r.seed for r in session.requests] == [0, 7]
    assert page.inner_text(".specviz-told") == ""


def test_a_crash_is_a_sentence_and_the_next_run_works(page: Any, session: SlowSession) -> None:
    session.crash = RuntimeError("secret path")
    page.click(RUN)
    wait_for_text(page, "internal error (RuntimeError)", seconds=5)
    assert "secret path" not in stage_text(page)
    session.crash = None
    page.click(RUN)
    page.wait_for_selector(RUN, state="visible")
    wait_for_text(page, "50 tokens")


def test_examples_fill_the_prompt_and_shift_enter_runs_it(page: Any, session: SlowSession) -> None:
    page.click(".specviz-offers .specviz-chip:has-text('Maths')")
    page.wait_for_function(f"document.querySelector('{PROMPT}').value.startsWith('A train covers')")
    page.focus(PROMPT)
    page.keyboard.press("Shift+Enter")
    page.wait_for_selector(STOP, state="visible")
    page.keyboard.press("Shift+Enter")  # a run is on: it must not disturb it
    page.wait_for_selector(RUN, state="visible")
    wait_for_text(page, "50 tokens")
    assert [r.prompt for r in session.requests] == [EXAMPLES["maths"]]


def test_a_double_click_on_run_does_not_stop_it(page: Any, session: SlowSession) -> None:
    page.dblclick(RUN)
    wait_for_text(page, "50 tokens")
    page.wait_for_selector(RUN, state="visible")
    assert len(session.requests) == 1


def test_the_keyboard_runs_and_stops_in_place(page: Any, session: SlowSession) -> None:
    """Hiding the pressed button once dropped the focus to the top of the page."""
    page.focus(RUN)
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.id === 'specviz-stop'")
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.id === 'specviz-run'")
    assert wait_until(lambda: session.num_closed == 1, seconds=1)


def test_the_plain_lane_is_missed(page: Any) -> None:
    assert page.locator("#specviz-no-plain-note").count() == 0
    unfold(page)
    page.click("#specviz-lanes label:has-text('Plain decoding')")
    page.wait_for_selector("#specviz-no-plain-note", state="visible")
    assert "1× line" in page.inner_text("#specviz-no-plain-note")


def test_a_run_neither_rebuilds_the_stage_nor_moves_the_page(
    page: Any, session: SlowSession
) -> None:
    """Components that are rebuilt on each update flicker and make the page jump (gradio 13678)."""
    page.click(RUN)
    wait_for_text(page, "Live")
    page.evaluate(
        "() => { window.root = document.querySelector('.specviz-stage').firstElementChild;"
        " scrollTo(0, 200); }"
    )
    page.click(SETTINGS)  # the page stays usable meanwhile
    top = page.evaluate("scrollY")
    page.wait_for_selector(RUN, state="attached")
    page.wait_for_function("!document.body.classList.contains('specviz-running')")
    assert page.evaluate(
        "window.root === document.querySelector('.specviz-stage').firstElementChild"
    )
    assert abs(page.evaluate("scrollY") - top) < 2


def test_a_silent_server_counts_as_lost_and_run_works_again(
    chromium: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(playback, "BEAT_SECONDS", 60)
    monkeypatch.setattr(playback, "SILENCE_SECONDS", 1)
    session = SlowSession(seconds=4)
    with served(session) as url, opened(chromium, url) as page:
        page.click(RUN)
        wait_told(page, word("page.lost", seconds=1), seconds=3)
        session.seconds = 0.01
        page.click(RUN)
        wait_for_text(page, "50 tokens")


def test_too_many_visitors_are_refused_in_words(
    chromium: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "MAX_VISITORS", 1)
    monkeypatch.setattr(build, "MAX_OUTSIDE", 1)
    with served(SlowSession(seconds=0.1)) as url, opened(chromium, url) as first:
        first.click(RUN)
        wait_for_text(first, "Live")
        with opened(chromium, url) as second:
            second.click(RUN)
            context = chromium.new_context()
            third = context.new_page()  # Gradio logs the refusal to its console
            third.goto(url)
            third.wait_for_function("globalThis.specviz !== undefined")
            third.click(RUN)
            wait_told(third, word("page.refused"), seconds=5)
            assert third.is_visible(RUN)
            context.close()


def test_a_saved_trace_alone_is_a_player_without_run_controls(
    chromium: Any, recorded: Recordings
) -> None:
    with (
        served(ReplaySession(dump_events(demo_run())), recorded) as url,
        opened(chromium, url) as page,
    ):
        wait_for_text(page, "Recorded 2026-01-02", seconds=5)
        assert page.locator(RUN).count() == 0
        assert page.locator(PROMPT).count() == 0
