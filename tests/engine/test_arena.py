"""Several lanes on one device: who goes next, how each ends, and that none harms another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from specviz.config import SamplingParams
from specviz.drafters.base import DraftContext
from specviz.engine import lane as lane_module
from specviz.engine.arena import failure_message, race
from specviz.engine.lane import Lane
from specviz.trace import LaneEnd, RoundTrace, rounds_of
from specviz.tree import DraftTree
from specviz.words import tell
from tests.engine.doubles import making
from tests.engine.lanes import PLAIN, MakeDrafter, Setup, makes_here, registered
from tests.engine.tables import TableLM, random_table

V = 13
PROMPT = [1, 2, 3, 1, 2]
LM = random_table(V)


def never() -> bool:
    return False


def lanes(*makes: MakeDrafter, **facts: Any) -> list[Lane]:
    setup = Setup(LM, PROMPT, **({"budget": 12, "draft": LM} | facts))
    return [setup.lane(make, index=index) for index, make in enumerate(makes)]


def test_the_lane_furthest_behind_goes_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks are set by hand: a round of lane i costs i + 1 seconds, whatever it really took."""
    racing = lanes(PLAIN, PLAIN, PLAIN)
    original = Lane.play_round

    def play(lane: Lane) -> RoundTrace:
        before = lane.clock_seconds
        round_ = original(lane)
        lane.clock_seconds = before + lane.index + 1
        return round_

    monkeypatch.setattr(Lane, "play_round", play)
    clocks = [0.0, 0.0, 0.0]
    for event in race(racing, never):
        if isinstance(event, RoundTrace):
            running = [i for i in range(3) if racing[i].end_reason is None or i == event.lane]
            assert clocks[event.lane] == min(clocks[i] for i in running)
            clocks[event.lane] += event.lane + 1
    assert clocks == [12, 24, 36]


def test_a_lanes_clock_is_its_rounds_alone() -> None:
    racing = lanes(PLAIN, registered("lookahead"))
    events = list(race(racing, never))
    for lane in racing:
        assert lane.clock_seconds == pytest.approx(
            sum(r.seconds for r in rounds_of(events, lane.index))
        )
        assert all(r.seconds > 0 for r in rounds_of(events, lane.index))


