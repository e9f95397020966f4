"""Timed passes and the verify-cost curve, against a model whose times are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from specviz.lm.base import LanguageModel
from specviz.lm.reads import KEPT, binary_tree, kept_or_measured, measured, read_costs
from tests.bench.fake_lm import Clock, FakeLM


def model(**traits: Any) -> LanguageModel:
    return cast(LanguageModel, FakeLM(**traits))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("specviz.lm.device.time.perf_counter", clock)
    return clock


def test_a_read_costs_what_it_takes(clock: Clock) -> None:
    costs = read_costs(model(clock=clock), range(20), (1, 4, 16), 5)
    assert [cost.num_rows for cost in costs] == [1, 4, 16]
    assert [cost.milliseconds for cost in costs] == pytest.approx([11, 14, 26])
    assert [cost.over_one_row for cost in costs] == pytest.approx([1, 14 / 11, 26 / 11])


def test_a_machine_that_slows_down_does_not_change_the_ratios_much(clock: Clock) -> None:
    """Each pass takes 1 % longer than the one before: measured size by size, the last would look
    three times dearer than it is (40 rounds of 3 sizes, 1.01 ** 80 = 2.2)."""
    costs = read_costs(model(clock=clock, drift=1.01), range(20), (1, 4, 16), 40)
    assert costs[2].over_one_row == pytest.approx(26 / 11, rel=0.03)
    assert costs[2].milliseconds > 1.5 * 26


@pytest.mark.parametrize("num_rows", [1, 2, 7, 32])
def test_a_binary_tree_has_two_children_per_row(num_rows: int) -> None:
    tree = binary_tree(num_rows)
    assert len(tree) == num_rows
    assert all(len(tree.children(row)) == 2 for row in range((num_rows - 1) // 2))


def test_the_curve_is_in_one_row_reads(clock: Clock) -> None:
    """A pass of the stand-in takes 10 ms and 1 ms a row."""
    curve = measured(model(clock=clock))
    assert [n for n, _ in curve] == [1, 2, 4, 8, 16, 32, 64]
    assert [ratio for _, ratio in curve] == pytest.approx(
        [(10 + n) / 11 for n, _ in curve], abs=1e-3
    )


def test_a_curve_is_measured_once_per_model_form_and_device(own_cache: Path, clock: Clock) -> None:
    lm = model(clock=clock)
    first = kept_or_measured(lm, "tiny", "nf4")
    before = clock.now
    assert kept_or_measured(lm, "tiny", "nf4") == first
    assert clock.now == before  # no read was made
    kept_or_measured(lm, "tiny", "bfloat16")
    assert clock.now > before
    assert len(json.loads((own_cache / KEPT).read_text())) == 2


@pytest.mark.parametrize("text", ["", "[]", '{"a": 3}', '{"a": [["x", 1]]}'])
def test_a_damaged_file_of_curves_is_measured_anew(
    own_cache: Path, clock: Clock, text: str
) -> None:
    own_cache.mkdir(parents=True, exist_ok=True)
    (own_cache / KEPT).write_text(text)
    assert kept_or_measured(model(clock=clock), "tiny", "nf4")[0] == (1, 1.0)


def test_a_cache_that_cannot_be_written_is_no_obstacle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path / "file"))
    assert kept_or_measured(model(clock=clock), "tiny", "nf4")[0] == (1, 1.0)
