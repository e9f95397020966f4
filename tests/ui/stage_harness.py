"""The stage alone in a browser: a bare page with stage.js and stage.css, fed with envelopes.

No Gradio, no server, no network: whatever the stage asks for from outside fails the test.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from specviz.trace import SessionEvent
from specviz.views.stage import StageFeed

ASSETS = Path(__file__).parents[2] / "assets"
CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
PAGE = """<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<style>body {{ margin: 0; padding: 16px; background: {ground}; }} #host {{ {css} }}</style>
<body class="{theme}"><div id="host"><div id="root"></div></div>"""


@contextmanager
def stage_page(
    *, width: int = 1280, height: int = 900, dark: bool = False, calm: bool = False
) -> Iterator[Page]:
    """A page with `stage` mounted. Errors and outside requests raise when the page is left."""
    troubles: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(
            viewport={"width": width, "height": height},
            reduced_motion="reduce" if calm else "no-preference",
        )
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: troubles.append(request.url))
        css = (ASSETS / "stage.css").read_text("utf-8")
        ground = "#0f1318" if dark else "#ffffff"
        page.set_content(PAGE.format(css=css, theme="dark" if dark else "", ground=ground))
        page.evaluate(
            "(source) => { window.stage = new Function('element', source + "
            "'; return SpecVizStage.mount(element);')(document.querySelector('#root')); }",
            (ASSETS / "stage.js").read_text("utf-8"),
        )
        try:
            yield page
        finally:
            browser.close()
    assert not troubles, troubles


def items_of(events: Iterable[SessionEvent]) -> list[dict[str, Any]]:
    feed = StageFeed()
    return [item for event in events for item in feed.feed(event)]


def envelope(
    items: list[dict[str, Any]], *, run: str = "r1", seq: int = 0, source: str = "recorded"
) -> str:
    body = {"v": 1, "run": run, "seq": seq, "source": source, "label": "a test", "items": items}
    return json.dumps(body, ensure_ascii=True, allow_nan=False)


def send(page: Page, items: list[dict[str, Any]], **more: Any) -> None:
    page.evaluate("(text) => stage.receive(text)", envelope(items, **more))


def seek(page: Page, seconds: float) -> None:
    """Moves the playhead and waits until it is drawn."""
    page.evaluate(
        "(t) => new Promise((done) => { stage.seek(t); "
        "requestAnimationFrame(() => requestAnimationFrame(done)); })",
        seconds,
    )
