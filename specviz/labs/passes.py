"""Passes of a recorded target as points of a roofline: FLOP per byte, and FLOP per second reached.

Times are the run's own. Bytes and operations are counted, not measured: every weight once, 2 operations
per weight and row, the context's keys and values left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from specviz.config import PLAIN_DRAFTER
from specviz.roofline import Pass
from specviz.trace import LaneStart, RoundTrace, RunStart, TraceEvent

Kind = Literal["decode", "verify", "prefill"]
WEIGHTS = "bfloat16"  # what the machine's peak is measured in (`labs.machine`)


@dataclass(frozen=True, slots=True)
class TimedPass:
    kind: Kind
    work: Pass
    seconds: float  # the median
    num_timed: int

    @property
    def flops_per_second(self) -> float:
        return self.work.flops / self.seconds


@dataclass(frozen=True, slots=True)
class TimedTarget:
    """What was recorded of one target on one machine."""

    name: str
    device: str
    dtype: str
    date: str  # of the latest of its runs
    passes: tuple[TimedPass, ...]  # decode first; a kind that no run holds is missing


def timed_target(
    runs: Iterable[Sequence[TraceEvent]], target: str, machine: str
) -> TimedTarget | None:
    """Of the runs of `target`, in plain bf16, on a machine of that description. None: there are none.

    decode: the plain lane's reads of one row. verify: reads of as many rows as the run's lanes read
    most often, above one. prefill: the longest prompt.
    """
    found = [(_start(events), events) for events in runs]
    kept = [(s, e) for s, e in found if s is not None and _is_of(s, target, machine)]
    if not kept:
        return None
    last = max((start for start, _ in kept), key=lambda start: start.created)
    reads = [read for _, events in kept for read in _reads(events)]
    decode = [seconds for drafter, rows, seconds in reads if (drafter, rows) == (PLAIN_DRAFTER, 1)]
    groups: list[tuple[Kind, int, list[float]]] = [("decode", 1, decode)]
    counts = Counter(rows for _, rows, _ in reads if rows > 1)
    if counts:
        usual = counts.most_common(1)[0][0]
        groups.append(("verify", usual, [s for _, rows, s in reads if rows == usual]))
    longest = max((start for start, _ in kept), key=lambda start: len(start.prompt_tokens))
    # The prompt's last token is no part of prefill: it is the first round's root.
    groups.append(("prefill", len(longest.prompt_tokens) - 1, [longest.prefill_seconds]))
    passes = tuple(
        TimedPass(kind, Pass(last.target.num_parameters, 2, rows), median(times), len(times))
        for kind, rows, times in groups
        if rows and times and median(times) > 0
    )
    return TimedTarget(
        last.target.name, last.target.device, last.target.dtype, last.created, passes
    )


def _start(events: Sequence[TraceEvent]) -> RunStart | None:
    return next((event for event in events if isinstance(event, RunStart)), None)


def _is_of(start: RunStart, target: str, machine: str) -> bool:
    made = start.target
    is_plain = made.dtype.removeprefix("torch.") == WEIGHTS and made.quantisation == "none"
    return is_plain and start.request.target == target and start.machine == machine


def _reads(events: Sequence[TraceEvent]) -> list[tuple[str, int, float]]:
    """(drafter, rows, seconds) of every read by the target itself, not by a model tuned from it."""
    lanes = {e.lane: e for e in events if isinstance(e, LaneStart) and not e.backbone}
    return [
        (lanes[e.lane].drafter, e.rows_written, e.verify_seconds)
        for e in events
        if isinstance(e, RoundTrace) and e.lane in lanes
    ]
