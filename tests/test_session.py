"""Live sessions on a tiny checkpoint: the whole engine through its one door."""

from __future__ import annotations

import gc
import gzip
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.config import LaneSpec, Request, SamplingParams
from specviz.drafters import DRAFTERS
from specviz.engine import lane as lane_module
from specviz.engine.api import lane_names
from specviz.metrics import answer_tokens
from specviz.session import LiveSession, Recorder, ReplaySession, drain
from specviz.trace import (
    Failure,
    LaneEnd,
    LaneStart,
    Progress,
    RoundTrace,
    RunEnd,
    RunStart,
    SessionEvent,
    TraceEvent,
)
from specviz.trace_io import dump_events, load_events, read_trace
from tests.models import one_thread, tiny_folder

PLAIN = LaneSpec("autoregressive")
FREE = (PLAIN, LaneSpec("prompt_lookup"), LaneSpec("lookahead"))


@pytest.fixture(autouse=True, scope="module")
def single() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("session") / "tiny")


@contextmanager
def opened(*folders: Path) -> Iterator[LiveSession]:
    session = LiveSession(*folders)
    try:
        yield session
    finally:
        session.close()


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[LiveSession]:
    with opened(folder) as session:
        yield session


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
    assert "\n" not in last.message
    return last.message


def wait_for(condition: Any, seconds: float = 5.0) -> None:
    """Let the engine's thread get there, or fail."""
    end = time.perf_counter() + seconds
    while not condition():
        assert time.perf_counter() < end, "it took too long"
        time.sleep(0.01)


def test_a_run_tells_its_story_in_order(session: LiveSession) -> None:
    lanes = (*FREE, LaneSpec("draft_model", (("num_layers", 1),)))
    events = drain(session.events(request(session, *lanes)))
    starts = [e for e in events if isinstance(e, LaneStart)]
    assert isinstance(events[0], RunStart)
    assert events[1:5] == starts
    assert [s.drafter for s in starts] == [lane.drafter for lane in lanes]
    assert isinstance(events[-1], RunEnd)
    assert sorted(e.lane for e in events if isinstance(e, LaneEnd)) == [0, 1, 2, 3]
    assert len(set(answers(events).values())) == 1
    assert all(len(tokens) <= 20 for tokens in answers(events).values())
    first = events[0]
    assert first.target.dtype == "float32"
    assert first.target.path.startswith("plain")
    assert first.target.source == "local folder tiny"
    assert len(first.prompt_tokens) == len(first.prompt_texts)
    assert first.prompt_texts[0] == "<|im_start|>"
    assert starts[3].knobs["num_draft_tokens"] == 3
    assert starts[3].knobs["num_layers"] == 1


@pytest.mark.parametrize("rule", ["rejection", "coupled"])
def test_a_trace_survives_its_file(session: LiveSession, rule: Any, tmp_path: Path) -> None:
    wanted = request(
        session, verification=rule, sampling=SamplingParams(temperature=0.8, top_p=0.9)
    )
    for name in ("run.jsonl", "run.jsonl.gz"):
        events = drain(Recorder(tmp_path / name).recorded(session.events(wanted)))
        text = read_trace(tmp_path / name)
        assert list(load_events(text)) == events
        replay = ReplaySession(text)
        assert drain(replay.events(wanted)) == events == drain(replay.events())
        assert replay.catalog().targets == ()
    gzip.decompress((tmp_path / "run.jsonl.gz").read_bytes())


def test_a_recording_that_breaks_off_is_whole_up_to_there(
    session: LiveSession, tmp_path: Path
) -> None:
    events = Recorder(tmp_path / "cut.jsonl").recorded(session.events(request(session)))
    seen = list(islice(events, 12))
    events.close()  # type: ignore[attr-defined]
    told = [e for e in seen if not isinstance(e, Progress)]
    assert list(load_events(read_trace(tmp_path / "cut.jsonl"))) == told


def test_the_seed_is_the_runs_own(session: LiveSession) -> None:
    hot = request(session, sampling=SamplingParams(temperature=1.0))
    one, again, other = (
        answers(drain(session.events(replace(hot, seed=seed)))) for seed in (1, 1, 2)
    )
    assert one == again
    assert all(one[lane] != other[lane] for lane in one)


