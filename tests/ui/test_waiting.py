"""What a visitor can do while a run of theirs waits in line: look at others, and lose nothing of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specviz.trace_io import dump_events
from specviz.ui.playback import Recordings
from specviz.words import word
from tests.grown import sampled_run
from tests.traces import demo_run
from tests.ui.serving import opened, served, stage_text, wait_for_text
from tests.ui.sessions import SlowSession
from tests.ui.visiting import PROMPT, RUN, STOP, run_to_the_end, wait_told

pytestmark = pytest.mark.browser
IN_LINE = "You are number 1 in line."
RECORDED = ".specviz-recorded .specviz-chip"
MINE = ".specviz-mine .specviz-chip:not(.specviz-pin)"


def pressed(page: Any, chip: str) -> None:
    page.click(chip)
    page.wait_for_selector(f"{chip}[aria-pressed=true]")


def to_the_end(page: Any) -> None:
    page.focus(".specviz-stage [tabindex='0']")
    page.keyboard.press("End")
    wait_for_text(page, "identical to plain for 50 tokens")


def test_who_waits_looks_at_other_runs_and_gets_the_own_one_whole(
    chromium: Any, url: str, session: SlowSession
) -> None:
    """Chips were grey from the press on Run to its end. Had they not been, the stage would have
    dropped the run that waited as one that another had replaced."""
    with opened(chromium, url) as first, opened(chromium, url) as second:
        run_to_the_end(second, "an earlier question")
        session.seconds = 0.2
        first.click(RUN)
        wait_for_text(first, "Live")
        second.fill(PROMPT, "asked in line")
        second.click(RUN)
        wait_for_text(second, IN_LINE)
        pressed(second, f"{RECORDED}[data-name=second]")
        to_the_end(second)
        pressed(second, MINE)
        to_the_end(second)
        assert IN_LINE in stage_text(second)
        assert second.is_visible(STOP)
        first.click(STOP)
        second.wait_for_selector(f"{RECORDED}:disabled")
        assert IN_LINE not in stage_text(second)
        assert second.locator(f"{RECORDED}:disabled").count() == 2
        session.seconds = 0.01
        second.wait_for_selector(RUN, state="visible")
        to_the_end(second)
        second.click("text=/^Prompt, \\d+ token/")
        assert "asked in line" in stage_text(second)
        assert second.locator(MINE).count() == 2


def test_stop_in_line_leaves_the_run_that_is_looked_at(
    chromium: Any, url: str, session: SlowSession
) -> None:
    session.seconds = 0.2
    with opened(chromium, url) as first, opened(chromium, url) as second:
        first.click(RUN)
        wait_for_text(first, "Live")
        second.click(RUN)
        wait_for_text(second, IN_LINE)
        pressed(second, f"{RECORDED}[data-name=second]")
        second.click(STOP)
        wait_told(second, word("page.stopped"))
        assert IN_LINE not in stage_text(second)
        assert second.locator(f"{RECORDED}[aria-pressed=true]").inner_text() == "second"
        to_the_end(second)


def test_a_chapter_opens_the_recording_it_needs_while_a_run_waits(
    chromium: Any, session: SlowSession, tmp_path: Path
) -> None:
    """It said that a run was going on, though none had begun."""
    for name, events in (("first", sampled_run()), ("second", demo_run())):
        (tmp_path / f"{name}.jsonl").write_text(dump_events(events), "utf-8")
    session.seconds = 0.2
    recorded = Recordings(sorted(tmp_path.iterdir()))
    with (
        served(session, recorded) as url,
        opened(chromium, url) as first,
        opened(chromium, url) as second,
    ):
        first.click(RUN)
        wait_for_text(first, "Live")
        wait_for_text(second, "EAGLE-2")  # which has no plain lane, as the first chapter needs
        second.click(RUN)
        wait_for_text(second, IN_LINE)
        second.click(".svl-offer[data-name=chapters]")
        second.wait_for_selector(f"{RECORDED}[data-name=second][aria-pressed=true]")
        wait_for_text(second, "Plain decoding")
        assert word("learn.busy") not in second.inner_text(".specviz-learn")
        assert second.is_visible(STOP)
