"""Pictures of the page for people: `python -m tests.ui.screenshots FOLDER`.

Eight by default: a real run live, paused, with its card open, its mask focused, its race ended
and imported, in light; one in dark; one on a phone. `--all` takes the six states in all three
looks. What runs is a recorded run of assets/traces played again by a session of this file, or
with --live the default model itself. It asserts nothing: looking is left to whoever asked.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specviz.config import Catalog, Request
from specviz.session import LiveSession, Session
from specviz.trace import RunStart, SessionEvent
from specviz.trace_io import load_events, read_trace
from specviz.ui.playback import Recordings
from specviz.ui.warm_up import WarmUp
from specviz.words import ASSETS, word
from tests.conftest import CHROMIUM, CHROMIUM_FLAGS
from tests.ui.serving import SECONDS, served, wait_for_text
from tests.ui.visiting import RUN, import_file

TRACES = sorted((ASSETS / "traces").glob("*.jsonl.gz"))
EVENT_SECONDS = 0.06  # between two events of a run that is played again
LIVE_SECONDS = 600  # the default model may have to be fetched first


@dataclass(frozen=True, slots=True)
class Look:
    name: str
    query: str = ""
    width: int = 1280
    height: int = 900


LIGHT, DARK = Look("light", "?__theme=light"), Look("dark", "?__theme=dark")
PHONE = Look("phone", "?__theme=light", 390, 844)


class AgainSession:
    """Offers what the real session offers; whatever is asked for, it plays one recorded run."""

    def __init__(self, trace: Path) -> None:
        self._events = tuple(load_events(read_trace(trace)))
        self._catalog = LiveSession().catalog()

    def catalog(self) -> Catalog:
        return self._catalog

    def events(self, request: Request) -> Iterator[SessionEvent]:
        for event in self._events:
            time.sleep(EVENT_SECONDS)
            yield replace(event, request=request) if isinstance(event, RunStart) else event


def live(page: Any) -> None:
    page.click(RUN)
    wait_for_text(page, word("page.live"), seconds=LIVE_SECONDS)
    page.wait_for_function("document.querySelectorAll('.sv-lane .sv-node[data-row]').length > 3")
    page.wait_for_timeout(1500)


def paused(page: Any) -> None:
    """A recorded run, three rounds on, standing still."""
    move(page, "home")
    for _ in range(3):
        move(page, "round_forward")


def card_open(page: Any) -> None:
    paused(page)
    page.locator(".sv-lane[data-lead=true] .sv-node:visible").nth(1).click()


def mask_focused(page: Any) -> None:
    """The last row's own cell is pinned, so its row and column are lit."""
    paused(page)
    mask = page.locator(".sv-mask")
    mask.scroll_into_view_if_needed()
    box = mask.bounding_box()
    mask.click(position={"x": box["width"] - 10, "y": box["height"] - 10})


def race_ended(page: Any) -> None:
    move(page, "end")


def imported(page: Any) -> None:
    text = read_trace(TRACES[-1]).encode()
    import_file(page, "my-own-run.jsonl", text)
    wait_for_text(page, "my-own-run.jsonl")
    paused(page)


STATES: dict[str, Callable[[Any], None]] = {
    "live": live,
    "paused": paused,
    "card-open": card_open,
    "mask-focused": mask_focused,
    "race-ended": race_ended,
    "imported": imported,
}
EIGHT = [*((LIGHT, name) for name in STATES), (DARK, "card-open"), (PHONE, "paused")]
EVERY = [(look, name) for look in (LIGHT, DARK, PHONE) for name in STATES]


def move(page: Any, name: str) -> None:
    page.get_by_role("button", name=word(f"stage.move.{name}"), exact=True).first.click()
    page.wait_for_timeout(150)


def shoot(browser: Any, url: str, look: Look, state: str, file: Path, height: int) -> None:
    """height: pixels of the page from its top; 0: all."""
    context = browser.new_context(viewport={"width": look.width, "height": look.height})
    try:
        page = context.new_page()
        page.set_default_timeout(60 * SECONDS)
        page.goto(url + look.query)
        page.wait_for_function("globalThis.specviz !== undefined")
        page.wait_for_selector(".sv-lane .sv-node >> visible=true")
        STATES[state](page)
        page.wait_for_timeout(600)
        cut = {"clip": {"x": 0, "y": 0, "width": look.width, "height": height}} if height else {}
        page.screenshot(path=file, full_page=True, **cut)
    finally:
        context.close()


def take(
    folder: Path, session: Session, wanted: list[tuple[Look, str]], *, warm: bool, height: int = 0
) -> list[Path]:
    """The files, in the order of `wanted`."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    warm_up = WarmUp(session) if warm else None
    if warm_up:
        warm_up.start()
    files = []
    with served(session, Recordings(TRACES), warm_up) as url, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        for look, state in wanted:
            file = folder / f"{look.name}-{state}.png"
            shoot(browser, url, look, state, file, height)
            files.append(file)
        browser.close()
    return files


def main() -> None:
    words = argparse.ArgumentParser(description="Pictures of the page, for people to look at.")
    words.add_argument("folder", type=Path)
    words.add_argument("--live", action="store_true", help="run the default model, not a recording")
    words.add_argument("--all", action="store_true", help="six states in light, dark and phone")
    words.add_argument("--only", default="", help="only those whose file name contains this")
    words.add_argument("--height", type=int, default=0, help="of the page's top alone, in pixels")
    options = words.parse_args()
    height = options.height
    wanted = [
        (look, state)
        for look, state in (EVERY if options.all else EIGHT)
        if options.only in f"{look.name}-{state}"
    ]
    if not options.live:
        files = take(options.folder, AgainSession(TRACES[0]), wanted, warm=False, height=height)
    else:
        session = LiveSession()
        try:
            files = take(options.folder, session, wanted, warm=True, height=height)
        finally:
            session.close()
    sys.stdout.write("".join(f"{file}\n" for file in files))


if __name__ == "__main__":
    main()
