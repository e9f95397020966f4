"""The command line: what it accepts, what it prints where, and how it ends."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from specviz.__main__ import main
from specviz.cli.lanes import parse_lanes
from specviz.cli.watch import ProgressLines, printable, watch
from specviz.config import LaneSpec
from specviz.drafters import DRAFTERS, drafter_info
from specviz.lm.weights import WeightsUnavailable
from specviz.trace import (
    Failure,
    LaneEnd,
    LaneStart,
    Progress,
    RunEnd,
    SessionEvent,
)
from specviz.trace_io import dump_events, load_events, read_trace
from specviz.words import message
from tests.models import tiny_folder
from tests.traces import ANSWER, HOSTILE, decode, demo_run, ids, lane_start, plain_trees, run_start

ROOT = Path(__file__).parents[1]
SAME = "lookahead"
KNOB = drafter_info(SAME).knobs[0]  # set to its default, it makes no other lane
NO_TORCH = "import sys; sys.modules['torch'] = None; from specviz.__main__ import main; "


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("model") / "tiny", max_position_embeddings=8192)


@pytest.mark.parametrize(
    ("text", "lanes"),
    [
        ("autoregressive", (LaneSpec("autoregressive"),)),
        (" a , b ", (LaneSpec("a"), LaneSpec("b"))),
        (
            "a:k=4:adaptive=on,a:k=8:p=0.5:draft=4-bit copy:adaptive=No",
            (
                LaneSpec("a", (("k", 4), ("adaptive", True))),
                LaneSpec("a", (("k", 8), ("p", 0.5), ("draft", "4-bit copy"), ("adaptive", False))),
            ),
        ),
    ],
)
def test_lanes_are_read(text: str, lanes: tuple[LaneSpec, ...]) -> None:
    assert parse_lanes(text) == lanes


def test_a_switch_is_no_number_and_a_whole_number_no_fraction() -> None:
    """1 == True == 1.0 in Python, so equality above could not tell them apart."""
    (lane,) = parse_lanes("a:n=1:s=true:f=1.0")
    assert [type(value) for _, value in lane.knobs] == [int, bool, float]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "the following arguments are required: COMMAND."),
        (["fly"], "invalid choice: 'fly'"),
        (["run"], "the following arguments are required: prompt."),
        (["run", "  "], "The prompt is empty"),
        (["run", "x", "--lanes", ""], "A lane of --lanes is empty"),
        (["run", "x", "--lanes", "lookahead,"], "A lane of --lanes is empty"),
        (["run", "x", "--lanes", "lookahead:window"], ":name=value, such as"),
        (["run", "x", "--lanes", "lookahead:window="], "got 'window='"),
        (["run", "x", "--lanes", "lookahead:window=3:window=4"], "sets window 2 times"),
        (["run", "x", "--lanes", "telepathy"], "one of autoregressive, draft_model"),
        (["run", "x", "--lanes", "lookahead:depth=3"], "A knob of lookahead is one of window"),
        (["run", "x", "--lanes", "lookahead:window=0"], "window is a whole number from 1 to"),
        (["run", "x", "--lanes", "lookahead:window=on"], "window is a whole number from 1 to"),
        (
            ["run", "x", "--lanes", f"{SAME},{SAME}:{KNOB.name}={KNOB.default}"],
            "Two lanes are the same",
        ),
        (["run", "x", "--temperature", "warm"], "argument --temperature: invalid float value"),
        (["run", "x", "--top-p", "nan"], "top_p is a number from 0 to 1; got nan."),
        (["run", "x", "--max-new-tokens", "0"], "max_new_tokens is a whole number from 1"),
        (["run", "x", "--stop", ""], "A stop string is empty"),
        (["run", "x", "--target", "gpt-9"], "--target takes a name (smollm2-135m-instruct, "),
        (["run", "x", "--draft", "nowhere"], "--draft takes the folder of a checkpoint"),
        (["run", "x", "--drafters", "nowhere"], "--drafters takes a folder of trained drafters"),
        (["run", "x", "--out", "nowhere/run.jsonl"], "--out takes a file in a folder that exists"),
        (["replay", "nowhere.jsonl"], "No such file or directory: nowhere.jsonl."),
        (["replay", "specviz/tree.py"], "This is not a trace: line 1 is not JSON"),
        (["bench", "engine", "--target", "gpt-9"], "--target takes a name"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    words: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    try:
        code: object = main(words)
    except SystemExit as end:  # as argparse ends
        code = end.code
    told = capsys.readouterr()
    assert code == 2
    assert sentence in told.err
    assert told.err.count("\n") == 1
    assert not told.out


def test_a_run_prints_the_plain_lane_and_its_recording_replays_the_same(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "race.jsonl.gz"
    lanes = "prompt_lookup,autoregressive,prompt_lookup:max_ngram=2"
    words = ["run", "one, two, three", "--target", str(folder), "--lanes", lanes]
    assert main([*words, "--max-new-tokens", "24", "--out", str(trace)]) == 0
    told = capsys.readouterr()
    events = list(load_events(read_trace(trace)))
    plain = next(e for e in events if isinstance(e, LaneStart) and e.drafter == "autoregressive")
    answer = next(e.text for e in events if isinstance(e, LaneEnd) and e.lane == plain.lane)
    assert told.out.startswith(f"{printable(answer)}\n\n")
    assert "prompt_lookup (max_ngram=2): " in told.out
    assert "identical to plain for 24 tokens" in told.out
    assert "local folder tiny" in told.err
    assert main(["replay", str(trace)]) == 0
    assert capsys.readouterr().out == told.out


def test_replay_needs_no_torch(tmp_path: Path) -> None:
    trace = tmp_path / "demo.jsonl"
    trace.write_text(dump_events(e for e in demo_run()), encoding="utf-8")  # type: ignore[misc]
    code = NO_TORCH + f"sys.exit(main(['replay', {str(trace)!r}]))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("".join(ANSWER))
    assert "draft_model-1: Draft model" in done.stdout
    assert not done.stderr


def test_a_run_that_cannot_start_fails_and_leaves_the_old_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recorder opens its file at once; a failed start used to leave an empty one behind. And a
    folder that is no checkpoint is bad input, code 2; it was told apart only before the load."""
    trace = tmp_path / "old.jsonl"
    trace.write_text("an older run", encoding="utf-8")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["run", "x", "--target", str(empty), "--out", str(trace)]) == 2
    told = capsys.readouterr()
    assert "config.json" in told.err
    assert not told.out
    assert trace.read_text(encoding="utf-8") == "an older run"


