"""Ctrl-C on the command line: once in good order, twice at once."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from specviz.trace import LaneEnd, RunEnd, TraceEvent
from specviz.trace_io import load_events
from tests.models import tiny_folder
from tests.traces import demo_run

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("model") / "tiny", max_position_embeddings=8192)


def interrupted(words: list[object], num_interrupts: int) -> tuple[int, str, str]:
    """Exit code, output and errors of a process that is interrupted once it has written text."""
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,  # what is read here must not take more along
    )
    assert process.stdout is not None
    first = process.stdout.read(1)
    for _ in range(num_interrupts):
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
    out, err = process.communicate(timeout=60)
    return process.returncode, (first + out).decode(), err.decode()


def whole_trace(path: Path) -> list[TraceEvent]:
    with gzip.open(path) as stream:  # EOFError if the file were cut off
        return list(load_events(stream.read().decode()))


def test_ctrl_c_ends_the_lanes_as_cancelled_and_leaves_a_whole_file(
    folder: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "race.jsonl.gz"
    words = ["run", "one", "--target", folder, "--lanes", "autoregressive,prompt_lookup"]
    words += ["--max-new-tokens", "2048", "--out", trace]
    code, out, err = interrupted(["-m", "specviz", *words], 1)
    assert code == 130
    assert "Traceback" not in err
    assert "Stopping after this round" in err
    assert "Stopped before the end." in out
    events = whole_trace(trace)
    assert isinstance(events[-1], RunEnd)
    ends = [event for event in events if isinstance(event, LaneEnd)]
    assert [end.reason for end in ends] == ["cancelled", "cancelled"]


HANGING = """
import sys, time
from specviz.session import LiveSession
from tests.traces import demo_run

def events(self, request):
    yield from demo_run()[:40]
    time.sleep(1000)

LiveSession.events = events
sys.argv = ["specviz", "run", "x", "--out", {trace!r}]
import runpy
runpy.run_module("specviz", run_name="__main__")
"""


def test_a_second_ctrl_c_ends_a_run_that_hangs_and_leaves_a_whole_file(tmp_path: Path) -> None:
    trace = tmp_path / "race.jsonl.gz"
    code, _, err = interrupted(["-c", HANGING.format(trace=str(trace))], 2)
    assert code == 130
    assert "Traceback" not in err
    assert whole_trace(trace) == demo_run()[:40]
