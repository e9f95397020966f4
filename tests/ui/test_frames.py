"""What a Space does to the page: a frame of another site, no clipboard, no storage, a server that
restarts, a queue that takes no more. In Chromium."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from specviz.ui.playback import Recordings
from specviz.words import word
from tests.traces import demo_run
from tests.ui.serving import SECONDS, free_port, opened, served, stage_text, wait_for_text
from tests.ui.sessions import SlowSession
from tests.ui.visiting import RUN, STOP, link_of, run_to_the_end, saved, saying, wait_told

pytestmark = pytest.mark.browser
SANDBOX = "allow-scripts allow-same-origin allow-forms allow-popups allow-downloads allow-modals"
NO_STORAGE = """for (const name of ["sessionStorage", "localStorage"])
  Object.defineProperty(window, name, { get() { throw new DOMException("no", "SecurityError"); } });"""


@contextmanager
def framed(browser: Any, inner: str) -> Iterator[tuple[Any, Any]]:
    """(outer page, frame): a page of another site that shows `inner` and grants it no clipboard."""

    class Outer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            frame = f'<iframe src="{inner}" sandbox="{SANDBOX}" width="1200" height="800"></iframe>'
            self.wfile.write(f"<textarea></textarea><br>{frame}".encode())

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Outer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        page.set_default_timeout(20 * SECONDS)
        page.goto(f"http://localhost:{server.server_port}/")
        frame = page.frames[1]
        frame.wait_for_function("globalThis.specviz !== undefined")
        yield page, frame
    finally:
        context.close()
        server.shutdown()
        server.server_close()


def state_of(link: str) -> dict[str, Any]:
    text = link.partition("#run=")[2]
    state: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return state


def test_a_link_is_copied_from_within_a_frame_without_permission(chromium: Any, url: str) -> None:
    with framed(chromium, url) as (page, frame):
        frame.wait_for_selector(".sv-lane .sv-node >> visible=true")
        frame.click(f"text={word('page.copy_link')}")
        saying(frame, word("page.copied"))
        link = frame.input_value(".specviz-link")
        page.focus("textarea")
        page.keyboard.press("Control+V")
        assert page.input_value("textarea") == link
        assert link.startswith(url)  # the page's own address, not that of the site around it


def test_a_run_goes_its_way_within_a_frame(chromium: Any, url: str, session: SlowSession) -> None:
    with framed(chromium, url) as (_, frame):
        run_to_the_end(frame, "from a frame")
        wait_for_text(frame, "50 tokens")
    assert session.requests[0].prompt == "from a frame"


def test_a_named_recording_plays_in_a_frame(chromium: Any, url: str) -> None:
    with framed(chromium, f"{url}?embed=1&run=second") as (_, frame):
        wait_for_text(frame, "Recorded")
        assert not frame.is_visible(".specviz-bar")
        assert not frame.is_visible(RUN)


def test_a_browser_that_keeps_nothing_still_runs(chromium: Any, url: str) -> None:
    """Where a frame's storage is forbidden, asking for it raised and no page appeared."""
    context = chromium.new_context()
    try:
        page = context.new_page()
        page.set_default_timeout(20 * SECONDS)
        page.add_init_script(NO_STORAGE)
        page.goto(url)
        page.wait_for_function("globalThis.specviz !== undefined")
        run_to_the_end(page, "no storage")
        assert page.locator(".specviz-mine .specviz-chip").count() >= 1
    finally:
        context.close()


def test_a_link_brings_run_round_and_row_back_after_a_restart(
    chromium: Any, recorded: Recordings
) -> None:
    port, first, second = free_port(), SlowSession(seconds=0.01), SlowSession(seconds=0.01)
    with served(first, recorded, port=port) as url, opened(chromium, url) as page:
        run_to_the_end(page, "before the restart")
        name = word("stage.move.home")
        page.get_by_role("button", name=name, exact=True).first.click()
        page.get_by_role("button", name=word("stage.move.round_forward"), exact=True).first.click()
        page.locator(".sv-lane[data-lead=true] .sv-node[data-row='1']:visible").first.click()
        link = link_of(page)
    before = state_of(link)
    assert before["place"]["pin"][2] == 1
    with (
        served(second, recorded, port=port) as url,
        opened(chromium, url, query=link.removeprefix(url)) as page,
    ):
        saying(page, "Press Run")
        page.wait_for_function(
            "() => document.querySelector('#specviz-prompt textarea').value === 'before the restart'"
        )
        run_to_the_end(page, page.input_value("#specviz-prompt textarea"))
        after = state_of(link_of(page))
    assert second.requests == first.requests
    assert after["recipe"] == before["recipe"]
    assert after["place"] == before["place"]


def test_anothers_failure_does_not_end_the_run_that_goes_on(page: Any) -> None:
    """Gradio does not say which run failed: an older one's failure ended the newer run."""
    page.click(RUN)
    page.wait_for_selector(STOP, state="visible")
    page.evaluate("specviz.refused()")
    page.wait_for_selector(RUN, state="visible", timeout=40 * SECONDS)
    assert word("page.broken") not in stage_text(page)
    assert page.inner_text(".specviz-told") == ""
    _, content = saved(page, "csv")
    assert content.count(b"\r\n") == 1 + sum(e.kind == "round" for e in demo_run())


def test_a_run_that_is_not_taken_says_so(chromium: Any, url: str) -> None:
    full = "503|Failed to load|queue"
    with opened(chromium, url, expected=full) as page:
        page.route(
            "**/queue/join*", lambda route: route.fulfill(status=503, body='{"detail":"full"}')
        )
        page.click(RUN)
        wait_told(page, word("page.refused"))
        assert page.is_visible(RUN)


def test_how_a_run_was_made_can_be_read(page: Any) -> None:
    page.click(".specviz-facts summary")
    text = page.inner_text(".specviz-fact-list")
    assert "hand-made" in text
    assert word("page.fact.seed") in text
    assert "temperature 0" in text
