"""Traces to JSON Lines and back: nothing is lost, and what is no trace is refused."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.trace import Candidate, RoundTrace, TraceEvent, Trial, Verdict
from specviz.trace_io import dump_event, dump_events, load_events, read_trace
from specviz.tree import DraftTree
from tests.traces import HOSTILE, demo_run, greedy_verdict, round_trace, run_start

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def run() -> list[TraceEvent]:
    return demo_run()  # type: ignore[return-value]


def test_a_run_reads_back_equal(run: list[TraceEvent]) -> None:
    text = dump_events(run)
    assert list(load_events(text)) == run
    assert dump_events(load_events(text)) == text


numbers = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(categories=("L", "Cc", "Cs", "So", "Zl")), max_size=6)


@given(
    texts=st.lists(texts, min_size=3, max_size=3),
    notes=st.dictionaries(texts, texts, max_size=2),
    seconds=st.tuples(numbers, numbers, numbers),
    trial=st.builds(
        Trial, st.integers(0, 2), numbers, numbers, numbers, st.none() | numbers, st.booleans()
    ),
    candidate=st.builds(
        Candidate, st.integers(0), texts, st.integers(-1), st.integers(1), numbers,
        st.integers(0), st.booleans(),
    ),
)  # fmt: skip
def test_any_round_reads_back_equal(
    texts: list[str], notes: dict[str, str], seconds: Any, trial: Trial, candidate: Candidate
) -> None:
    tree = DraftTree.chain(0, (1, 2))
    verdict = replace(greedy_verdict(tree, (1, 5)), trials=(trial,))
    round_ = replace(
        round_trace(tree, verdict, seconds=seconds),
        texts=tuple(texts),
        notes=notes,
        candidates=(candidate,),
    )
    first = run_start()
    line = dump_event(round_)
    assert list(load_events(dump_event(first) + line)) == [first, round_]
    assert line.isascii()
    assert line.count("\n") == 1


def test_odd_text_travels_escaped() -> None:
    """Lone surrogates, NUL and line separators must neither fail nor break the line."""
    prompt = "".join(HOSTILE) + "\u2028\x85\x1e"
    first = run_start(prompt=prompt)
    (read,) = load_events(dump_event(first))
    assert read == first
    assert dump_event(first).isascii()


def test_line_ends_and_blank_lines_do_not_matter(run: list[TraceEvent]) -> None:
    text = dump_events(run).replace("\n", "\r\n\n")
    assert list(load_events(text)) == run


def test_a_trace_that_breaks_off_reads_up_to_there(run: list[TraceEvent]) -> None:
    assert list(load_events(dump_events(run[:9]))) == run[:9]


def damaged(**changes: Any) -> str:
    """A first line, and a round with some of its values changed."""
    tree = DraftTree.chain(0, (1, 2))
    round_ = json.loads(dump_event(round_trace(tree, greedy_verdict(tree, (1, 2, 3)))))
    return dump_event(run_start()) + json.dumps(round_ | changes) + "\n"


def first_line(**changes: Any) -> str:
    return json.dumps(json.loads(dump_event(run_start())) | changes)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a trace: the file is empty"),
        ("\n \n", "not a trace: the file is empty"),
        ("hello", "not a trace: line 1 is not JSON"),
        ("[" * 100_000, "not a trace: line 1 is not JSON"),
        ("9" * 5000, "not a trace: line 1 is not JSON"),
        ("[1]", "line 1 has no known event kind"),
        ("null", "line 1 has no known event kind"),
        ('{"kind": "epilogue"}', "line 1 has no known event kind"),
        ('{"kind": ["round"]}', "line 1 has no known event kind"),
        ('{"kind":"run_end","wall_seconds":1.0}', "first line is not a run_start"),
        (first_line(schema=2), "schema 2; this version reads schema 1"),
        (first_line(schema=None), "schema None"),
        (first_line(schema="1"), "schema '1'"),
        (first_line(schema=True), "Line 1 of the trace is damaged"),
        (first_line(versions=[]), "Line 1 of the trace is damaged"),
        (first_line(request={}), "Line 1 of the trace is damaged: Request lacks"),
        (damaged(lane="0"), "Line 2 of the trace is damaged: expected int"),
        (damaged(lane=True), "Line 2 of the trace is damaged: expected int"),
        (damaged(lane=0.5), "Line 2 of the trace is damaged: expected int"),
        (damaged(texts="abc"), "Line 2 of the trace is damaged: expected a list"),
        (damaged(extra=1), "Line 2 of the trace is damaged: RoundTrace has no field 'extra'"),
        (damaged(verdict=None), "Line 2 of the trace is damaged: expected a Verdict"),
        (damaged(tree={"tokens": [1, 2], "parents": [-1, 1]}), "each parent must come before"),
        (damaged(tree={"tokens": [1], "parents": [0]}), "-1 for the root"),
        (damaged(draft_seconds="fast"), "Line 2 of the trace is damaged: expected float"),
    ],
)  # fmt: skip
def test_what_is_no_trace_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        list(load_events(text))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" * 400])
def test_numbers_that_are_none_are_refused(number: str) -> None:
    """Python's JSON reads NaN and 1e999 as floats; the page would have failed on them later."""
    for text in (damaged(draft_seconds=-77.0), damaged(softmax_probs=[None, -77.0, 0.5])):
        with pytest.raises(ValueError, match="Line 2 of the trace is damaged"):
            list(load_events(text.replace("-77.0", number)))


