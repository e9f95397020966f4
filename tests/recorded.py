"""Three recorded races, kept as they are, lane by lane: for tests of what reads finished runs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from specviz import cost
from specviz.trace import LaneStart, RoundTrace, RunStart, TraceEvent, rounds_of
from specviz.trace_io import load_events, read_trace
from specviz.what_if import Recording

FOLDER = Path(__file__).parent / "recordings"
NAMES = tuple(sorted(path.name.removesuffix(".jsonl.gz") for path in FOLDER.glob("*.jsonl.gz")))


@cache
def events(name: str) -> tuple[TraceEvent, ...]:
    return tuple(load_events(read_trace(FOLDER / f"{name}.jsonl.gz")))


def run_start(name: str) -> RunStart:
    first = events(name)[0]
    assert isinstance(first, RunStart)
    return first


def starts(name: str) -> list[LaneStart]:
    return [e for e in events(name) if isinstance(e, LaneStart)]


def rounds(name: str, lane: int) -> list[RoundTrace]:
    return rounds_of(events(name), lane)


def recordings(name: str) -> list[Recording]:
    """Of every lane that drafts."""
    found = []
    for start in starts(name):
        plain = cost.plain_lane_of(start, starts(name))
        if plain is not None and plain != start:
            ours = rounds(name, start.lane)
            found.append(Recording(start, ours, cost.account(ours, rounds(name, plain.lane))))
    return found
