"""Places of rows: against trees laid out by hand, and properties any tidy tree has."""

from __future__ import annotations

import random

import pytest

from specviz.tree import DraftTree
from specviz.views.tree_layout import tree_layout


def random_tree(seed: int) -> DraftTree:
    draw = random.Random(seed)
    size, lookahead = draw.randint(1, 40), 0
    parents = [-1, *(draw.randint(0, row - 1) for row in range(1, size))]
    if size > 4:
        lookahead = draw.randint(0, 3)
        limit = size - lookahead
        parents[1:limit] = [draw.randint(0, row - 1) for row in range(1, limit)]
    return DraftTree(tuple(range(size)), tuple(parents), lookahead)


def test_a_tree_laid_out_by_hand() -> None:
    #  root -- 1 -- 3          line 0
    #            \- 4          line 1
    #            \- own        line 2   (the target's own token, last child of row 1)
    #       \- 2 -- 5          line 3
    tree = DraftTree((9, 1, 2, 3, 4, 5), (-1, 0, 0, 1, 1, 2))
    layout = tree_layout(tree, next_parent=1)
    assert layout.x == (0, 1, 1, 2, 2, 2)
    assert layout.y == (0, 0, 3, 0, 1, 3)
    assert layout.next_cell == (2, 2)
    assert (layout.width, layout.height) == (3, 4)
    assert layout.lookahead_y is None


def test_lookahead_rows_stand_in_a_block_below() -> None:
    tree = DraftTree((0, 1, 2, 3, 4, 5), (-1, 0, 0, 2, 0, 4), 4)
    layout = tree_layout(tree, next_parent=1)
    assert layout.lookahead_y == 1
    assert layout.y == (0, 0, 1, 1, 2, 2)
    assert layout.x == (0, 1, 1, 2, 1, 2)
    assert layout.height == 3


@pytest.mark.parametrize("seed", range(60))
def test_no_two_rows_share_a_cell_and_each_child_is_one_column_on(seed: int) -> None:
    tree = random_tree(seed)
    parent = random.Random(seed).randint(0, tree.num_draft_tokens)
    layout = tree_layout(tree, next_parent=parent)
    cells = [*zip(layout.x, layout.y, strict=True), layout.next_cell]
    assert len(set(cells)) == len(cells)
    for row, above in enumerate(tree.parents):
        if above >= 0:
            assert layout.x[row] == layout.x[above] + 1
    for row in range(len(tree)):
        if tree.children(row):
            assert layout.y[tree.children(row)[0]] == layout.y[row]
    assert layout.height == max(y for _, y in cells) + 1
    assert layout.width == max(x for x, _ in cells) + 1


@pytest.mark.parametrize("seed", range(60))
def test_links_of_draft_rows_cross_no_row(seed: int) -> None:
    tree = random_tree(seed)
    layout = tree_layout(tree, next_parent=0)
    draft = range(1, tree.num_draft_tokens + 1)
    for row in draft:
        above = tree.parents[row]
        span = range(layout.y[above] + 1, layout.y[row])
        strangers = [
            other
            for other in draft
            if layout.x[other] == layout.x[above] and layout.y[other] in span
        ]
        assert strangers == []


def test_equal_shapes_get_equal_places_whatever_the_tokens() -> None:
    parents = (-1, 0, 0, 1, 2)
    first = tree_layout(DraftTree((0, 1, 2, 3, 4), parents), next_parent=3)
    second = tree_layout(DraftTree((9, 8, 7, 6, 5), parents), next_parent=3)
    assert first == second


def test_a_chain_longer_than_the_recursion_limit() -> None:
    layout = tree_layout(DraftTree.chain(0, range(1, 3000)), next_parent=2999)
    assert set(layout.y) == {0}
    assert layout.next_cell == (3000, 0)
