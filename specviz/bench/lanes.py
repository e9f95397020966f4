"""A lane as a whole, timed from outside: what it does on its own clock, and what is added to that."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from specviz import metrics
from specviz.trace import LaneEnd, LaneStart, RoundTrace, RunStart, SessionEvent
from specviz.trace_io import dump_event
from specviz.words import tell


@dataclass(frozen=True, slots=True)
class LaneTiming:
    """One lane run once."""

    start: RunStart
    tokens: tuple[int, ...]  # the answer's
    clock_seconds: float  # the lane's own work: draft, read, verify, commit
    wall_seconds: float  # from its first round to its end, with everything that recording adds
    dump_seconds: float  # turning its rounds into JSON lines

    @property
    def answer_seconds(self) -> float:
        """From the prompt's tokens to the whole answer, as a caller of `generate` would see it."""
        return self.start.prefill_seconds + self.clock_seconds

    @property
    def trace_overhead(self) -> float:
        """Share of the wall time that is not the lane's own work."""
        return 1 - self.clock_seconds / self.wall_seconds

    @property
    def dump_overhead(self) -> float:
        """What writing it to a file as it goes would add, as a share of the wall time."""
        return self.dump_seconds / self.wall_seconds


def time_lane(events: Iterator[SessionEvent]) -> LaneTiming:
    """Of a run with one lane. ValueError: it did not come to its end."""
    start: RunStart | None = None
    rounds: list[RoundTrace] = []
    begun = ended = 0.0
    for event in events:
        if isinstance(event, RunStart):
            start = event
        elif isinstance(event, LaneStart):
            begun = time.perf_counter()
        elif isinstance(event, RoundTrace):
            rounds.append(event)
        elif isinstance(event, LaneEnd):
            ended = time.perf_counter()
            if event.reason in ("error", "cancelled"):
                raise ValueError(f"The lane did not come to its end: {tell(event.message)}")
    if start is None or not rounds:
        raise ValueError("The lane could not be timed: it made no round.")
    before = time.perf_counter()
    for round_ in rounds:
        dump_event(round_)
    return LaneTiming(
        start=start,
        tokens=metrics.answer_tokens(rounds),
        clock_seconds=metrics.time_split(rounds).seconds,
        wall_seconds=ended - begun,
        dump_seconds=time.perf_counter() - before,
    )
