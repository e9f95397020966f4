"""The recorded races in assets/traces: all seven, of all methods, small, and lossless."""

from __future__ import annotations

import pytest

from specviz.drafters import DRAFTERS
from specviz.trace import LaneStart, RoundTrace, RunEnd, RunStart
from specviz.trace_io import load_events, read_trace
from tests.races import (
    FOLDER,
    MAX_BYTES,
    MAX_NEW_TOKENS,
    MOST_UNEVEN,
    RACES,
    SAMPLED,
    unevenness,
)


@pytest.mark.parametrize("name", RACES)
def test_the_clock_of_a_race_was_not_disturbed(name: str) -> None:
    """In one, rounds of one row cost 0.89 plain steps, and a lane was faster than it had tokens."""
    assert unevenness(FOLDER / f"{name}.jsonl.gz") <= MOST_UNEVEN


def test_there_is_a_race_for_each_prompt_and_no_other_file() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.jsonl.gz" for name in RACES}


@pytest.mark.parametrize("name", RACES)
def test_a_race_is_whole_small_and_lossless(name: str) -> None:
    path = FOLDER / f"{name}.jsonl.gz"
    assert path.stat().st_size <= MAX_BYTES
    events = tuple(load_events(read_trace(path)))
    start, end = events[0], events[-1]
    assert isinstance(start, RunStart)
    assert isinstance(end, RunEnd)
    assert start.request.prompt == RACES[name]
    assert start.request.max_new_tokens == MAX_NEW_TOKENS.get(name, 64)
    lanes = [event for event in events if isinstance(event, LaneStart)]
    assert {lane.drafter for lane in lanes} == set(DRAFTERS)
    assert (start.request.sampling.temperature == 0) == (name not in SAMPLED)
    if name in SAMPLED:  # lanes draw for themselves: what they write differs
        trials = [t for e in events if isinstance(e, RoundTrace) for t in e.verdict.trials]
        assert any(t.draw is not None and 0 < t.threshold < 1 for t in trials)
        return
    written: dict[int, tuple[int, ...]] = {}
    for event in events:
        if isinstance(event, RoundTrace):
            written[event.lane] = written.get(event.lane, ()) + event.new_tokens
    plain = {
        lane.backbone: written[lane.lane] for lane in lanes if lane.drafter == "autoregressive"
    }
    assert len(plain) == 2
    assert all(written[lane.lane] == plain[lane.backbone] for lane in lanes)
