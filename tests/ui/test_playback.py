"""Envelopes: numbered, small, complete, and never in the way of leaving a run."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specviz.config import LaneSpec, Request
from specviz.trace import SessionEvent
from specviz.trace_io import dump_events, load_events
from specviz.ui import playback
from specviz.ui import warm_up as warming
from specviz.ui.kept import KeptTraces
from specviz.ui.open_runs import OpenRuns
from specviz.ui.playback import Packer, Recordings, imported, live, traced
from specviz.ui.warm_up import WarmUp
from specviz.views.stage import StageFeed
from specviz.words import tell
from tests.traces import HOSTILE, demo_run
from tests.ui.sessions import SlowSession

REQUEST = Request("hello", (LaneSpec("autoregressive"),))


def envelopes_of(session: Any) -> list[dict[str, Any]]:
    async def collect() -> list[str]:
        return [e async for e in live(session, REQUEST, "r1")]

    return [json.loads(e) for e in asyncio.run(collect())]


def wait_until(is_so: Callable[[], bool], seconds: float = 5.0) -> bool:
    end = time.perf_counter() + seconds
    while not is_so() and time.perf_counter() < end:
        time.sleep(0.01)
    return is_so()


def folded(events: list[SessionEvent]) -> list[dict[str, Any]]:
    feed = StageFeed()
    return json.loads(json.dumps([item for event in events for item in feed.feed(event)]))


def test_a_live_run_arrives_whole_in_order_and_numbered() -> None:
    session = SlowSession(seconds=0.002)
    envelopes = envelopes_of(session)
    items = [item for e in envelopes for item in e["items"]]
    expected = folded(demo_run())
    assert [i["kind"] for i in items] == [i["kind"] for i in expected]
    assert [i for i in items if i["kind"] == "round"] == [
        i for i in expected if i["kind"] == "round"
    ]
    assert [e["seq"] for e in envelopes] == list(range(len(envelopes)))
    assert [e["last"] for e in envelopes] == [False] * (len(envelopes) - 1) + [True]
    assert {(e["v"], e["run"], e["source"]) for e in envelopes} == {(1, "r1", "live")}


def test_rounds_are_batched_to_ten_envelopes_a_second() -> None:
    begun = time.perf_counter()
    num_envelopes = len(envelopes_of(SlowSession(seconds=0.005)))
    seconds = time.perf_counter() - begun
    assert num_envelopes <= 10 * seconds + 2
    assert num_envelopes < len(demo_run()) / 4


def test_what_is_sent_does_not_grow_with_the_run() -> None:
    """The whole trace so far with every update froze the browsers of other apps."""
    envelopes = envelopes_of(SlowSession(seconds=0.005))
    once = len(json.dumps(folded(demo_run())))
    assert len(envelopes) > 2
    assert sum(len(json.dumps(e)) for e in envelopes) < once + 200 * len(envelopes)


def test_leaving_a_run_closes_the_session_within_one_step() -> None:
    session = SlowSession(seconds=0.02)

    async def leave() -> None:
        envelopes = live(session, REQUEST, "r1")
        async for _ in envelopes:
            if session.num_rounds:
                break
        await envelopes.aclose()

    asyncio.run(leave())
    rounds = session.num_rounds
    assert wait_until(lambda: session.num_closed == 1, seconds=0.5)
    assert session.num_rounds <= rounds + 2


@pytest.mark.parametrize("is_early", [False, True])
def test_a_run_can_be_left_by_name_even_before_it_begins(is_early: bool) -> None:
    """Gradio's cancel, come late, ended the next run; come between two steps, it ended none."""
    session, open_runs = SlowSession(seconds=0.02), OpenRuns()

    async def leave(run: str) -> list[str]:
        made = []
        if is_early:
            open_runs.leave(run)
        async for envelope in live(session, REQUEST, run, open_runs=open_runs):
            made.append(envelope)
            if session.num_rounds:
                open_runs.leave(run)
        return made

    last = json.loads(asyncio.run(leave("r1"))[-1])
    rounds = session.num_rounds
    assert last["last"]
    assert not any(item["kind"] == "end" for item in last["items"])
    assert wait_until(lambda: session.num_closed == 1, seconds=0.5)
    assert session.num_rounds <= rounds + 2


def test_leaving_one_run_leaves_the_others() -> None:
    open_runs = OpenRuns()
    left: list[str] = []
    with open_runs.holding("a", lambda: left.append("a")):
        with open_runs.holding("b", lambda: left.append("b")):
            open_runs.leave("b")
            open_runs.leave("c")
        open_runs.leave("b")
        assert left == ["b"]


