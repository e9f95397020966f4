"""The tree-attention mask as the page shows it: which rows each row may attend to.

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
