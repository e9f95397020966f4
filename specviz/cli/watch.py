"""A run on a terminal: its progress, one lane's text as it comes, the summary at the end."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import TextIO

from specviz.cli import BAD_INPUT, DONE, FAILED, INTERRUPTED
from specviz.config import PLAIN_DRAFTER
from specviz.trace import Failure, LaneEnd, Progress, RoundTrace, RunStart, SessionEvent
from specviz.views.summary import run_summary
from specviz.words import tell

PROGRESS_STEPS = 10  # a download is told of at most so often


def watch(events: Iterator[SessionEvent], out: TextIO, err: TextIO) -> int:
    """Text and summary to `out`, progress and failures to `err`; the exit code."""
    progress, seen = ProgressLines(err), list[SessionEvent]()
    shown, num_written = 0, 0
    for event in events:
        if isinstance(event, Progress):
            progress.tell(event)
            continue
        if isinstance(event, Failure):
            err.write(f"{tell(event.message)}\n")
            return BAD_INPUT if event.is_refusal else FAILED
        seen.append(event)
        if isinstance(event, RunStart):
            shown = _shown_lane(event)
        text = ""
        if isinstance(event, RoundTrace) and event.lane == shown:
            text = event.text
        elif isinstance(event, LaneEnd) and event.lane == shown:
            text = event.text[num_written:]  # what was held back until the end was known
        num_written += len(text)
        out.write(printable(text))
        out.flush()
    out.write(f"\n\n{run_summary(seen)}\n")
    return _exit_code(seen)


def printable(text: str) -> str:
    """The text, but nothing that would command the terminal: control characters as <1B>."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs") else f"<{ord(c):02X}>"
        for c in text
    )


class ProgressLines:
    """One line per message, and again for each tenth of a download."""

    def __init__(self, err: TextIO) -> None:
        self._err = err
        self._told: tuple[str, int] | None = None

    def tell(self, progress: Progress) -> None:
        is_sized = progress.stage == "fetch" and progress.total > 0
        step = PROGRESS_STEPS * progress.done // progress.total if is_sized else 0
        message = printable(tell(progress.message))
        if self._told == (message, step):
            return
        self._told = (message, step)
        size = f" ({_megabytes(progress.done)} of {_megabytes(progress.total)})" if is_sized else ""
        self._err.write(f"{message}{size}\n")
        self._err.flush()


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.0f} MB"


def _shown_lane(run: RunStart) -> int:
    drafters = [lane.drafter for lane in run.request.lanes]
    return drafters.index(PLAIN_DRAFTER) if PLAIN_DRAFTER in drafters else 0


def _exit_code(events: list[SessionEvent]) -> int:
    reasons = {event.reason for event in events if isinstance(event, LaneEnd)}
    if "error" in reasons:
        return FAILED
    return INTERRUPTED if "cancelled" in reasons else DONE
