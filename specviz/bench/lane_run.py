"""One lane alone on one prompt, through a session: its rounds, or why there are none."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from specviz.config import Request
from specviz.session import Session
from specviz.trace import (
    Failure,
    LaneEnd,
    LaneStart,
    Progress,
    RoundTrace,
    RunStart,
    SessionEvent,
    TraceEvent,
)
from specviz.words import tell


class StoppedError(Exception):
    """Somebody asked to stop."""


class LaneFailedError(Exception):
    """The text says in one sentence why the lane could not decode the prompt."""


@dataclass(frozen=True, slots=True)
class LaneRun:
    start: RunStart
    lane: LaneStart
    rounds: tuple[RoundTrace, ...]


def run_lane(
    session: Session,
    request: Request,
    is_stopped: Callable[[], bool],
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> LaneRun:
    """Of a request with one lane, to its end. LaneFailedError; StoppedError within a round."""
    events = session.events(request)
    found: list[TraceEvent] = []
    try:
        for event in events:
            if is_stopped():
                raise StoppedError
            if isinstance(event, Progress):
                on_progress(event)
            else:
                found.append(_checked(event))
    finally:
        if isinstance(events, Generator):
            events.close()  # a run that is left early ends in the engine too
    return _whole(found)


def _checked(event: SessionEvent) -> TraceEvent:
    assert not isinstance(event, Progress)
    if isinstance(event, Failure):
        raise LaneFailedError(tell(event.message))
    if isinstance(event, LaneEnd):
        if event.reason == "cancelled":
            raise StoppedError
        if event.reason == "error":
            raise LaneFailedError(event.message)
    return event


def _whole(events: Sequence[TraceEvent]) -> LaneRun:
    start = next((e for e in events if isinstance(e, RunStart)), None)
    lane = next((e for e in events if isinstance(e, LaneStart)), None)
    rounds = tuple(e for e in events if isinstance(e, RoundTrace))
    if start is None or lane is None or not rounds:
        raise LaneFailedError("The run ended without a round.")
    return LaneRun(start, lane, rounds)
