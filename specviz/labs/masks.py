"""One pass over a tree against a pass per path, on a transformer of NumPy's size.

Two layers of attention with random weights, float64: enough for every logit to depend on every
token that a row may see and on where it believes to stand. No training, no meaning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from specviz.labs.source import source_of
from specviz.tree import DraftTree
from specviz.words import Refusal, message

Array: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]  # [row, seen]
Break: TypeAlias = Literal["none", "causal", "everything", "parent_only", "index"]
BREAKS: tuple[Break, ...] = get_args(Break)
NUM_TOKENS, WIDTH, NUM_LAYERS, NUM_HEADS = 48, 24, 2, 3
CONTEXT = (5, 17, 2, 29)  # committed tokens before the root
MAX_ROWS = 64
TOLERANCE = 1e-9  # of float64: the same sums in another order


@dataclass(frozen=True, slots=True)
class MaskResult:
    tree: DraftTree
    visible: Mask  # (N, N) rows of the tree among themselves
    positions: tuple[int, ...]  # (N,)
    differences: tuple[float, ...]  # (N,) largest difference of a logit from the row's own pass
    num_sequential: int  # passes that were needed without a mask

    @property
    def largest(self) -> float:
        return max(self.differences)

    @property
    def is_right(self) -> bool:
        return self.largest < TOLERANCE


def read_parents(text: str) -> DraftTree:
    """A tree from "-1, 0, 0, 1": the parent of each row. Refusal: what is wrong with it."""
    words = [word for word in re.split(r"[\s,;]+", text.strip("[]() \n\t")) if word]
    if not all(re.fullmatch(r"-?\d{1,4}", word) for word in words) or not words:
        raise Refusal(message("labs.refusal.parents_text"))
    parents = tuple(int(word) for word in words)
    if len(parents) > MAX_ROWS:
        raise Refusal(message("labs.refusal.rows", most=MAX_ROWS, value=len(parents)))
    if parents[0] != -1:
        raise Refusal(message("labs.refusal.root", value=parents[0]))
    for row, parent in enumerate(parents[1:], start=1):
        if not 0 <= parent < row:
            raise Refusal(message("labs.refusal.parent", row=row, most=row - 1, value=parent))
    return with_parents(parents)


def with_parents(parents: tuple[int, ...]) -> DraftTree:
    """A tree of that form; every row has a token of its own."""
    return DraftTree(tuple(range(len(parents))), parents)


def read_cells(text: str, num_rows: int) -> tuple[tuple[int, int], ...]:
    """Cells of the mask to turn over, from "4-2, 7-1": row and the row it looks at."""
    cells = []
    for word in re.split(r"[\s,;]+", text.strip()):
        if not word:
            continue
        found = re.fullmatch(r"(\d{1,3})-(\d{1,3})", word)
        if not found or max(map(int, found.groups())) >= num_rows:
            raise Refusal(message("labs.refusal.cell", value=word[:20], most=num_rows - 1))
        cells.append((int(found[1]), int(found[2])))
    return tuple(cells)


def tree_mask(tree: DraftTree) -> Mask:
    """(N, N) row i sees row j if j lies on the path from the root to i."""
    visible = np.zeros((len(tree), len(tree)), dtype=bool)
    for row, parent in enumerate(tree.parents):
        if parent >= 0:
            visible[row] = visible[parent]  # whatever the parent sees, and the parent saw itself
        visible[row, row] = True
    return visible


def broken_mask(tree: DraftTree, broken: Break) -> Mask:
    visible, size = tree_mask(tree), len(tree)
    if broken == "causal":
        return np.tri(size, dtype=bool)  # rows of other branches are seen
    if broken == "everything":
        return np.ones((size, size), dtype=bool)
    if broken == "parent_only":
        visible = np.eye(size, dtype=bool)
        for row, parent in enumerate(tree.parents[1:], start=1):
            visible[row, parent] = True
    return visible


class TinyModel:
    """Token and position in, logits out."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.embedding = rng.normal(size=(NUM_TOKENS, WIDTH))
        shape = (NUM_LAYERS, 3, WIDTH, WIDTH)
        self.query_key_value = rng.normal(size=shape) / WIDTH**0.5
        self.mix = rng.normal(size=(NUM_LAYERS, WIDTH, WIDTH)) / WIDTH**0.5

    def read(self, tokens: list[int], positions: list[int], visible: Mask) -> Array:
        """(N, V) logits of one pass over N rows, each seeing the rows that `visible` allows."""
        x = self.embedding[tokens] + _place(np.array(positions))
        for weights, mix in zip(self.query_key_value, self.mix, strict=True):
            query, key, value = (_heads(_even(x) @ w) for w in weights)
            scores = query @ key.swapaxes(-1, -2) / (WIDTH / NUM_HEADS) ** 0.5
            scores = np.where(visible, scores, -np.inf)
            chances = np.exp(scores - scores.max(-1, keepdims=True))
            chances /= chances.sum(-1, keepdims=True)
            seen = (chances @ value).swapaxes(0, 1).reshape(len(tokens), WIDTH)
            x = x + np.tanh(seen @ mix)
        logits: Array = _even(x) @ self.embedding.T
        return logits