def test_the_prompt_can_come_from_standard_input(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    trace = tmp_path / "run.jsonl"
    monkeypatch.setattr("sys.stdin", io.StringIO("The capital\nof France"))
    words = ["run", "-", "--raw", "--target", str(folder), "--lanes", "autoregressive"]
    assert main([*words, "--max-new-tokens", "2", "--out", str(trace)]) == 0
    capsys.readouterr()
    start, *_ = load_events(read_trace(trace))
    assert "".join(start.prompt_texts) == "The capital\nof France"  # type: ignore[union-attr]


def lane_that_ends(end: LaneEnd) -> Iterator[SessionEvent]:
    yield from (run_start(), lane_start(0))
    yield from decode(0, plain_trees())
    yield from (end, RunEnd(1.0))


@pytest.mark.parametrize(
    ("reason", "code"),
    [("stop", 0), ("length", 0), ("context", 0), ("cancelled", 130), ("error", 1)],
)
def test_the_exit_code_tells_how_the_lanes_ended(reason: str, code: int) -> None:
    end = LaneEnd(0, reason, "".join(ANSWER), "Out of memory.")  # type: ignore[arg-type]
    out, err = io.StringIO(), io.StringIO()
    assert watch(lane_that_ends(end), out, err) == code
    assert "Out of memory." in out.getvalue()


def test_text_held_back_until_the_end_is_printed_too() -> None:
    out = io.StringIO()
    watch(lane_that_ends(LaneEnd(0, "length", "".join(ANSWER) + "\ufffd")), out, io.StringIO())
    assert out.getvalue().startswith("".join(ANSWER) + "\ufffd\n\n")


def test_a_failure_after_rounds_is_told_and_fails() -> None:
    out, err = io.StringIO(), io.StringIO()
    assert watch(iter([run_start(), Failure("The disk is gone.")]), out, err) == 1
    assert err.getvalue() == "The disk is gone.\n"


def test_text_cannot_command_the_terminal() -> None:
    evil = ["\x1b]0;owned\x07", "\x9b2J", *HOSTILE, "tab\there\r\n"]
    rounds = decode(0, plain_trees(), answer=ids(*HOSTILE))
    events = [
        run_start(prompt="\x1b[2J"),
        lane_start(0),
        *rounds,
        LaneEnd(0, "stop", "".join(evil)),
    ]
    out = io.StringIO()
    watch(iter(events), out, io.StringIO())
    told = out.getvalue()
    assert not {c for c in told if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0}
    told.encode()  # no half characters


def test_progress_is_told_once_per_message_and_tenth() -> None:
    err = io.StringIO()
    lines = ProgressLines(err)
    for done in range(1001):
        lines.tell(Progress("fetch", "Fetching from the Hub.", done * 10**5, 10**8))
    lines.tell(Progress("load", "Loading."))
    lines.tell(Progress("load", "Loading."))
    told = err.getvalue().splitlines()
    assert told[0] == "Fetching from the Hub. (0 MB of 100 MB)"
    assert told[10] == "Fetching from the Hub. (100 MB of 100 MB)"
    assert told[11:] == ["Loading."]


def test_models_lists_every_drafter_with_its_knobs_and_what_is_not_fetched_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path))
    assert main(["models"]) == 0
    told = capsys.readouterr().out
    for name in DRAFTERS:
        assert f"  {name}: " in told
        for knob in drafter_info(name).knobs:
            assert f"      {knob.name}=" in told
    assert "smollm2-135m-instruct: SmolLM2 135M Instruct, Apache-2.0; fetched at its first" in told
    kept = tmp_path / "smollm2-135m-instruct"
    kept.mkdir()
    (kept / "model.safetensors").write_bytes(bytes(3_000_000))
    receipt = '{"source": "the Hub", "files": {"model.safetensors": {"bytes": 3000000}}}'
    (kept / "source.json").write_text(receipt, encoding="utf-8")
    main(["models"])
    assert "in the cache, 3 MB, from the Hub" in capsys.readouterr().out


def test_output_that_nobody_reads_is_no_error(tmp_path: Path) -> None:
    """`replay FILE | head -1` used to report a broken pipe as bad input."""
    trace = tmp_path / "demo.jsonl"
    trace.write_text(dump_events(e for e in demo_run()), encoding="utf-8")  # type: ignore[misc]
    process = subprocess.Popen(
        [sys.executable, "-m", "specviz", "replay", trace],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait(timeout=60)


def test_a_benchmark_without_weights_fails_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """WeightsUnavailable is no ValueError: it used to come out as a traceback."""

    def unavailable(spec: object) -> Iterator[Progress]:
        yield Progress("fetch", "Asking the Hub.")
        raise WeightsUnavailable(message("tried.said", text="Found nowhere; connect."))

    monkeypatch.setattr("specviz.engine.store.fetch", unavailable)
    assert main(["bench", "engine", "--quick"]) == 1
    told = capsys.readouterr()
    assert told.err == "Asking the Hub.\nFound nowhere; connect.\n"
    assert not told.out
