"""What a language model is to the rest of the project: read rows of a tree, keep some of them.

Three implementations stand behind these protocols: `plain` (any transformers decoder, public
arguments only), `packed` (a lean forward pass for Llama-like models on CPU) and `static` (passes of
fixed shape over the plain one's weights, captured as CUDA graphs).
Batch is 1 and has no axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from specviz.tree import DraftTree

# N = rows of a pass, root included; L = cached tokens before it; V = vocabulary rows of the
# head; H = hidden size; F = width of all tapped features side by side.


@dataclass(frozen=True, slots=True)
class FeatureTap:
    """Which hidden state a drafter reads: a layer's input or output, or the final norm's output.

    `layer` counts from 0; the input of layer i is the output of layer i - 1. For "normed" it is
    ignored.
    """

    side: Literal["input", "output", "normed"]
    layer: int = 0


@dataclass(frozen=True, slots=True)
class LMOutput:
    logits: Tensor  # (N, V), compute dtype
    features: Tensor | None  # (N, F), taps side by side in the order asked for


class KVCache(Protocol):
    """Keys and values of the committed tokens but the root."""

    @property
    def length(self) -> int:
        """L: committed rows. Rows of a pass count only once they are kept."""

    def keep(self, rows: Sequence[int]) -> None:
        """Commit these rows of the last pass, in this order (a path from the root); drop the rest."""

    def crop(self, length: int) -> None:
        """Forget every committed row from `length` on."""

    def clone(self) -> KVCache:
        """An independent copy, of the same capacity."""


class LanguageModel(Protocol):
    vocab_size: int  # V: rows of the head, padding included
    hidden_size: int
    num_layers: int
    num_parameters: int
    max_context: int  # tokens it may hold, prompt and answer together
    device: torch.device
    dtype: torch.dtype
    path: str  # which forward pass this is and why it was chosen, for people

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache with room for `capacity` rows, those of a pass in flight included."""

    def settle(self, cache: KVCache, taps: Sequence[FeatureTap] = ()) -> None:
        """Do now what the next read into `cache` would otherwise do first, though it is no part of
        it: let it in where caches take turns, capture passes of a new size."""

    def prefill(
        self, tokens: Sequence[int], cache: KVCache, taps: Sequence[FeatureTap] = ()
    ) -> Tensor | None:
        """(T, F) features or None; the cache grows by the T tokens, all of them committed."""

    def read(self, tree: DraftTree, cache: KVCache, taps: Sequence[FeatureTap] = ()) -> LMOutput:
        """One pass over the tree's N rows, each seeing the cache and its own path.

        The cache holds the rows as pending until `keep`; its length does not change.
        """

    def embed(self, tokens: Tensor) -> Tensor:
        """(n, H) rows of the embedding table, as the first layer gets them."""

    def head(self, hidden: Tensor) -> Tensor:
        """(n, V) logits of hidden states after the final norm."""
