"""What a lane costs beyond its own clock, on a clock that only moves when we move it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from specviz.bench.lanes import time_lane
from specviz.trace import Failure, LaneEnd, Progress, RunEnd, SessionEvent
from tests.bench.fake_lm import Clock
from tests.traces import ANSWER, decode, ids, lane_start, plain_trees, run_start


def slow_run(clock: Clock) -> Iterator[SessionEvent]:
    """Every round takes 4 ms of the lane's own work and 1 ms of everything else."""
    yield Progress("load", "Loading.")
    clock.now += 5
    yield run_start()
    clock.now += 3
    yield lane_start(0)
    for round_ in decode(0, plain_trees(), seconds=(0.0, 0.004, 0.0)):
        clock.now += round_.seconds + 0.001
        yield round_
    yield LaneEnd(0, "length", "".join(ANSWER))
    clock.now += 7
    yield RunEnd(1.0)


def test_overhead_is_the_share_of_wall_time_that_is_not_the_lanes_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr("specviz.bench.lanes.time.perf_counter", clock)
    monkeypatch.setattr(
        "specviz.bench.lanes.dump_event", lambda _: setattr(clock, "now", clock.now + 0.002)
    )
    timing = time_lane(slow_run(clock))
    num_rounds = len(ANSWER)
    assert timing.tokens == ids(*ANSWER)
    assert timing.wall_seconds == pytest.approx(timing.clock_seconds + num_rounds * 0.001)
    assert timing.trace_overhead == pytest.approx(num_rounds * 0.001 / timing.wall_seconds)
    assert timing.dump_overhead == pytest.approx(num_rounds * 0.002 / timing.wall_seconds)
    assert timing.answer_seconds == pytest.approx(timing.clock_seconds + 0.031)


def test_a_lane_that_failed_is_not_timed() -> None:
    rounds = list(decode(0, plain_trees()))
    end = LaneEnd(0, "error", "", "Out of memory.")
    with pytest.raises(ValueError, match="did not come to its end: Out of memory"):
        time_lane(iter([run_start(), lane_start(0), *rounds, end, RunEnd(1.0)]))
    with pytest.raises(ValueError, match="made no round"):
        time_lane(iter([Failure("No weights.")]))
