"""Which live runs go on, by the id their page gave them, so that a page can leave one by name.

Gradio's own way to cancel an event names a button, not a run: what arrives late ends the run
after the one that was meant, and what arrives between two steps ends none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MAX_LEFT = 1000  # ids of runs that were left before they began; the oldest are forgotten


class OpenRuns:
    """Safe to use from any thread."""

    def __init__(self) -> None:
        self._leave: dict[str, Callable[[], None]] = {}
        self._left: dict[str, None] = {}
        self._lock = threading.Lock()

    @contextmanager
    def holding(self, run: str, leave: Callable[[], None]) -> Iterator[None]:
        """While this is entered, `leave` is called when the page leaves `run`: at once if it
        already did."""
        with self._lock:
            self._leave[run] = leave
            was_left = run in self._left
        if was_left:
            leave()
        try:
            yield
        finally:
            with self._lock:
                self._leave.pop(run, None)

    def leave(self, run: str) -> None:
        with self._lock:
            leave = self._leave.get(run)
            self._left[run] = None
            while len(self._left) > MAX_LEFT:
                self._left.pop(next(iter(self._left)))
        if leave is not None:
            leave()