def test_each_phase_has_the_seconds_of_its_own_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that moves when told: by a number of its own in each part of a round, and by a great
    one before the clock starts and while the trace is made."""
    now = [0.0]

    def costs(owner: object, name: str, seconds: float) -> None:
        original = getattr(owner, name)

        def spends(*args: object, **named: object) -> object:
            now[0] += seconds
            return original(*args, **named)

        monkeypatch.setattr(owner, name, spends)

    lane = lanes(registered("prompt_lookup"))[0]
    monkeypatch.setattr("specviz.lm.device.time.perf_counter", lambda: now[0])
    costs(lane.parts.target, "settle", 1000.0)
    costs(lane.parts.drafter, "propose", 1.0)
    costs(lane.parts.target, "read", 2.0)
    costs(lane.parts.cache, "keep", 4.0)
    costs(lane.parts.drafter, "observe", 8.0)
    costs(lane_module, "row_odds", 1000.0)
    for _ in range(3):
        round_ = lane.play_round()
        assert round_.draft_seconds == 1.0 + 8.0
        assert round_.verify_seconds == 2.0
        assert round_.commit_seconds == 4.0


def test_each_lane_ends_once_after_its_last_round() -> None:
    makes = makes_here(Setup(LM, PROMPT, draft=LM))
    events = list(race(lanes(*makes.values()), never))
    for index in range(len(makes)):
        own = [e for e in events if e.lane == index]
        assert [type(e) for e in own] == [RoundTrace] * (len(own) - 1) + [LaneEnd]
        assert own[-1].reason == "length"  # type: ignore[union-attr]
        assert own[-1].text == "".join(r.text for r in rounds_of(events, index))  # type: ignore[union-attr]


@pytest.mark.parametrize("after", [0, 1, 5])
def test_cancelling_ends_every_lane_within_a_round(after: int) -> None:
    seen: list[RoundTrace | LaneEnd] = []
    events = race(lanes(PLAIN, registered("lookahead")), lambda: len(seen) >= after)
    for event in events:
        seen.append(event)
    assert [type(e) for e in seen] == [RoundTrace] * after + [LaneEnd] * 2
    assert [e.reason for e in seen if isinstance(e, LaneEnd)] == ["cancelled"] * 2
    for end in (e for e in seen if isinstance(e, LaneEnd)):
        assert end.text == "".join(r.text for r in rounds_of(seen, end.lane))


def test_a_lane_that_ended_is_not_cancelled_later() -> None:
    seen: list[RoundTrace | LaneEnd] = []
    for event in race(lanes(PLAIN, budget=3), lambda: len(seen) >= 4):
        seen.append(event)
    assert [e.reason for e in seen if isinstance(e, LaneEnd)] == ["length"]


# A lane that fails.


def broken_at(count: int, error: Callable[[], Exception]) -> MakeDrafter:
    """A drafter that proposes nothing, and raises after so many rounds."""
    asked: list[int] = []

    def guess(context: DraftContext) -> DraftTree:
        asked.append(1)
        if len(asked) > count:
            raise error()
        return DraftTree.chain(context.tokens[-1])

    return making(guess)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (lambda: MemoryError(), "ran out of memory"),
        (lambda: RuntimeError("CUDA out of memory. Tried to allocate 2 GiB\nmore"), "ran out of m"),
        (lambda: RuntimeError("shape mismatch\nsecond line"), "RuntimeError: shape mismatch"),
        (lambda: RuntimeError(), "RuntimeError"),
        (lambda: KeyError("a fault in a drafter"), "KeyError"),
        (lambda: FloatingPointError("No numbers here."), "No numbers here."),
    ],
)
def test_a_lane_that_fails_says_why_and_the_others_go_on(
    error: Callable[[], Exception], sentence: str
) -> None:
    racing = lanes(PLAIN, broken_at(3, error), registered("prompt_lookup"))
    events = list(race(racing, never))
    ends = {e.lane: e for e in events if isinstance(e, LaneEnd)}
    assert {lane: end.reason for lane, end in ends.items()} == {
        0: "length",
        1: "error",
        2: "length",
    }
    assert sentence in ends[1].message
    assert "\n" not in ends[1].message
    assert len(rounds_of(events, 1)) == 3
    assert sum(len(r.new_tokens) for r in rounds_of(events, 2)) == 12


@pytest.mark.parametrize("value", [torch.nan, -torch.inf, torch.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_end_the_lane(value: float, temperature: float) -> None:
    """Softmax of NaN is NaN, and argmax of NaN is an id: it went on with token 0 elsewhere."""
    sampling = SamplingParams(temperature=temperature)
    sound = Setup(LM, PROMPT, 12, sampling, "coupled", draft=LM)
    answer = sound.answer(PLAIN)
    table = LM.table.clone()
    if value == torch.inf:
        table[answer[2], answer[3], 5] = value
    else:
        table[answer[2], answer[3]] = value
    bad = Setup(TableLM(table), PROMPT, 12, sampling, "coupled", draft=LM)
    for make in makes_here(bad).values():
        racing = [bad.lane(make), sound.lane(PLAIN, index=1)]
        events = list(race(racing, never))
        ends = {e.lane: e for e in events if isinstance(e, LaneEnd)}
        assert (ends[0].reason, ends[1].reason) == ("error", "length")
        assert "not numbers" in ends[0].message
        assert "float32" in ends[0].message
        written = [token for r in rounds_of(events, 0) for token in r.new_tokens]
        assert written == answer[: len(written)]
        assert len(written) <= 4


def test_our_own_words_are_passed_on() -> None:
    assert failure_message(FloatingPointError("A.")) == "A."
    assert "see the server's log" in tell(failure_message(KeyError("x")))
