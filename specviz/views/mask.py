"""The tree-attention mask as the page shows it: which rows each row may attend to, and where in the
tree a row stands.

Every row also attends to the whole cached prefix, which the page draws as one column band.
"""

from __future__ import annotations

from specviz.tree import DraftTree


def visible_rows(tree: DraftTree) -> tuple[tuple[int, ...], ...]:
    """(N,) for each row, itself and its ancestors, root first. One pass: parents come first."""
    paths: list[tuple[int, ...]] = []
    for row, parent in enumerate(tree.parents):
        above = paths[parent] if parent >= 0 else ()
        paths.append((*above, row))
    return tuple(paths)


def branches(tree: DraftTree) -> tuple[int, ...]:
    """(N,) which child of its parent each row is, from 0; 0 for the root. Those of a row's ancestors
    and its own name its path, as Medusa's published trees do."""
    counts = [0] * len(tree)
    found = [0]
    for parent in tree.parents[1:]:
        found.append(counts[parent])
        counts[parent] += 1
    return tuple(found)
