"""A language model that is a table: logits of the last two tokens of a row's own path.

Its hidden states are random vectors that belong to those two tokens, a different one for each tap.
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

    hidden_size = 16
    num_layers = 8
    num_parameters = 1_000_000
    device = torch.device("cpu")
    dtype = torch.float32
    path = "a table"

    def __init__(self, table: Tensor, max_context: int = 256) -> None:
        self.table = table
        self.vocab_size = table.shape[-1]
        self.max_context = max_context
        self.num_reads = 0
        rng = torch.Generator().manual_seed(0)
        size = (self.vocab_size, self.hidden_size)
        self.embedding, self.head_weight = torch.randn(2, *size, generator=rng)

    def new_cache(self, capacity: int) -> TableCache:
        return TableCache(capacity)

    def settle(self, cache: TableCache, taps: Sequence[FeatureTap] = ()) -> None:
        """Nothing: there is no slot to sit in."""

    def prefill(
        self, tokens: Sequence[int], cache: TableCache, taps: Sequence[FeatureTap] = ()
    ) -> Tensor | None:
        before = cache.tokens[-1] if cache.tokens else 0
        cache.open(tokens)
        cache.keep(range(len(tokens)))
        return self._features([before, *tokens[:-1]], tokens, taps)

    def read(self, tree: DraftTree, cache: TableCache, taps: Sequence[FeatureTap] = ()) -> LMOutput:
        self.num_reads += 1
        cache.open(tree.tokens)
        before = cache.tokens[-1] if cache.tokens else 0
        ids = [before if p < 0 else tree.tokens[p] for p in tree.parents]
        features = self._features(ids, tree.tokens, taps)
        return LMOutput(self.table[ids, list(tree.tokens)], features)

    def _features(
        self, before: Sequence[int], last: Sequence[int], taps: Sequence[FeatureTap]
    ) -> Tensor | None:
        if not taps:
            return None
        states = self.embedding[list(before)[: len(last)]] - 2 * self.embedding[list(last)]
        return torch.cat([states * (1 + tap.layer) for tap in taps], dim=-1)

    def after(self, text: Sequence[int]) -> Tensor:
        """(V,) logits that follow `text`."""
        return self.table[text[-2] if len(text) > 1 else 0, text[-1]]

    def embed(self, tokens: Tensor) -> Tensor:
        return self.embedding[tokens]

    def head(self, hidden: Tensor) -> Tensor:
        return hidden @ self.head_weight.T


def random_table(size: int, *, seed: int = 0, spread: float = 1.5) -> TableLM:
    """A table of normal logits."""
    rng = torch.Generator().manual_seed(seed)
    return TableLM(spread * torch.randn(size, size, size, generator=rng))


def blurred(lm: TableLM, *, seed: int = 1, spread: float = 1.0) -> TableLM:
    """A table that is right often, not always: a draft model of `lm`."""
    rng = torch.Generator().manual_seed(seed)
    noise = spread * torch.randn(lm.table.shape, generator=rng)
    return TableLM(lm.table + noise, lm.max_context)
