"""Who is served, who waits, who leaves, and what stays behind: sessions over time."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from specviz.config import LaneSpec
from specviz.engine import lane as lane_module
from specviz.session import LiveSession, drain
from specviz.trace import LaneEnd, LaneStart, Progress, RoundTrace, RunEnd, SessionEvent
from specviz.words import tell
from tests.live import FREE, PLAIN, answers, failure, failure_at_end, opened, request, wait_for
from tests.models import tiny_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("session") / "tiny")


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[LiveSession]:
    with opened(folder) as session:
        yield session


@pytest.mark.parametrize("after", [1, 4])
def test_cancel_ends_the_run_within_a_round(session: LiveSession, after: int) -> None:
    long = request(session, max_new_tokens=300)
    seen: list[SessionEvent] = []
    for event in session.events(long):
        seen.append(event)
        if len([e for e in seen if isinstance(e, RoundTrace)]) == after:
            session.cancel()
    ends = [e for e in seen if isinstance(e, LaneEnd)]
    assert "cancelled" in {end.reason for end in ends}
    assert len(ends) == 3
    assert isinstance(seen[-1], RunEnd)
    for end in ends:
        text = "".join(e.text for e in seen if isinstance(e, RoundTrace) and e.lane == end.lane)
        assert end.text.startswith(text)
    assert len(answers(drain(session.events(request(session))))) == 3


def test_cancel_with_nobody_there_does_nothing(session: LiveSession) -> None:
    wait_for(lambda: not session._line)
    session.cancel()
    assert len(answers(drain(session.events(request(session, PLAIN))))) == 1


def test_cancel_ends_a_run_that_is_still_fetching(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop during a download used to wait for the download: nobody looked until the first round."""
    is_closed = threading.Event()

    def endless(spec: object) -> Iterator[Progress]:
        try:
            while True:
                yield Progress("fetch", "Fetching.", 1, 2)
                time.sleep(0.01)
        finally:
            is_closed.set()

    monkeypatch.setattr("specviz.engine.store.fetch", endless)
    with opened(folder) as session:
        seen = []
        for event in session.events(request(session)):
            seen.append(event)
            session.cancel()
        assert all(isinstance(event, Progress) for event in seen)
        assert is_closed.wait(5)


def test_cancel_ends_a_long_prefill(session: LiveSession) -> None:
    """Stop while a long prompt was being read used to wait for the last of it."""
    words = " ".join(f"word{i}" for i in range(60))
    seen = []
    for event in session.events(request(session, prompt=words)):
        seen.append(event)
        if isinstance(event, Progress) and tell(event.message).startswith("Reading the prompt"):
            session.cancel()
    assert seen
    assert all(isinstance(event, Progress) for event in seen)
    assert len(answers(drain(session.events(request(session))))) == 3


