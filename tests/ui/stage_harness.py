"""The stage alone in a browser: a bare page with its scripts and styles, fed with envelopes.

No Gradio, no server, no network: whatever the stage asks for from outside fails the test.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from specviz import words
from specviz.trace import SessionEvent
from specviz.views.stage import SCRIPTS, STYLES, StageFeed
from tests.traces import demo_run

ASSETS = Path(__file__).parents[2] / "assets"
PAGE = """<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<style>body {{ margin: 0; padding: 16px; background: {ground}; }} #host {{ {css} }}</style>
<body class="{theme}"><div id="host"><div id="root"></div></div>"""
MOUNT = """(source) => {
  const mount = new Function("element",
    source + "; window.words = SpecVizWords; return SpecVizStage.mount(element, { tryRow: (row) => { window.tried = row; } });");
  window.stage = mount(document.querySelector("#root"));
}"""  # as Gradio runs it: the text of a function body


def scripts() -> str:
    return "\n".join((ASSETS / name).read_text("utf-8") for name in SCRIPTS)


def styles() -> str:
    return "\n".join((ASSETS / name).read_text("utf-8") for name in STYLES)


def source() -> str:
    return f"{words.script()}\n{scripts()}"


@contextmanager
def stage_page(
    browser: Any,
    *,
    width: int = 1280,
    height: int = 900,
    dark: bool = False,
    calm: bool = False,
    touch: bool = False,
) -> Iterator[Any]:
    """A page with `stage` mounted. Errors and outside requests raise when the page is left."""
    troubles: list[str] = []
    context = browser.new_context(
        viewport={"width": width, "height": height},
        has_touch=touch,
        reduced_motion="reduce" if calm else "no-preference",
    )
    page = context.new_page()
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: troubles.append(request.url))
    ground = "#0f1318" if dark else "#ffffff"
    page.set_content(PAGE.format(css=styles(), theme="dark" if dark else "", ground=ground))
    page.evaluate(MOUNT, source())
    try:
        yield page
    finally:
        context.close()
    assert not troubles, troubles


def items_of(events: Iterable[SessionEvent]) -> list[dict[str, Any]]:
    feed = StageFeed()
    return [item for event in events for item in feed.feed(event)]


def envelope(
    items: list[dict[str, Any]], *, run: str = "r1", seq: int = 0, source: str = "recorded"
) -> str:
    body = {"v": 1, "run": run, "seq": seq, "source": source, "label": "a test", "items": items}
    return json.dumps(body, ensure_ascii=True, allow_nan=False)


def send(page: Any, items: list[dict[str, Any]], **more: Any) -> None:
    page.evaluate("(text) => stage.receive(text)", envelope(items, **more))


# What is seen and where: text and attributes, and the boxes of pictures, which follow the layout.
PICTURE = """() => [document.querySelector(".sv").outerHTML,
  ...[...document.querySelectorAll(".sv canvas, .sv svg")]
    .map((n) => JSON.stringify(n.getBoundingClientRect()))].join()"""
FRAMES = """() => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 20))))"""


def settle(page: Any) -> None:
    """Until what was asked for is painted: two frames, and on until the picture rests. A layout
    that changes calls for another painting, so two frames alone are not always enough."""
    before = None
    for _ in range(20):
        page.evaluate(FRAMES)
        if (now := page.evaluate(PICTURE)) == before:
            return
        before = now


def seek(page: Any, seconds: float) -> None:
    """Moves the playhead and waits until it is drawn."""
    page.evaluate("(t) => stage.seek(t)", seconds)
    settle(page)


ITEMS = items_of(demo_run())
ROUNDS = [item for item in ITEMS if item["kind"] == "round"]
ENDS = sorted({item["at"][3] for item in ROUNDS})


def lane(page: Any, number: int) -> Any:
    return page.locator(".sv-lane").nth(number)


def state(page: Any) -> dict[str, Any]:
    return dict(page.evaluate("stage.state()"))


def round_of(number: int, index: int) -> dict[str, Any]:
    return [r for r in ROUNDS if r["lane"] == number][index]


# Where the opening waits: the explained lane's first round after its first that kept a guess and
# refused another.
OPENED = next(i for i in range(1, 6) if round_of(1, i)["outcome"] == "some")