def test_what_lanes_run_beside_does_not_matter(session: LiveSession) -> None:
    """Each lane alone, and all together, in both orders: the same tokens and the same trees."""
    lanes = (*FREE, LaneSpec("draft_model", (("draft", "truncated copy"), ("is_adaptive", True))))
    hot = {"sampling": SamplingParams(temperature=1.0), "max_new_tokens": 12}

    def trees(*chosen: LaneSpec) -> dict[LaneSpec, list[Any]]:
        events = drain(session.events(request(session, *chosen, **hot)))
        return {
            spec: [
                (e.tree, e.new_tokens)
                for e in events
                if isinstance(e, RoundTrace) and e.lane == index
            ]
            for index, spec in enumerate(chosen)
        }

    together, reversed_ = trees(*lanes), trees(*reversed(lanes))
    for lane in lanes:
        assert together[lane] == reversed_[lane] == trees(lane)[lane]


def test_a_run_after_a_hostile_one_is_a_run_alone(folder: Path) -> None:
    """Adaptive lengths, pools and windows die with their lane: history decides nothing."""
    adaptive = LaneSpec("draft_model", (("is_adaptive", True), ("num_layers", 1)))
    with opened(folder) as used, opened(folder) as fresh:
        lanes = (adaptive, LaneSpec("lookahead"), LaneSpec("prompt_lookup"))
        for prompt in ("Something else entirely!", "x y z"):
            drain(used.events(request(used, *lanes, prompt=prompt, seed=9)))
        traces = [
            [
                (e.lane, e.tree, e.new_tokens, e.verdict)
                for e in drain(s.events(request(s, *lanes)))
                if isinstance(e, RoundTrace)
            ]
            for s in (used, fresh)
        ]
    assert sorted(traces[0], key=repr) == sorted(traces[1], key=repr)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"target": "../../etc"}, "target is one of"),
        ({"lanes": (LaneSpec("medusa-9"),)}, "A lane's drafter is one of"),
        ({"lanes": (LaneSpec("lookahead", (("window", 10_000),)),)}, "window is a whole number"),
        ({"prompt": "word " * 600}, "The prompt has"),
        (
            {"lanes": (LaneSpec("prompt_lookup", (("max_ngram", 1), ("min_ngram", 3))),)},
            "min_ngram (3) is larger",
        ),
        ({"lanes": (LaneSpec("draft_model", (("draft", "own checkpoint"),)),)}, "No draft check"),
        ({"prompt": "half a character: \ud83d"}, "half a character"),
    ],
)
def test_what_cannot_run_fails_in_a_sentence_and_the_next_run_works(
    session: LiveSession, changes: dict[str, Any], words: str
) -> None:
    assert words in failure(session.events(request(session, **changes)))
    assert len(answers(drain(session.events(request(session, PLAIN))))) == 1


def test_an_error_of_ours_is_told_and_logged_and_the_next_run_works(
    session: LiveSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: Any) -> None:
        raise KeyError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(lane_module, "verify", broken)
        *_, last = session.events(request(session))
        assert isinstance(last, Failure)
        assert "KeyError: 'a bug'" in last.message
        assert "see the server's log" in last.message
        assert "a run failed" in caplog.text
    assert len(answers(drain(session.events(request(session))))) == 3


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
    assert "1 run is ahead of yours" in waiting.message
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


def failure_at_end(events: Iterator[SessionEvent]) -> str:
    *_, last = events
    assert isinstance(last, Failure)
    return last.message


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


def test_every_drafter_is_on_offer(session: LiveSession) -> None:
    catalog = session.catalog()
    assert [info.name for info in catalog.drafters] == list(DRAFTERS)
    assert all(info.title and info.summary for info in catalog.drafters)
    assert all(k.help for info in catalog.drafters for k in info.knobs)


def test_lanes_of_one_drafter_are_told_apart() -> None:
    specs = (
        LaneSpec("lookahead"),
        LaneSpec("lookahead", (("window", 3),)),
        LaneSpec("prompt_lookup", (("max_ngram", 2),)),
    )
    assert lane_names(specs) == ["lookahead", "lookahead (window=3)", "prompt_lookup"]


def test_the_answer_is_what_the_stream_showed(session: LiveSession) -> None:
    for stop in ((), ("e",), ("\n", " ")):
        events = drain(session.events(request(session, stop_strings=stop)))
        for end in (e for e in events if isinstance(e, LaneEnd)):
            rounds = [e for e in events if isinstance(e, RoundTrace) and e.lane == end.lane]
            assert "".join(r.text for r in rounds) == end.text
            assert not any(s in end.text for s in stop)
    assert dump_events(events).isascii()
