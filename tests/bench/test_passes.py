"""Timed and compared passes, against a model whose times and logits are known."""

from __future__ import annotations

from typing import Any, cast

import pytest

from specviz.bench.passes import (
    ReadShape,
    compare_reads,
    true_path_tree,
)
from specviz.lm.base import LanguageModel
from tests.bench.fake_lm import VOCABULARY, FakeLM

PROMPT = (3, 1, 4, 1, 5)
CHAIN, TREE = ReadShape(7, 0), ReadShape(3, 2)


def model(**traits: Any) -> LanguageModel:
    return cast(LanguageModel, FakeLM(**traits))


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
