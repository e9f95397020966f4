"""What showing the stage costs the engine on one machine: `python -m tests.ui.stage_cost`.

The default model decodes the same request with the page open in Chromium and with nobody looking,
in turns, in one process. Printed: seconds on the lanes' own clocks with the page over seconds
without it, one ratio per pair, and their median. Run it with nothing else going on.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

from specviz.config import Catalog, LaneSpec, Request
from specviz.session import LiveSession, Session
from specviz.trace import RoundTrace, SessionEvent
from specviz.ui.playback import live
from tests.conftest import CHROMIUM, CHROMIUM_FLAGS
from tests.ui.serving import SECONDS, opened, served
from tests.ui.visiting import RUN

NUM_PAIRS = 5
LANES = ("autoregressive", "prompt_lookup", "lookahead")
REQUEST = Request(
    "Explain how rainbows form, step by step.",
    tuple(LaneSpec(name) for name in LANES),
    max_new_tokens=128,
)


class TimedSession:
    """Decodes REQUEST whatever it is asked, and adds up the seconds of its rounds."""

    def __init__(self, inner: Session) -> None:
        self.inner, self.seconds = inner, 0.0

    def catalog(self) -> Catalog:
        return self.inner.catalog()

    def events(self, request: Request) -> Iterator[SessionEvent]:
        del request
        self.seconds = 0.0
        for event in self.inner.events(REQUEST):
            if isinstance(event, RoundTrace):
                self.seconds += event.seconds
            yield event


def alone(session: TimedSession) -> float:
    async def read() -> None:
        async for _ in live(session, REQUEST, "alone"):
            pass

    with ThreadPoolExecutor(1) as reader:  # Playwright's loop runs in this thread
        reader.submit(asyncio.run, read()).result()
    return session.seconds


def watched(session: TimedSession, page: Any) -> float:
    page.click(RUN)
    page.wait_for_selector(RUN, state="hidden")
    page.wait_for_selector(RUN, state="visible", timeout=300 * SECONDS)
    return session.seconds


def measure() -> list[float]:
    from playwright.sync_api import sync_playwright

    inner = LiveSession()
    session, ratios = TimedSession(inner), []
    try:
        alone(session)  # loads and warms up
        with served(session) as url, sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
            for _ in range(NUM_PAIRS):
                with opened(browser, url) as page:
                    seconds = watched(session, page)
                ratios.append(seconds / alone(session))
            browser.close()
    finally:
        inner.close()
    return ratios


if __name__ == "__main__":
    found = measure()
    each = ", ".join(f"{ratio:.3f}" for ratio in found)
    sys.stdout.write(f"seconds watched over seconds alone: {each}; median {median(found):.3f}\n")
