"""The mask: by hand for a 2 x 2 tree, and against each row's path for odd ones."""

from __future__ import annotations

import pytest

from specviz.tree import DraftTree
from specviz.views.mask import visible_rows
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
