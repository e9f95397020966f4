"""The latest live runs as traces, so that a visitor can save what was just seen. Bounded, in memory.

What a page shows lives in the browser and needs none of this; a server that restarts forgets.
"""

from __future__ import annotations

import threading

from specviz.trace import TraceEvent
from specviz.trace_io import dump_events

MAX_EVENTS = 10_000  # over all runs, some 10 kB each; the oldest runs go first


class KeptTraces:
    """Events by the run's id, which only the page that began the run knows."""

    def __init__(self, max_events: int = MAX_EVENTS) -> None:
        self._max_events = max_events
        self._runs: dict[str, list[TraceEvent]] = {}
        self._num_events = 0
        self._lock = threading.Lock()

    def add(self, run: str, event: TraceEvent) -> None:
        with self._lock:
            self._runs.setdefault(run, []).append(event)
            self._num_events += 1
            while self._num_events > self._max_events:
                oldest = next(iter(self._runs))
                self._num_events -= len(self._runs.pop(oldest))

    def text(self, run: str) -> str | None:
        """The trace as JSON Lines, as far as it came; None if it is not kept, or not whole."""
        with self._lock:
            events = list(self._runs.get(run, ()))
        if not events or events[0].kind != "run_start":
            return None  # its beginning made room for others
        return dump_events(events)
