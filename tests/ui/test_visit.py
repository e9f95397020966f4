"""A visit: runs kept, reloads, tabs, languages, embedding, presets. In Chromium."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import pytest

from specviz.config import Catalog
from specviz.ui import playback
from specviz.ui.playback import Recordings
from specviz.words import word
from tests.traces import demo_run
from tests.ui.serving import SECONDS, opened, served, wait_for_text
from tests.ui.sessions import CATALOG, SlowSession
from tests.ui.visiting import (
    PROMPT,
    RUN,
    STOP,
    run_to_the_end,
    saved,
    saying,
    unfold,
)

pytestmark = pytest.mark.browser


def test_runs_of_this_visit_come_back_from_their_chips(page: Any, session: SlowSession) -> None:
    run_to_the_end(page, "first question")
    run_to_the_end(page, "second question")
    chips = page.locator(".specviz-mine .specviz-chip:not(.specviz-pin)")
    assert chips.all_inner_texts() == ["1. first question", "2. second question"]
    chips.first.click()
    page.wait_for_function(
        "document.querySelector('.specviz-mine .specviz-chip').getAttribute('aria-pressed') === 'true'"
    )
    page.click("text=/^Prompt, \\d+ token/")
    wait_for_text(page, "first question")
    assert len(session.requests) == 2
    run_to_the_end(page, "first question")  # its chip read as the first one's but for the number
    one, _, other = chips.all_inner_texts()
    details = [re.fullmatch(r"\d\. first question \((4 lanes, .*) UTC\)", t) for t in (one, other)]
    assert all(details)
    assert details[0][1] != details[1][1]  # type: ignore[index]
    assert "Draft model" in str(chips.first.get_attribute("title"))


def test_an_earlier_run_is_pinned_beside_the_one_that_is_shown(page: Any) -> None:
    run_to_the_end(page, "first question")
    run_to_the_end(page, "second question")
    pin = page.locator(".specviz-pin")
    assert pin.count() == 1  # what is shown is not compared with itself
    pin.click()
    page.wait_for_selector(".specviz-pin[aria-pressed=true]")
    page.wait_for_function("document.querySelectorAll('.sv-ghostname').length === 4")
    page.locator(".specviz-pin").click()
    page.wait_for_function("document.querySelectorAll('.sv-ghostname').length === 0")


def test_no_recorded_run_stays_pressed_while_another_runs(page: Any, session: SlowSession) -> None:
    """The button of the recorded run once looked pressed over a live run."""
    session.seconds = 0.05
    page.wait_for_selector(".specviz-recorded [aria-pressed=true]")
    page.click(RUN)
    wait_for_text(page, "Live")
    assert page.locator(".specviz-recorded [aria-pressed=true]").count() == 0
    page.wait_for_selector(RUN, state="visible", timeout=40 * SECONDS)
    assert page.locator(".specviz-recorded [aria-pressed=true]").count() == 0


def test_a_reload_loses_nothing_that_was_received(
    chromium: Any, url: str, session: SlowSession
) -> None:
    session.seconds = 0.15
    gone = "AbortError|Connection errored out"
    with opened(chromium, url, expected=gone) as page:
        page.fill(PROMPT, "before the reload")
        page.click(RUN)
        wait_for_text(page, "A round costs")  # rounds have arrived, and many are to come
        page.reload()
        page.wait_for_function("globalThis.specviz !== undefined")
        saying(page, "This run broke off")
        page.click("text=/^Prompt, \\d+ token/")
        wait_for_text(page, "before the reload")
        page.focus(".specviz-stage [tabindex='0']")
        page.keyboard.press("End")
        wait_for_text(page, "A round costs")


def test_a_second_tab_has_runs_of_its_own(chromium: Any, page: Any, url: str) -> None:
    run_to_the_end(page, "in the first tab")
    with opened(chromium, url) as other:
        wait_for_text(other, "Recorded")
        assert not other.is_visible(".specviz-mine")
    assert page.is_visible(".specviz-mine")


def test_a_hidden_tab_receives_everything(page: Any) -> None:
    """A browser draws no frames for a hidden tab; what comes meanwhile is there afterwards."""
    page.evaluate(
        "() => { const real = requestAnimationFrame; const held = [];"
        " window.requestAnimationFrame = (f) => held.push(f);"
        " window.showAgain = () => { window.requestAnimationFrame = real; held.forEach(real); }; }"
    )
    page.click(RUN)
    page.wait_for_selector(STOP, state="visible")
    page.wait_for_selector(RUN, state="visible", timeout=40 * SECONDS)
    page.evaluate("showAgain()")
    wait_for_text(page, "50 tokens")
    _, content = saved(page, "csv")
    assert content.count(b"\r\n") == 1 + sum(e.kind == "round" for e in demo_run())


def test_a_killed_server_leaves_everything_but_new_runs(
    chromium: Any, recorded: Recordings
) -> None:
    session = SlowSession(seconds=0.01)
    offline = "ERR_|Failed to fetch|Connection|reconnect|TypeError"
    with served(session, recorded) as url, opened(chromium, url, expected=offline) as page:
        run_to_the_end(page, "kept")
        page.context.set_offline(True)
        page.focus(".specviz-stage [tabindex='0']")
        page.keyboard.press("Home")
        page.keyboard.press("End")
        wait_for_text(page, "identical to plain for 50 tokens")
        name, content = saved(page, "html")
        assert name.endswith(".html")
        assert b"kept" in content


def test_a_server_that_goes_away_in_a_run_loses_nothing_that_came(
    chromium: Any, recorded: Recordings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came stays on the stage and over a reload's end, and a recorded run says why it is not here."""
    monkeypatch.setattr(playback, "SILENCE_SECONDS", 3)
    session = SlowSession(seconds=0.15)
    gone = "ERR_|Failed to fetch|Connection|reconnect|TypeError|AbortError"
    with served(session, recorded) as url, opened(chromium, url, expected=gone) as page:
        page.fill(PROMPT, "half a run")
        page.click(RUN)
        wait_for_text(page, "A round costs")  # rounds have come, and many are to come
        page.context.set_offline(True)
        page.wait_for_selector(RUN, state="visible", timeout=60 * SECONDS)
        page.focus(".specviz-stage [tabindex='0']")
        page.keyboard.press("End")
        wait_for_text(page, "A round costs")
        page.click(".specviz-recorded .specviz-chip >> nth=0")
        saying(page, word("page.server_gone"))
        wait_for_text(page, "A round costs")
        page.context.set_offline(False)
        session.seconds = 0.0
        run_to_the_end(page, "the next one")
        wait_for_text(page, "identical to plain for 50 tokens")