def test_closing_the_stream_ends_the_work(
    session: LiveSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A visitor who leaves: no lane goes on for nobody, and the next visitor is served at once."""
    lanes: list[weakref.ref[lane_module.Lane]] = []
    rounds: list[float] = []
    original = lane_module.Lane.play_round

    def noted(lane: lane_module.Lane) -> RoundTrace:
        rounds.append(time.perf_counter())
        lanes.append(weakref.ref(lane))
        return original(lane)

    monkeypatch.setattr(lane_module.Lane, "play_round", noted)
    events = session.events(request(session, max_new_tokens=400))
    while not isinstance(next(events), RoundTrace):
        pass
    events.close()  # type: ignore[attr-defined]
    count = len(rounds)
    wait_for(lambda: session._thread._work_queue.empty() and not session._line)
    answered = drain(session.events(request(session, PLAIN, max_new_tokens=5)))
    assert len(rounds) - 5 <= count + 40  # it ran ahead of a slow reader by a little, not to 400
    assert len(answers(answered)[0]) == 5
    gc.collect()
    assert {ref() for ref in lanes} == {None}


def test_a_second_visitor_is_told_their_place(session: LiveSession) -> None:
    first = session.events(request(session, max_new_tokens=400))
    while not isinstance(next(first), RoundTrace):
        pass
    with session._lock:
        place = list(session._line)
    seen: list[SessionEvent] = []

    def visit() -> None:
        seen.extend(session.events(request(session, PLAIN, max_new_tokens=3)))

    visitor = threading.Thread(target=visit)
    visitor.start()
    wait_for(lambda: len(session._line) == 2 or not place)
    waiting = session._waiting(session._line[-1])
    assert waiting is not None
    assert (waiting.stage, waiting.done) == ("queued", 1)
    assert "1 run is ahead of yours" in tell(waiting.message)
    first.close()  # type: ignore[attr-defined]
    visitor.join(10)
    assert isinstance(seen[-1], RunEnd)


def test_whoever_leaves_the_line_is_never_served(session: LiveSession) -> None:
    first = session.events(request(session, max_new_tokens=400))
    while not isinstance(next(first), RoundTrace):
        pass
    second = session.events(request(session, PLAIN))
    with session._lock:
        assert len(session._line) == 1
    got = next(second)
    assert isinstance(got, Progress)
    second.close()  # type: ignore[attr-defined]
    assert len(session._line) == 1
    first.close()  # type: ignore[attr-defined]
    assert session._line == []


def test_closing_a_session_ends_its_thread(folder: Path) -> None:
    before = threading.active_count()
    with opened(folder) as session:
        drain(session.events(request(session, PLAIN)))
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_an_own_draft_drafts(folder: Path, tmp_path: Path) -> None:
    """The target's own weights as its draft: every token drafted is accepted."""
    with opened(folder, folder) as session:
        lane = LaneSpec("draft_model", (("num_draft_tokens", 5),))
        events = drain(session.events(request(session, PLAIN, lane)))
    start = next(e for e in events if isinstance(e, LaneStart) and e.lane == 1)
    assert start.description == "a draft model of 0M parameters"
    for event in events:
        if isinstance(event, RoundTrace) and event.lane == 1:
            left = event.verdict.next_token is None
            assert len(event.verdict.accepted_rows) == event.tree.num_draft_tokens or left
    assert answers(events)[0] == answers(events)[1]


def test_a_draft_that_speaks_other_tokens_is_refused(folder: Path, tmp_path: Path) -> None:
    other = tiny_folder(tmp_path / "other", seed=1)
    path = other / "tokenizer.json"
    text = path.read_text(encoding="utf-8")
    for old, new in (('"!": ', '"@@": '), ('"#": ', '"!": '), ('"@@": ', '"#": ')):
        text = text.replace(old, new, 1)
    path.write_text(text, encoding="utf-8")
    with opened(folder, other) as session:
        message = failure_at_end(session.events(request(session, LaneSpec("draft_model"))))
        assert "speaks other tokens than the target: id" in message
        assert len(answers(drain(session.events(request(session, PLAIN))))) == 1


def test_a_draft_folder_that_is_not_there_is_refused(folder: Path, tmp_path: Path) -> None:
    with opened(folder, tmp_path / "nowhere") as session:
        message = failure_at_end(session.events(request(session, LaneSpec("draft_model"))))
        assert "nowhere has no config.json" in message


def test_a_target_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "nowhere") as session:
        message = failure_at_end(session.events(request(session, PLAIN)))
        assert "nowhere" in message
        assert "see the server's log" not in message


def test_fifty_runs_leave_nothing_behind(session: LiveSession) -> None:
    """Tensors alive after 10 and after 50 runs of every kind of end are the same few."""
    lanes = (*FREE, LaneSpec("draft_model", (("num_layers", 1),)))

    def run(index: int) -> None:
        wanted = request(session, *lanes, prompt=f"Run {index}", max_new_tokens=6, seed=index)
        if index % 3 == 0:  # a visitor who leaves
            events = session.events(wanted)
            while not isinstance(next(events), RoundTrace):
                pass
            events.close()  # type: ignore[attr-defined]
        elif index % 7 == 0:
            failure(session.events(replace(wanted, prompt="word " * 600)))
        else:
            drain(session.events(wanted))

    counts = []
    for index in range(50):
        run(index)
        if index in (9, 49):
            wait_for(lambda: not session._line)
            drain(session.events(request(session, PLAIN, max_new_tokens=1)))
            gc.collect()
            counts.append(sum(issubclass(type(x), torch.Tensor) for x in gc.get_objects()))
    assert counts[1] <= counts[0] + 2
