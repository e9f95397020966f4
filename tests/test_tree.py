"""DraftTree against paths written out by hand and by brute force."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.tree import DraftTree


@st.composite
def trees(draw: st.DrawFn) -> DraftTree:
    """Any tree: random parents, siblings that differ, perhaps some lookahead rows behind."""
    size = draw(st.integers(0, 12))
    tokens, parents, used = [draw(st.integers(0, 5))], [-1], set[tuple[int, int]]()
    for _ in range(size):
        parent, token = draw(st.integers(0, len(tokens) - 1)), draw(st.integers(0, 5))
        if (parent, token) not in used:
            used.add((parent, token))
            tokens.append(token)
            parents.append(parent)
    return DraftTree(tuple(tokens), tuple(parents), draw(st.integers(0, len(tokens) - 1)))


def path_by_hand(tree: DraftTree, row: int) -> list[int]:
    return [*path_by_hand(tree, tree.parents[row]), row] if row else [0]


@given(trees())
def test_depths_paths_and_children_follow_from_parents(tree: DraftTree) -> None:
    paths = [path_by_hand(tree, row) for row in range(len(tree))]
    assert [list(tree.path(row)) for row in range(len(tree))] == paths
    assert list(tree.depths) == [len(path) - 1 for path in paths]
    for row, path in enumerate(paths):
        assert list(tree.path_tokens(row)) == [tree.tokens[i] for i in path[1:]]
        drafted = range(1, len(tree) - tree.num_lookahead_rows)
        assert list(tree.children(row)) == [i for i in drafted if tree.parents[i] == row]
    is_chain = all(len(path) == row + 1 for row, path in enumerate(paths))
    assert tree.is_chain == is_chain
    assert tree.num_draft_tokens + tree.num_lookahead_rows + 1 == len(tree)


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=6))
def test_merged_paths_are_the_paths_that_went_in(paths: list[list[int]]) -> None:
    tree = DraftTree.from_paths(9, paths)
    wanted = {tuple(path[:end]) for path in paths for end in range(1, len(path) + 1)}
    assert {tree.path_tokens(row) for row in range(1, len(tree))} == wanted
    assert len(tree) == 1 + len(wanted)  # a shared prefix is one row each, not two


def test_merged_paths_keep_the_order_of_preference() -> None:
    tree = DraftTree.from_paths(1, [(2, 3), (2, 4), (5,)])
    assert (tree.tokens, tree.parents) == ((1, 2, 3, 4, 5), (-1, 0, 1, 1, 0))


def test_a_chain_is_a_tree() -> None:
    assert DraftTree.chain(7) == DraftTree((7,), (-1,))
    assert DraftTree.chain(7, (8, 9)) == DraftTree((7, 8, 9), (-1, 0, 1))


@pytest.mark.parametrize(
    ("tokens", "parents", "lookahead", "reason"),
    [
        ((), (), 0, "one parent per token"),
        ((1,), (0,), 0, "-1 for the root"),
        ((1, 2), (-1,), 0, "one parent per token"),
        ((1, 2), (-1, 1), 0, "before its child"),
        ((1, 2), (-1, -1), 0, "before its child"),
        ((1, 2, 2), (-1, 0, 0), 0, "siblings must differ"),
        ((1, 2), (-1, 0), 2, "never a lookahead row"),
        ((1, 2), (-1, 0), -1, "never a lookahead row"),
    ],
)
def test_what_is_no_tree_is_refused(
    tokens: tuple[int, ...], parents: tuple[int, ...], lookahead: int, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        DraftTree(tokens, parents, lookahead)


def test_only_draft_rows_must_differ() -> None:
    """A window may hold a token twice under one parent: none of its rows is ever accepted."""
    assert DraftTree((1, 2, 2, 2), (-1, 0, 0, 0), 2).children(0) == (1,)
