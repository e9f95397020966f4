"""Live sessions for tests: open one, ask it, wait for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from specviz.config import LaneSpec, Request
from specviz.metrics import answer_tokens
from specviz.session import LiveSession
from specviz.trace import Failure, LaneStart, Progress, RoundTrace, SessionEvent, TraceEvent
from specviz.words import tell

PLAIN = LaneSpec("autoregressive")
FREE = (PLAIN, LaneSpec("prompt_lookup"), LaneSpec("lookahead"))


@contextmanager
def opened(*folders: Path) -> Iterator[LiveSession]:
    session = LiveSession(*folders)
    try:
        yield session
    finally:
        session.close()


def request(session: LiveSession, *lanes: LaneSpec, **changes: Any) -> Request:
    facts: dict[str, Any] = {
        "prompt": "Repeat after me: one, two, three, four. one, two,",
        "lanes": lanes or FREE,
        "target": session.catalog().targets[0].name,
        "precision": "float32",
        "max_new_tokens": 20,
    }
    return Request(**(facts | changes))


def answers(events: list[TraceEvent]) -> dict[int, tuple[int, ...]]:
    lanes = [e.lane for e in events if isinstance(e, LaneStart)]
    rounds = [e for e in events if isinstance(e, RoundTrace)]
    return {lane: answer_tokens([r for r in rounds if r.lane == lane]) for lane in lanes}


def failure(events: Iterator[SessionEvent]) -> str:
    (last,) = [e for e in events if not isinstance(e, Progress)]
    assert isinstance(last, Failure)
    assert "\n" not in tell(last.message)
    return tell(last.message)


def wait_for(condition: Any, seconds: float = 5.0) -> None:
    """Let the engine's thread get there, or fail."""
    end = time.perf_counter() + seconds
    while not condition():
        assert time.perf_counter() < end, "it took too long"
        time.sleep(0.01)


def failure_at_end(events: Iterator[SessionEvent]) -> str:
    *_, last = events
    assert isinstance(last, Failure)
    return tell(last.message)
