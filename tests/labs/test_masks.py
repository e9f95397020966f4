"""One pass under the right mask is every path's own pass; under any other it is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specviz.labs import masks
from specviz.views.mask import visible_rows
from specviz.words import Refusal

TERNARY = "-1, 0 0 0, 1 1 1, 2 2 2, 3 3 3"  # depth 2, three candidates per node


@pytest.mark.parametrize("text", [TERNARY, "-1", "-1 0 1 2 3", "-1 0 0 1 3 2 0"])
def test_the_right_mask_reads_every_path_in_one_pass(text: str) -> None:
    found = masks.compare(masks.read_parents(text), seed=4)
    assert found.is_right
    assert found.num_sequential == len(found.tree)


@pytest.mark.parametrize("broken", masks.BREAKS[1:])
def test_every_wrong_mask_shows(broken: Any) -> None:
    assert masks.compare(masks.read_parents(TERNARY), 4, broken).largest > 0.01


def test_a_chain_needs_no_tree_mask() -> None:
    assert masks.compare(masks.read_parents("-1 0 1 2"), 4, "causal").is_right


def test_one_cell_turned_over_spoils_its_row_and_those_that_read_it() -> None:
    found = masks.compare(masks.read_parents("-1 0 0 1 2"), 4, "none", ((3, 2),))
    is_off = [difference > masks.TOLERANCE for difference in found.differences]
    assert is_off == [False, False, False, True, False]


def test_the_mask_is_the_one_that_the_page_shows_of_runs() -> None:
    tree = masks.read_parents("-1 0 0 1 3 2 0")
    rows = [tuple(np.flatnonzero(row).tolist()) for row in masks.tree_mask(tree)]
    assert tuple(rows) == visible_rows(tree)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "whole numbers"),
        ("-1 0 x", "whole numbers"),
        ("0 0", "-1 for the root"),
        ("-1 0 5", "row 2"),
        ("-1 -1", "row 1"),
        ("-1 " + "0 " * 64, "64 rows"),
    ],
)
def test_what_is_no_tree_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(Refusal, match=sentence):
        masks.read_parents(text)


def test_cells_are_read_and_refused() -> None:
    assert masks.read_cells("3-2, 1-0", 4) == ((3, 2), (1, 0))
    assert masks.read_cells(" ", 4) == ()
    for text in ("3", "4-0", "a-b"):
        with pytest.raises(Refusal, match="from 0 to 3"):
            masks.read_cells(text, 4)
    with pytest.raises(Refusal, match="Row 1"):
        masks.compare(masks.read_parents("-1 0"), 4, "none", ((1, 0), (1, 1)))
