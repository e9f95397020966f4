"""Where each row of a round stands, in unit cells: x is the depth, y the line. Pure geometry.

A parent stands on the line of its first child, so the drafter's favourite path runs straight
along the top and each leaf owns the rest of its line. Equal trees get equal places, whatever
their tokens. Lookahead rows stand in a block of their own below.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from specviz.tree import DraftTree


@dataclass(frozen=True, slots=True)
class TreeLayout:
    x: tuple[int, ...]  # (N,)
    y: tuple[int, ...]  # (N,)
    next_cell: tuple[int, int]  # where the target's own token stands, as a last child
    lookahead_y: int | None  # first line of the lookahead block
    width: int  # cells in use
    height: int


def tree_layout(tree: DraftTree, next_parent: int) -> TreeLayout:
    """Cells of every row, and one more for the token the target adds under `next_parent`."""
    parents, num_lookahead_rows = tree.parents, tree.num_lookahead_rows
    size, end = len(parents), len(parents) - num_lookahead_rows
    own = size  # stands for the target's token, a child like any other
    children: dict[int, list[int]] = defaultdict(list)
    depths = [0]
    for row in range(1, size):
        depths.append(depths[parents[row]] + 1)
        if row < end:
            children[parents[row]].append(row)
    children[next_parent].append(own)
    lines, height = _lines(children)
    used: dict[int, int] = defaultdict(int)  # lines taken in the block, by depth
    for row in range(end, size):
        lines[row] = height + used[depths[row]]
        used[depths[row]] += 1
    own_x = depths[next_parent] + 1
    return TreeLayout(
        x=tuple(depths),
        y=tuple(lines[row] for row in range(size)),
        next_cell=(own_x, lines[own]),
        lookahead_y=height if num_lookahead_rows else None,
        width=max(*depths, own_x) + 1,
        height=height + max(used.values(), default=0),
    )


def _lines(children: dict[int, list[int]]) -> tuple[dict[int, int], int]:
    """Line of each row, and how many lines there are. Walks without recursion: chains are long."""
    lines: dict[int, int] = {}
    height = 0
    stack = [0]
    while stack:
        row = stack.pop()
        lines[row] = height
        below = children.get(row)
        if below:
            stack.extend(reversed(below))
        else:
            height += 1
    return lines, height