def _heads(x: Array) -> Array:
    return x.reshape(len(x), NUM_HEADS, -1).swapaxes(0, 1)


def _even(x: Array) -> Array:
    even: Array = x / np.sqrt((x * x).mean(-1, keepdims=True))
    return even


def _place(positions: npt.NDArray[np.int64]) -> Array:
    """(N, H) sines and cosines of where each row stands."""
    pace = 10.0 ** (-np.arange(WIDTH // 2) / 4)
    angle = positions[:, None] * pace
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1)


def one_pass(model: TinyModel, tree: DraftTree, visible: Mask, places: list[int]) -> Array:
    """(N, V) all rows of the tree at once, behind the context, which every row sees."""
    ahead, rows = len(CONTEXT), len(tree)
    whole = np.zeros((ahead + rows, ahead + rows), dtype=bool)
    whole[:ahead, :ahead] = np.tri(ahead, dtype=bool)
    whole[ahead:, :ahead] = True
    whole[ahead:, ahead:] = visible
    tokens = [*CONTEXT, *(token % NUM_TOKENS for token in tree.tokens)]
    return model.read(tokens, [*range(ahead), *places], whole)[ahead:]


def its_own_pass(model: TinyModel, tree: DraftTree, row: int) -> Array:
    """(V,) the row as plain decoding would read it: context and its path alone, causal."""
    tokens = [*CONTEXT, *(tree.tokens[i] % NUM_TOKENS for i in tree.path(row))]
    visible = np.tri(len(tokens), dtype=bool)
    last: Array = model.read(tokens, list(range(len(tokens))), visible)[-1]
    return last


def compare(
    tree: DraftTree, seed: int, broken: Break = "none", flipped: tuple[tuple[int, int], ...] = ()
) -> MaskResult:
    """One pass under a mask against one pass for each row."""
    model, ahead = TinyModel(seed), len(CONTEXT)
    visible = broken_mask(tree, broken)
    for row, seen in flipped:
        visible[row, seen] = not visible[row, seen]
    if not visible.any(axis=1).all():
        row = int((~visible.any(axis=1)).argmax())
        raise Refusal(message("labs.refusal.blind", row=row))
    offsets = range(len(tree)) if broken == "index" else tree.depths
    places = [ahead + offset for offset in offsets]
    together = one_pass(model, tree, visible, places)
    alone = [its_own_pass(model, tree, row) for row in range(len(tree))]
    differences = [float(np.abs(a - b).max()) for a, b in zip(together, alone, strict=True)]
    return MaskResult(tree, visible, tuple(places), tuple(differences), len(tree))


def code() -> str:
    return source_of(tree_mask, one_pass, its_own_pass)
