"""What a visitor measures in a browser: what a what-if estimated, and a small benchmark."""

from __future__ import annotations

import gzip
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.config import LaneSpec
from specviz.trace import LaneStart, TraceEvent
from specviz.trace_io import dump_events
from specviz.ui.playback import Recordings
from tests.traces import demo_run
from tests.ui.serving import SECONDS, opened, served, wait_for_text
from tests.ui.sessions import SlowSession
from tests.ui.test_benchmark import session as scripted

pytestmark = pytest.mark.browser


def recording(folder: Path) -> Path:
    """The demo, its draft model's length a knob, as a recorded run has it."""
    events = [
        replace(e, knobs={"num_draft_tokens": 4})
        if isinstance(e, LaneStart) and e.drafter == "draft_model"
        else e
        for e in demo_run()
        if isinstance(e, TraceEvent)
    ]
    path = folder / "first.jsonl.gz"
    path.write_bytes(gzip.compress(dump_events(events).encode()))
    return path


def test_an_estimate_is_measured_by_one_button(chromium: Any, tmp_path: Path) -> None:
    session = SlowSession(seconds=0.01)
    with served(session, Recordings([recording(tmp_path)])) as url, opened(chromium, url) as page:
        wait_for_text(page, "Recorded")
        page.click(".sv-moves button:nth-child(7)")
        page.hover(".sv-whatif h4")  # scrolling may leave the mouse on another lane's node
        page.click(".sv-whatif .sv-column")
        page.click(".sv-measure")
        deadline = time.monotonic() + 40
        while not session.requests and time.monotonic() < deadline:
            page.wait_for_timeout(100)
        shorter = LaneSpec("draft_model", (("num_draft_tokens", 1),))
        assert session.requests[0].lanes == (LaneSpec("autoregressive"), shorter)
        assert session.requests[0].prompt == "Why guess?"


def test_a_small_benchmark_is_measured_shown_and_saved(
    chromium: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path))
    with served(scripted()) as url, opened(chromium, url, query="benchmark") as page:
        page.wait_for_timeout(1 * SECONDS)
        page.click("#specviz-bench-start")
        page.wait_for_function(
            "() => document.querySelector('#specviz-bench-progress').innerText.includes('7 of 7')",
            timeout=40 * SECONDS,
        )
        rows = page.locator("#specviz-bench-report table").first.locator("tbody tr")
        assert rows.count() == 2
        assert rows.first.inner_text().startswith("Plain decoding")
        with page.expect_download() as got:
            page.click("#specviz-bench-document")
        assert json.loads(Path(got.value.path()).read_text("utf-8"))["prompts"] == 7