def test_a_run_too_long_for_the_browser_says_that_its_end_is_missing(
    chromium: Any, url: str, session: SlowSession
) -> None:
    """It said "everything that was received is here", and half of it was."""
    session.seconds = 0.0
    with opened(chromium, url) as page:
        page.evaluate(
            """() => { const set = Storage.prototype.setItem;
              Storage.prototype.setItem = function (key, text) {
                const part = key.startsWith("specviz.run.") ? Number(key.split(".").pop()) : 0;
                if (part > 4) throw new DOMException("full");
                return set.call(this, key, text);
              }; }"""
        )
        session.seconds = 0.05
        run_to_the_end(page, "a long run")
        wait_for_text(page, "identical to plain for 50 tokens")
        page.reload()
        page.wait_for_function("globalThis.specviz !== undefined")
        saying(page, word("page.kept_in_part"))


def test_the_page_speaks_chinese_and_remembers_it(chromium: Any, url: str) -> None:
    with opened(chromium, url) as page:
        page.fill(PROMPT, "my own words")
        page.click(".specviz-language")
        page.wait_for_function(
            "document.querySelector('#specviz-run')?.textContent.includes('运行')"
        )
        assert page.evaluate("document.documentElement.lang") == "zh"
        assert word("page.purpose", "zh") in page.inner_text(".specviz-head")
        assert page.input_value(PROMPT) == "my own words"
        assert "草稿模型" in page.inner_text("#specviz-lanes")
        page.reload()
        page.wait_for_function(
            "document.querySelector('#specviz-run')?.textContent.includes('运行')"
        )
    with opened(chromium, url, query="?lang=zh") as other:
        other.wait_for_function(
            "document.querySelector('#specviz-run')?.textContent.includes('运行')"
        )
        english = other.locator(
            "#specviz-form label, #specviz-form button, .specviz-bar"
        ).all_inner_texts()
        left = {t for t in ("Run", "Prompt", "Settings", "Copy link", "Save as…") if t in english}
        assert left == set()


