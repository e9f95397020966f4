"""Points of the roofline against the recorded file, read by hand."""

from __future__ import annotations

import gzip
import json
from statistics import median

import pytest

from specviz.labs.machine import MeasuredMachine
from specviz.labs.passes import timed_target
from specviz.roofline import Machine
from specviz.trace_io import load_events, read_trace
from specviz.ui import choosing_slow
from tests.races import FOLDER

FILE = FOLDER / "chat_rainbows.jsonl.gz"
TARGET = "smollm2-135m-instruct"
EVENTS = tuple(load_events(read_trace(FILE)))
LINES = [json.loads(line) for line in gzip.decompress(FILE.read_bytes()).splitlines()]


def test_each_point_is_what_the_file_holds() -> None:
    head = LINES[0]
    own = {e["lane"] for e in LINES if e["kind"] == "lane_start" and e["backbone"] == ""}
    rounds = [e for e in LINES if e["kind"] == "round" and e["lane"] in own]
    found = timed_target([EVENTS], TARGET, head["machine"])
    assert found is not None
    assert (found.device, found.dtype, found.date) == ("cpu", "bfloat16", head["created"])
    decode, verify, prefill = found.passes
    plain = [e["verify_seconds"] for e in rounds if e["lane"] == 0]
    assert (decode.seconds, decode.num_timed) == (median(plain), len(plain))
    n = verify.work.num_rows
    same = [e["verify_seconds"] for e in rounds if e["rows_written"] == n]
    assert n > 1
    assert (verify.seconds, verify.num_timed) == (median(same), len(same))
    num_read = len(head["prompt_tokens"]) - 1
    assert prefill.seconds == head["prefill_seconds"]
    for one, rows in ((decode, 1), (verify, n), (prefill, num_read)):
        assert one.work.intensity == pytest.approx(rows)  # bf16: 2 operations a row for 2 bytes
        flops = 2 * head["target"]["num_parameters"] * rows
        assert one.flops_per_second == pytest.approx(flops / one.seconds)


@pytest.mark.parametrize("asked", [("another", LINES[0]["machine"]), (TARGET, "another machine")])
def test_runs_of_another_target_or_machine_give_no_point(asked: tuple[str, str]) -> None:
    assert timed_target([EVENTS], *asked) is None


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_draws_the_points_under_the_roof(language) -> None:
    limits = Machine(flops_per_second=4e11, bytes_per_second=2e10)
    now = MeasuredMachine(limits, "cpu", LINES[0]["machine"], "now", ((1, 1e-3), (8, 2e-3)), 10**7)
    target = timed_target([EVENTS], TARGET, now.description)
    made = choosing_slow.Measured(now, 7.0, target)
    *_, said, picture = choosing_slow.paint_machine(language, made)
    assert target is not None
    assert "bfloat16" in said
    roof, matrix, *passes = picture.data
    assert list(roof.y) == [min(400, 20 * x) for x in roof.x]
    assert list(zip(matrix.x, matrix.y, strict=True)) == [(1, 20.0), (8, 80.0)]
    drawn = [(p.x[0], p.y[0]) for p in passes]
    assert drawn == [(p.work.intensity, p.flops_per_second / 1e9) for p in target.passes]
    *_, said, picture = choosing_slow.paint_machine(language, choosing_slow.Measured(now, 7.0))
    assert now.description in said
    assert len(picture.data) == 2
