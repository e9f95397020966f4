"""Timed and compared passes, against a model whose times and logits are known."""

from __future__ import annotations

from typing import Any, cast

import pytest

from specviz.bench.passes import (
    ReadShape,
    binary_tree,
    compare_reads,
    read_costs,
    true_path_tree,
)
from specviz.lm.base import LanguageModel
from tests.bench.fake_lm import VOCABULARY, Clock, FakeLM

PROMPT = (3, 1, 4, 1, 5)
CHAIN, TREE = ReadShape(7, 0), ReadShape(3, 2)


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


def test_the_true_path_lies_behind_its_decoys() -> None:
    text = (9, 8, 63, 6, 5)
    tree, path = true_path_tree(TREE, text, VOCABULARY)
    assert len(tree) == TREE.num_rows == 10
    assert TREE.name == "tree of 10, 3 deep"
    assert path == (0, 3, 6, 9)
    assert (9, *tree.path_tokens(9)) == text[:4]
    assert all(len(tree.children(row)) == 3 for row in path[:-1])


def test_equal_rows_are_counted_as_equal() -> None:
    chain, tree = compare_reads(model(), PROMPT, 12, (CHAIN, TREE))
    assert (chain.num_compared, chain.num_equal, chain.num_flips) == (16, 16, 0)
    assert (tree.num_compared, tree.num_equal, tree.num_flips) == (12, 12, 0)


@pytest.mark.parametrize("is_flipped", [False, True])
def test_rows_that_differ_are_found(is_flipped: bool) -> None:
    lm = model(first_wrong_row=6, is_flipped=is_flipped)
    chain, tree = compare_reads(lm, PROMPT, 12, (CHAIN, TREE))
    assert (chain.num_compared, chain.num_equal) == (16, 12)  # rows 6 and 7 of 8, at 2 starts
    assert (tree.num_compared, tree.num_equal) == (12, 6)  # rows 6 and 9 of the path, at 3 starts
    assert chain.num_flips == (4 if is_flipped else 0)
    assert tree.num_flips == (6 if is_flipped else 0)