def test_an_embedded_page_is_the_stage_alone(chromium: Any, url: str) -> None:
    with opened(chromium, url, query="?embed=1&run=second") as page:
        wait_for_text(page, "Recorded")
        assert not page.is_visible(RUN)
        assert not page.is_visible(".specviz-head")
        assert not page.is_visible(".specviz-bar")
        page.focus(".specviz-stage [tabindex='0']")
        page.keyboard.press("End")
        wait_for_text(page, "identical to plain for 50 tokens")


@pytest.mark.parametrize("width", [1280, 390])
def test_an_embedded_page_fills_its_frame(chromium: Any, url: str, width: int) -> None:
    """It was a column of 312 px at any width."""
    with opened(chromium, url, query="?embed=1&run=second", width=width) as page:
        wait_for_text(page, "Recorded")
        assert page.locator(".specviz-stage").bounding_box()["width"] >= 0.9 * width


def test_a_recorded_run_that_is_none_is_missed(chromium: Any, url: str) -> None:
    """Another recording was shown without a word."""
    for query in ("?run=nope", "?embed=1&run=nope"):
        with opened(chromium, url, query=query) as page:
            saying(page, word("page.no_run_named", name="nope"))
            assert page.is_visible(".specviz-saying")
            wait_for_text(page, "Recorded")


@dataclass
class PoorSession(SlowSession):
    """Its second target is a base model for which one drafter has no weights."""

    def catalog(self) -> Catalog:
        base = replace(CATALOG.targets[1], has_chat_template=False)
        return replace(
            CATALOG,
            targets=(CATALOG.targets[0], base),
            untrained=frozenset({("other", "lookahead")}),
        )


def test_what_a_target_lacks_is_greyed_with_the_reason(chromium: Any) -> None:
    session = PoorSession(seconds=0.01)
    lookahead = "#specviz-lanes label:has-text('Lookahead')"
    with served(session) as url, opened(chromium, url) as page:
        unfold(page)
        assert page.is_enabled(f"{lookahead} input")
        page.click("#specviz-target input")
        page.click("[role=option]:has-text('Another target')")
        page.wait_for_selector(f"{lookahead} input:disabled")
        note = page.inner_text("#specviz-untrained-note")
        assert note.startswith("Crossed out: not trained for Another target.")
        assert "is a base model without a chat template" in page.inner_text("#specviz-base-note")
        run_to_the_end(page, "Once upon a time")
    (request,) = session.requests
    assert (request.target, request.is_chat) == ("other", False)
    assert "lookahead" not in [lane.drafter for lane in request.lanes]


def test_what_was_chosen_says_why_in_a_line_of_text(page: Any) -> None:
    """The reason was the hover title of its chip alone: a finger or a key never saw it."""
    why = page.locator(".specviz-why")
    assert not why.is_visible()
    page.click(".specviz-offers [data-name=code]")
    assert why.inner_text() == f"{word('example.code.title')} {word('example.code.why')}"
    page.click(".specviz-offers [data-name=teaching]")
    assert word("preset.teaching.why") in why.inner_text()
    page.click(".specviz-offers [data-name=list]")
    page.click(".specviz-language")
    assert word("example.list.why", "zh") in why.inner_text()
    page.fill(PROMPT, "my own words")  # which the reason is not about
    assert not why.is_visible()


def test_a_preset_changes_settings_and_keeps_the_prompt(page: Any, session: SlowSession) -> None:
    page.fill(PROMPT, "my own words")
    presets = page.locator(".specviz-chips >> nth=1").locator("button").all_inner_texts()
    assert presets[0] == word("preset.teaching.title")
    page.click(".specviz-offers [data-name=teaching]")
    page.wait_for_function(
        "[...document.querySelectorAll('#specviz-lanes input')].filter((box) => box.checked).length === 2"
    )
    page.click(RUN)
    wait_for_text(page, "Live")
    page.wait_for_selector(RUN, state="visible")
    (request,) = session.requests
    assert (request.prompt, request.max_new_tokens) == ("my own words", 32)
    assert [lane.drafter for lane in request.lanes] == ["autoregressive", "draft_model"]
