"""The mask: by hand for a 2 x 2 tree, and against each row's path for odd ones."""

from __future__ import annotations

import pytest

from specviz.tree import DraftTree
from specviz.views.mask import branches, visible_rows
from tests.views.test_tree_layout import random_tree


def test_two_by_two_by_hand() -> None:
    """A row sees its ancestors and itself: never a sibling, never a cousin."""
    tree = DraftTree((0, 1, 2, 3, 4, 5, 6), (-1, 0, 0, 1, 1, 2, 2))
    assert visible_rows(tree) == (
        (0,),
        (0, 1),
        (0, 2),
        (0, 1, 3),
        (0, 1, 4),
        (0, 2, 5),
        (0, 2, 6),
    )


@pytest.mark.parametrize("seed", range(30))
def test_equals_the_path_of_every_row(seed: int) -> None:
    tree = random_tree(seed)
    assert visible_rows(tree) == tuple(tree.path(row) for row in range(len(tree)))


@pytest.mark.parametrize("seed", range(30))
def test_branches_say_which_child_a_row_is_and_so_name_its_path(seed: int) -> None:
    tree = random_tree(seed)
    found = branches(tree)
    drafted = range(1, tree.num_draft_tokens + 1)
    assert [found[row] for row in drafted] == [
        tree.children(tree.parents[row]).index(row) for row in drafted
    ]
    names = {tuple(found[row] for row in visible_rows(tree)[at][1:]) for at in drafted}
    assert len(names) == len(drafted)
