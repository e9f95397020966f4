"""Live sessions on a tiny checkpoint: the whole engine through its one door."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from specviz.config import LaneSpec, SamplingParams, lane_names
from specviz.drafters import DRAFTERS
from specviz.presets import local_target
from specviz.session import LiveSession, Recorder, ReplaySession, drain
from specviz.trace import Failure, LaneEnd, LaneStart, Progress, RoundTrace, RunEnd, RunStart
from specviz.trace_io import dump_events, load_events, read_trace
from specviz.words import tell
from tests.live import FREE, PLAIN, answers, failure, opened, request
from tests.models import tiny_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("session") / "tiny")


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[LiveSession]:
    with opened(folder) as session:
        yield session


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
        patch.setattr("specviz.engine.api.describe_machine", broken)
        *_, last = session.events(request(session))
        assert isinstance(last, Failure)
        assert "KeyError: 'a bug'" in tell(last.message)
        assert "see the server's log" in tell(last.message)
        assert "a run failed" in caplog.text
    assert len(answers(drain(session.events(request(session))))) == 3


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


def test_the_catalogue_knows_which_drafters_lack_weights(tmp_path: Path) -> None:
    """Found by looking for folders, so it can be asked before anything is loaded."""
    (tmp_path / "medusa").mkdir()
    with closing(LiveSession(drafters=tmp_path)) as session:
        catalog = session.catalog()
    target = catalog.targets[0].name
    assert catalog.can_run(target, "medusa")
    assert catalog.can_run(target, "lookahead")
    without = {name for _, name in catalog.untrained}
    assert without <= {"eagle", "eagle2", "eagle3", "mtp"}


@pytest.mark.parametrize(
    ("files", "has_template"),
    [
        ({"tokenizer_config.json": "{}"}, False),
        ({"tokenizer_config.json": '{"chat_template": "x"}'}, True),
        ({"tokenizer_config.json": "{}", "chat_template.jinja": "x"}, True),
        ({"tokenizer_config.json": "not json"}, True),  # refused at load, with its reason
        ({}, True),
    ],
    ids=str,
)
def test_a_base_model_is_known_by_its_files(
    tmp_path: Path, files: dict[str, str], has_template: bool
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert local_target(str(tmp_path)).has_chat_template is has_template