def test_numbers_that_are_none_are_not_written() -> None:
    tree = DraftTree.chain(0)
    round_ = round_trace(tree, greedy_verdict(tree, (1,)), seconds=(math.nan, 0.0, 0.0))
    with pytest.raises(ValueError, match="JSON compliant"):
        dump_event(round_)


def test_a_field_left_out_is_named() -> None:
    line = json.loads(damaged().splitlines()[1])
    del line["cache_length"]
    text = dump_event(run_start()) + json.dumps(line)
    with pytest.raises(ValueError, match="RoundTrace lacks 'cache_length'"):
        list(load_events(text))


def test_files_read_plain_and_gzipped(tmp_path: Path, run: list[TraceEvent]) -> None:
    text = dump_events(run)
    (tmp_path / "a.jsonl").write_text(text, encoding="utf-8")
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    assert read_trace(tmp_path / "a.jsonl") == read_trace(tmp_path / "b.jsonl.gz") == text


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("cut", gzip.compress(b"x" * 1000)[:-9], "not a whole gzip file"),
        ("wrong", gzip.compress(b"x")[:2] + b"\x08\x00" + b"\xff" * 40, "not a whole gzip file"),
        ("sum", gzip.compress(b"abc")[:-8] + b"\x00" * 8, "not a whole gzip file"),
        ("bytes", b"\xff\xfe\x00", "not UTF-8 text"),
        ("packed", gzip.compress(b"\xff"), "not UTF-8 text"),
    ],
    ids=["cut", "wrong", "sum", "bytes", "packed"],
)
def test_files_that_cannot_be_read_are_refused(
    tmp_path: Path, name: str, data: bytes, reason: str
) -> None:
    """A gzip file that is damaged inside raises zlib's own error, which nobody caught."""
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=reason):
        read_trace(tmp_path / name)


def test_a_file_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz.trace_io.MAX_TRACE_BYTES", 1000)
    (tmp_path / "bomb").write_bytes(gzip.compress(b" " * 100_000))
    with pytest.raises(ValueError, match="more than 1,000 bytes"):
        read_trace(tmp_path / "bomb")


@given(st.integers(1, 6), st.lists(st.integers(0, 2), min_size=4, max_size=4))
def test_a_cut_verdict_is_the_walk_that_stopped_there(num_tokens: int, hits: list[int]) -> None:
    """Against a walk that never looks past the stop: nothing after it counts as decided."""
    paths = [[10 * (i + 1) + j for i in range(4)] for j in range(3)]
    tree = DraftTree.from_paths(0, [*paths, [10, 21], [11, 20]])
    answer = [10 * (i + 1) + hit for i, hit in enumerate(hits)] + [99]
    whole = greedy_verdict(tree, answer)
    cut = whole.cut(num_tokens, tree)
    if num_tokens >= whole.num_new_tokens:
        assert cut == whole
        return
    assert cut.accepted_rows == whole.accepted_rows[:num_tokens]
    assert (cut.next_token, cut.next_token_kind) == (None, "none")
    decided = {-1, 0, *cut.accepted_rows[:-1]}
    for row, status in enumerate(whole.row_status):
        kept = tree.parents[row] in decided
        assert cut.row_status[row] == (status if kept else "unreached")
    assert cut.trials == tuple(t for t in whole.trials if tree.parents[t.row] in decided)
    assert _probs_of_undecided(cut, tree, decided) == set()


def _probs_of_undecided(verdict: Verdict, tree: DraftTree, decided: set[int]) -> set[float]:
    """Chances that decided nothing, since nobody asked for them before the stop."""
    rows = (row for row in range(1, len(tree)) if tree.parents[row] not in decided)
    return {p for row in rows if (p := verdict.target_probs[row]) is not None}


def test_replay_loads_neither_torch_nor_gradio(tmp_path: Path, run: list[TraceEvent]) -> None:
    (tmp_path / "run.jsonl").write_text(dump_events(run), encoding="utf-8")
    code = (
        "import sys; from pathlib import Path\n"
        "from specviz.session import ReplaySession, drain\n"
        "from specviz.trace_io import read_trace\n"
        "events = drain(ReplaySession(read_trace(Path(sys.argv[1]))).events())\n"
        "print(len(events), {'torch', 'gradio', 'transformers', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run.jsonl")],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [str(len(run)), "set()"]


def test_a_round_costs_its_three_parts() -> None:
    tree = DraftTree.chain(0)
    round_: RoundTrace = round_trace(tree, greedy_verdict(tree, (1,)), seconds=(1.0, 2.0, 4.0))
    assert round_.seconds == 7.0
