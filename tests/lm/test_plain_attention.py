"""The mask itself, against one drawn by hand."""

from __future__ import annotations

import pytest
import torch

from specviz.lm.attention import additive_mask, causal_rows, hidden_score, visible_rows
from specviz.tree import DraftTree

CPU = torch.device("cpu")
DTYPES = [torch.float32, torch.float16, torch.bfloat16]

# Two children under the root, two under each of them.
TWO_BY_TWO = DraftTree((9, 1, 2, 3, 4, 5, 6), (-1, 0, 0, 1, 1, 2, 2))
DRAWN = """
    PPPP#......
    PPPP##.....
    PPPP#.#....
    PPPP##.#...
    PPPP##..#..
    PPPP#.#..#.
    PPPP#.#...#
"""


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_two_by_two_tree_after_four_tokens(dtype):
    """E16: a row sees the whole prefix, its ancestors and itself; never a sibling."""
    drawn = [[mark != "." for mark in line] for line in DRAWN.split()]
    mask = additive_mask(visible_rows(TWO_BY_TWO), 4, dtype=dtype, device=CPU)
    assert mask.dtype == dtype
    assert mask.shape == (1, 1, 7, 11)
    assert (mask[0, 0] == 0).tolist() == drawn
    assert set(mask.unique().tolist()) == {0.0, hidden_score(dtype)}


def test_a_chain_is_causal():
    assert torch.equal(visible_rows(DraftTree.chain(1, (2, 3, 4))), causal_rows(4))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sums_with_the_mask_stay_finite_and_hidden(dtype):
    """E12: the lowest number plus a negative score, or plus itself, is minus infinity in halves."""
    mask = additive_mask(visible_rows(TWO_BY_TWO), 0, dtype=dtype, device=CPU)[0, 0]
    for scores in (mask, torch.full_like(mask, -1000.0), torch.full_like(mask, 1000.0)):
        assert torch.isfinite(mask + scores).all()
    weights = (mask + torch.full_like(mask, -1000.0)).float().softmax(-1)
    assert (weights[mask != 0] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(7))


@pytest.mark.parametrize("num_cached", [0, 3])
def test_every_row_sees_itself(num_cached):
    """E11: a row that sees nothing divides nothing by nothing."""
    mask = additive_mask(visible_rows(TWO_BY_TWO), num_cached, dtype=torch.float32, device=CPU)
    assert (mask[0, 0].diagonal(num_cached) == 0).all()
