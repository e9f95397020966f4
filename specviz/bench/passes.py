"""Passes of a language model, compared. Knows `LanguageModel` and nothing of lanes.

Torch is not imported; the model comes from whoever measures. What passes cost is `lm.reads`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specviz.tree import DraftTree

if TYPE_CHECKING:
    from torch import Tensor

    from specviz.lm.base import KVCache, LanguageModel

START_STEP = 4  # tokens between two reads that are compared with one-row decoding


@dataclass(frozen=True, slots=True)
class ReadShape:
    """The true continuation `depth` tokens deep, each beside `num_decoys` siblings read before it."""

    depth: int
    num_decoys: int

    @property
    def num_rows(self) -> int:
        return 1 + self.depth * (1 + self.num_decoys)

    @property
    def name(self) -> str:
        if self.num_decoys == 0:
            return f"chain of {self.num_rows}"
        return f"tree of {self.num_rows}, {self.depth} deep"


@dataclass(frozen=True, slots=True)
class Equality:
    """Rows of reads of one shape, compared with the same rows read one at a time."""

    shape: ReadShape
    num_compared: int
    num_equal: int  # all V logits, bit for bit
    num_flips: int  # rows whose likeliest token is another


def compare_reads(
    lm: LanguageModel, prompt: Sequence[int], num_tokens: int, shapes: Sequence[ReadShape]
) -> list[Equality]:
    """Decode greedily one row at a time, then read the same text again in larger passes."""
    cache = lm.new_cache(len(prompt) + num_tokens + max(shape.num_rows for shape in shapes))
    lm.prefill(prompt[:-1], cache)
    text = [prompt[-1]]  # the root, then the answer
    rows: list[Tensor] = []  # (V,) logits after each of them
    for _ in range(num_tokens):
        logits = lm.read(DraftTree.chain(text[-1]), cache).logits[0]
        cache.keep((0,))
        rows.append(logits)
        text.append(int(logits.argmax()))
    found = {shape: Equality(shape, 0, 0, 0) for shape in shapes}
    for start in reversed(range(0, num_tokens, START_STEP)):  # a read spoils the cache behind it
        for shape in shapes:
            if start + shape.depth < num_tokens:
                cache.crop(len(prompt) - 1 + start)
                found[shape] = _compared(lm, cache, text[start:], rows[start:], found[shape])
    return list(found.values())


def _compared(
    lm: LanguageModel, cache: KVCache, text: list[int], rows: list[Tensor], so_far: Equality
) -> Equality:
    tree, path = true_path_tree(so_far.shape, text, lm.vocab_size)
    logits = lm.read(tree, cache).logits
    pairs = [(logits[row], rows[depth]) for depth, row in enumerate(path)]
    return Equality(
        so_far.shape,
        so_far.num_compared + len(pairs),
        so_far.num_equal + sum(ours.equal(one) for ours, one in pairs),
        so_far.num_flips + sum(int(ours.argmax() != one.argmax()) for ours, one in pairs),
    )


def true_path_tree(
    shape: ReadShape, text: Sequence[int], vocab_size: int
) -> tuple[DraftTree, tuple[int, ...]]:
    """The tree, and the rows on which `text` lies: the root and one per level."""
    tokens, parents, path = [text[0]], [-1], [0]
    for token in text[1 : shape.depth + 1]:
        level = [*_decoys(token, shape.num_decoys, vocab_size), token]
        parents += [path[-1]] * len(level)
        tokens += level
        path.append(len(tokens) - 1)
    return DraftTree(tuple(tokens), tuple(parents)), tuple(path)


def _decoys(token: int, count: int, vocab_size: int) -> Iterator[int]:
    return ((token + 1 + offset) % vocab_size for offset in range(count))