def test_a_silent_session_does_not_silence_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server notices a closed tab only when it sends, so it must send while a step lasts."""
    monkeypatch.setattr(playback, "BEAT_SECONDS", 0.05)
    session = SlowSession(seconds=0.5)

    async def first(count: int) -> list[str]:
        envelopes = live(session, REQUEST, "r1")
        found = [await anext(envelopes) for _ in range(count)]
        await envelopes.aclose()
        return found

    begun = time.perf_counter()
    found = [json.loads(e) for e in asyncio.run(first(3))]
    assert time.perf_counter() - begun < 0.45
    assert [(e["seq"], e["items"]) for e in found] == [(0, []), (1, []), (2, [])]
    assert wait_until(lambda: session.num_closed == 1)


def test_a_crash_keeps_what_was_there_and_shows_no_trace_of_the_stack(
    caplog: pytest.LogCaptureFixture,
) -> None:
    items = [
        item
        for e in envelopes_of(SlowSession(seconds=0, crash=RuntimeError("secret path")))
        for item in e["items"]
    ]
    assert [i["kind"] for i in items[-2:]] == ["round", "failure"]
    assert "internal error (RuntimeError)" in tell(items[-1]["message"])
    assert "secret path" not in json.dumps(items)
    assert "secret path" in caplog.text


def test_a_bad_request_found_late_is_told_as_it_stands() -> None:
    session = SlowSession(seconds=0, crash=ValueError("The prompt is too long by 5 tokens."))
    item = envelopes_of(session)[-1]["items"][-1]
    assert (item["kind"], tell(item["message"])) == ("failure", str(session.crash))


def test_envelopes_are_ascii_json_whatever_the_tokens_hold() -> None:
    """A lone surrogate in the event stream once killed every later event of the visit."""
    text = Packer("r", "live", "\u202e").pack([{"kind": "x", "texts": list(HOSTILE)}])
    assert text.isascii()
    assert "<" not in text  # a prompt with a script tag once made Gradio complain of each envelope
    assert json.loads(text)["items"][0]["texts"] == list(HOSTILE)
    with pytest.raises(ValueError, match="JSON compliant"):
        Packer("r", "live", "").pack([{"p": float("nan")}])


def test_a_trace_comes_back_as_json_lines() -> None:
    async def last() -> str:
        return [t async for t in traced(SlowSession(seconds=0), REQUEST)][-1]

    events = list(load_events(asyncio.run(last())))
    assert [e.kind for e in events] == [e.kind for e in demo_run()]


def test_a_failed_trace_is_refused_with_its_sentence() -> None:
    async def drain() -> None:
        async for _ in traced(SlowSession(failure="No room."), REQUEST):
            pass

    with pytest.raises(ValueError, match="No room"):
        asyncio.run(drain())


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    path = tmp_path / "demo.jsonl.gz"
    path.write_bytes(gzip.compress(dump_events(demo_run()).encode()))
    return path


def test_a_recorded_run_is_one_envelope_of_the_same_items(trace_file: Path) -> None:
    recordings = Recordings([trace_file])
    envelope = json.loads(recordings.envelope("demo", "r7"))
    assert envelope["items"] == folded(demo_run())
    assert tell(envelope["label"]) == "Recorded 2026-01-02 on a test bench"
    assert (envelope["run"], envelope["seq"], envelope["source"]) == ("r7", 0, "recorded")
    assert json.loads(recordings.envelope("demo", "r8"))["run"] == "r8"


def test_the_first_picture_is_folded_before_anybody_asks_for_it(trace_file: Path) -> None:
    """Its first visitor waited three seconds for it, beside a model that was being loaded."""
    second = trace_file.with_name("second.jsonl.gz")
    second.write_bytes(trace_file.read_bytes())
    recordings = Recordings([trace_file, second])
    recordings.prepare()
    for path in (trace_file, second):
        path.unlink()
    assert not recordings.has_shown.is_set()
    assert json.loads(recordings.envelope("second", "r"))["items"][0]["kind"] == "failure"
    assert not recordings.has_shown.is_set()
    assert json.loads(recordings.envelope("demo", "r"))["items"] == folded(demo_run())
    assert recordings.has_shown.is_set()


def test_a_damaged_first_picture_keeps_no_page_from_opening(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_text("no trace")
    Recordings([path]).prepare()
    Recordings([]).prepare()


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "nope", "None"])
def test_only_offered_recordings_are_read(trace_file: Path, name: str) -> None:
    envelope = json.loads(Recordings([trace_file]).envelope(name, "r"))
    assert [i["kind"] for i in envelope["items"]] == ["failure"]


def test_a_damaged_recording_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(gzip.compress(dump_events(demo_run()).encode())[:-500])
    message = json.loads(Recordings([path]).envelope("cut", "r"))["items"][0]["message"]
    assert tell(message).startswith(
        "The recorded run cut cannot be shown: cut.jsonl.gz is not a whole"
    )


def test_warming_up_runs_one_token_and_says_when_it_is_done() -> None:
    session = SlowSession(seconds=0)
    warm_up = WarmUp(session)
    assert warm_up.state()["state"] == "loading"
    warm_up.start()
    assert wait_until(lambda: warm_up.state()["state"] == "ready")
    assert session.requests[0].max_new_tokens == 1


def test_the_model_waits_until_the_first_picture_was_drawn(monkeypatch: Any) -> None:
    monkeypatch.setattr(warming, "DRAW_SECONDS", 0.0)
    shown, session = threading.Event(), SlowSession(seconds=0)
    warm_up = WarmUp(session)
    warm_up.start(after=shown)
    time.sleep(0.1)
    assert session.requests == []
    shown.set()
    assert wait_until(lambda: warm_up.state()["state"] == "ready")


def test_the_model_does_not_wait_for_a_visitor_who_never_comes(monkeypatch: Any) -> None:
    monkeypatch.setattr(warming, "HOLD_SECONDS", 0.05)
    warm_up = WarmUp(SlowSession(seconds=0))
    warm_up.start(after=threading.Event())
    assert wait_until(lambda: warm_up.state()["state"] == "ready")


def test_a_model_that_cannot_be_had_is_said_with_its_reason() -> None:
    warm_up = WarmUp(SlowSession(failure="No network and nothing in the cache."))
    warm_up.start()
    assert wait_until(lambda: warm_up.state()["state"] == "failed")
    assert warm_up.state()["message"] == "No network and nothing in the cache."


def places_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside parsed JSON."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, part in inner:
        found.append((*path, key))
        if isinstance(part, dict | list):
            found += places_in(part, (*path, key))
    return found


@pytest.mark.parametrize("wrong", [-1, 10**30, 1e308, None, True, "x", [], {}, [0]], ids=repr)
def test_a_trace_that_was_tampered_with_is_shown_or_refused(wrong: object) -> None:
    """Whatever stands in an imported file, the answer is an envelope that a browser can read."""
    lines = dump_events(demo_run()).splitlines()
    for number in (0, 1, 5, 9, len(lines) - 1):
        places = places_in(json.loads(lines[number]))
        for place in places[:: max(1, len(places) // 6)]:
            event = json.loads(lines[number])
            part = event
            for key in place[:-1]:
                part = part[key]
            part[place[-1]] = wrong
            text = "\n".join([*lines[:number], json.dumps(event), *lines[number + 1 : 40]])
            envelope = json.loads(imported(text, "x.jsonl", "r1"))
            assert envelope["items"][-1]["kind"] in {"failure", "round", "end", "lane_end"}


def test_an_imported_trace_has_a_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's own check can be left out by whoever calls the server directly."""
    monkeypatch.setattr(playback, "MAX_IMPORT_CHARACTERS", 100)
    (item,) = json.loads(imported("x" * 101, "big", "r1"))["items"]
    assert tell(item["message"]).startswith("big is too big")


def test_a_trace_that_was_cut_short_opens_as_far_as_it_goes() -> None:
    lines = dump_events(e for e in demo_run() if e.kind not in ("progress", "failure")).splitlines(
        keepends=True
    )
    whole, cut = "".join(lines[:9]), "".join(lines[:9]) + lines[9][:50]
    first, second = (json.loads(imported(text, "x.jsonl", "r1")) for text in (whole, cut))
    assert first["items"] == second["items"]
    assert "note" not in first
    assert tell(second["note"]).startswith("x.jsonl was cut short")


def test_a_run_can_be_had_as_a_trace_while_the_server_keeps_it() -> None:
    kept = KeptTraces(max_events=150)

    async def follow(run: str) -> None:
        async for _ in live(SlowSession(seconds=0), REQUEST, run, kept):
            pass

    asyncio.run(follow("r1"))
    text = kept.text("r1")
    assert text is not None
    assert [e.kind for e in load_events(text)] == [e.kind for e in demo_run()]
    assert kept.text("r2") is None
    for number in range(3):
        asyncio.run(follow(f"more{number}"))
    assert kept.text("r1") is None  # the oldest made room
    assert kept.text("more2") is not None
