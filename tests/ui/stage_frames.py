"""How long the stage holds the browser's main thread: `python -m tests.ui.stage_frames`.

A frame's time is its script, style and layout together, measured where the frame is made, so that
neither waiting for the screen nor another program's turn between two frames counts. Printed, in
milliseconds: the median and the longest frame of scrubbing a trace of three lanes and 500 rounds,
and of playing the end of a text of 600 tokens.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.conftest import CHROMIUM, CHROMIUM_FLAGS

WATCH = """() => {
  const next = window.requestAnimationFrame.bind(window);
  window.frames_taken = [];
  window.requestAnimationFrame = (call) => next((now) => {
    const start = performance.now();
    call(now);
    document.body.getBoundingClientRect(); // style and layout, now instead of after the call
    window.frames_taken.push(performance.now() - start);
  });
}"""
SCRUB = """async (shares) => {
  const bar = document.querySelector(".sv-scrub");
  for (const share of shares) {
    bar.value = share * bar.max;
    bar.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise((done) => setTimeout(done, 30));
  }
}"""
DRAG = tuple(step / 40 for step in range(41))
JUMPS = tuple(step * 17 % 41 / 40 for step in range(41))  # all over the bar
PLAY_SECONDS = 4


@dataclass(frozen=True, slots=True)
class Frames:
    """Of a row of frames, in milliseconds."""

    median: float
    longest: float
    count: int

    def __str__(self) -> str:
        return f"median {self.median:.1f}, longest {self.longest:.1f} of {self.count}"


def scrubbed(page: Any, shares: tuple[float, ...]) -> Frames:
    """Drags the scrub bar of a page that `watch` was called on through `shares` of the run."""
    return _taken(page, lambda: page.evaluate(SCRUB, list(shares)))


def played(page: Any, since: float, seconds: float = PLAY_SECONDS) -> Frames:
    """Plays from `since` (seconds) on, in true time, and stops before the end."""
    page.evaluate("(t) => stage.seek(t)", since)
    page.select_option(".sv-select >> nth=0", "true")
    page.locator(".sv").focus()

    def play() -> None:
        page.keyboard.press(" ")
        page.wait_for_timeout(seconds * 1000)
        page.keyboard.press(" ")

    return _taken(page, play)


def watch(page: Any) -> None:
    page.evaluate(WATCH)


def _taken(page: Any, act: Any) -> Frames:
    page.evaluate("window.frames_taken.length = 0")
    act()
    taken: list[float] = page.evaluate("window.frames_taken")
    return Frames(median(taken), max(taken), len(taken))


def measure() -> str:
    from playwright.sync_api import sync_playwright

    from tests.ui.stage_harness import items_of, send, settle, stage_page
    from tests.ui.test_stage_speed import long_run

    said = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        with stage_page(browser) as page:
            send(page, items_of(long_run(500)))
            settle(page)
            watch(page)
            said += [f"dragging: {scrubbed(page, DRAG)}", f"jumping: {scrubbed(page, JUMPS)}"]
        with stage_page(browser) as page:
            send(page, items_of(long_run(150, num_lanes=1)))
            settle(page)
            watch(page)
            end = page.evaluate("stage.state().end")
            said.append(f"playing 600 tokens: {played(page, end - PLAY_SECONDS - 1)}")
        browser.close()
    return "\n".join(said)


if __name__ == "__main__":
    sys.stdout.write(measure() + "\n")
