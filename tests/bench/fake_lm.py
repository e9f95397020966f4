"""A language model whose logits are a known function of the text, and whose passes take known time.

Just enough of `lm.base.LanguageModel` for what times and compares passes. Nothing is learnt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from specviz.lm.base import LMOutput
from specviz.tree import DraftTree

VOCABULARY = 64


@dataclass
class Clock:
    """Stands in for `time.perf_counter`."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class FakeCache:
    tokens: list[int] = field(default_factory=list)
    pending: DraftTree | None = None

    @property
    def length(self) -> int:
        return len(self.tokens)

    def keep(self, rows: Sequence[int]) -> None:
        assert self.pending is not None
        self.tokens += [self.pending.tokens[row] for row in rows]

    def crop(self, length: int) -> None:
        assert length <= len(self.tokens)
        del self.tokens[length:]


@dataclass
class FakeLM:
    """Row logits follow from the text up to the row; rows from `first_wrong_row` on are off.

    A wrong row differs a little where `is_flipped` is off, and in its likeliest token where on.
    A pass takes 10 ms and 1 ms more for every row, times `slowness`, which grows with every pass.
    """

    first_wrong_row: int = 1000
    is_flipped: bool = False
    clock: Clock = field(default_factory=Clock)
    slowness: float = 1.0
    drift: float = 1.0
    vocab_size: int = VOCABULARY
    num_parameters: int = 1
    max_context: int = 1024
    path: str = "a stand-in"
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    num_rows_read: list[int] = field(default_factory=list)

    def new_cache(self, capacity: int) -> FakeCache:
        return FakeCache()

    def prefill(self, tokens: Sequence[int], cache: FakeCache) -> None:
        cache.tokens += tokens

    def read(self, tree: DraftTree, cache: FakeCache) -> LMOutput:
        cache.pending = tree
        self.num_rows_read.append(len(tree))
        self.clock.now += self.slowness * (0.010 + 0.001 * len(tree))
        self.slowness *= self.drift
        rows = [self._logits(cache, tree, row) for row in range(len(tree))]
        return LMOutput(torch.stack(rows), None)

    def _logits(self, cache: FakeCache, tree: DraftTree, row: int) -> torch.Tensor:
        text = (*cache.tokens, tree.tokens[0], *tree.path_tokens(row))
        logits = torch.arange(VOCABULARY).float() / VOCABULARY
        best = hash(text) % VOCABULARY
        logits[best] += 10
        if row >= self.first_wrong_row:
            logits[0] -= 1e-6
            if self.is_flipped:
                logits[(best + 1) % VOCABULARY] += 20
        return logits
