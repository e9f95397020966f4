"""A language model that is a table: logits of the last two tokens of a row's own path.

No forward pass to wait for, every probability known, and a context that notices any error of
position, path or cache: read a row behind the wrong tokens and other logits come back.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.lm.base import FeatureTap, LMOutput
from specviz.tree import DraftTree


class TableCache:
    """`lm.base.KVCache` that caches tokens."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.tokens: tuple[int, ...] = ()
        self.pending: tuple[int, ...] = ()

    @property
    def length(self) -> int:
        return len(self.tokens)

    def open(self, tokens: Sequence[int]) -> None:
        assert len(self.tokens) + len(tokens) <= self.capacity, "no room for the pass"
        self.pending = tuple(tokens)

    def keep(self, rows: Sequence[int]) -> None:
        self.tokens += tuple(self.pending[row] for row in rows)
        self.pending = ()

    def crop(self, length: int) -> None:
        assert 0 <= length <= len(self.tokens)
        self.tokens, self.pending = self.tokens[:length], ()

    def clone(self) -> TableCache:
        twin = TableCache(self.capacity)
        twin.tokens = self.tokens
        return twin


class TableLM:
    """`lm.base.LanguageModel`; table (V, V, V): logits after the tokens (before last, last)."""

    hidden_size = 4
    num_layers = 4
    num_parameters = 1_000_000
    device = torch.device("cpu")
    dtype = torch.float32
    path = "a table"

    def __init__(self, table: Tensor, max_context: int = 256) -> None:
        self.table = table
        self.vocab_size = table.shape[-1]
        self.max_context = max_context
        self.num_reads = 0

    def new_cache(self, capacity: int) -> TableCache:
        return TableCache(capacity)

    def prefill(
        self, tokens: Sequence[int], cache: TableCache, taps: Sequence[FeatureTap] = ()
    ) -> Tensor | None:
        cache.open(tokens)
        cache.keep(range(len(tokens)))
        return None

    def read(self, tree: DraftTree, cache: TableCache, taps: Sequence[FeatureTap] = ()) -> LMOutput:
        self.num_reads += 1
        cache.open(tree.tokens)
        before = cache.tokens[-1] if cache.tokens else 0
        ids = [before if p < 0 else tree.tokens[p] for p in tree.parents]
        return LMOutput(self.table[ids, list(tree.tokens)], None)

    def after(self, text: Sequence[int]) -> Tensor:
        """(V,) logits that follow `text`."""
        return self.table[text[-2] if len(text) > 1 else 0, text[-1]]

    def embed(self, tokens: Tensor) -> Tensor:
        return torch.zeros(len(tokens), self.hidden_size)

    def head(self, hidden: Tensor) -> Tensor:
        return torch.zeros(len(hidden), self.vocab_size)


def random_table(size: int, *, seed: int = 0, spread: float = 1.5) -> TableLM:
    """A table of normal logits."""
    rng = torch.Generator().manual_seed(seed)
    return TableLM(spread * torch.randn(size, size, size, generator=rng))


def blurred(lm: TableLM, *, seed: int = 1, spread: float = 1.0) -> TableLM:
    """A table that is right often, not always: a draft model of `lm`."""
    rng = torch.Generator().manual_seed(seed)
    noise = spread * torch.randn(lm.table.shape, generator=rng)
    return TableLM(lm.table + noise, lm.max_context)
