"""Any decoder of transformers as a pass of fixed shape: its own forward, over a cache of ours.

Slower than `lean`, which is written for a few families; what both give is compared with the plain
path when a model is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from specviz.lm.base import FeatureTap
from specviz.lm.lean import Step
from specviz.lm.plain import PlainLM, side_by_side, tapped
from specviz.lm.static_cache import CacheShape
from specviz.tree import DraftTree
from specviz.words import word

# N = rows of the pass, M = keys they may look at, K = key heads, D = head size


class StockBody:
    """The decoder of a plain model, unmodified, by public arguments."""

    def __init__(self, plain: PlainLM) -> None:
        self._plain = plain

    def hidden(self, step: Step, taps: Sequence[FeatureTap]) -> tuple[Tensor, Tensor | None]:
        decoder, num_layers = self._plain.decoder, self._plain.num_layers
        with tapped(decoder, num_layers, taps) as found:
            output = decoder(
                input_ids=step.tokens[None],
                attention_mask=step.mask[None, None],
                position_ids=step.positions[None],
                cache=Cache(layers=[_StepLayer(step, layer) for layer in range(num_layers)]),
                use_cache=True,
            )
        return output.last_hidden_state[0], side_by_side(found, taps)


class _StepLayer(CacheLayerMixin):  # type: ignore[misc]  # transformers is untyped here
    """One layer's share of the slot, for one pass."""

    is_sliding = False

    def __init__(self, step: Step, layer: int) -> None:
        super().__init__()
        self.step, self.slot = step, step.slot[layer]
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing: the slot is there before any pass."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """The pass's rows join the slot; (1, K, M, D) views of all keys and values."""
        del args, kwargs
        keys, values = self.slot[None, :, : self.step.mask.shape[1]].chunk(2, dim=1)
        keys.index_copy_(2, self.step.places, key_states)
        values.index_copy_(2, self.step.places, value_states)
        return keys, values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        del query_length
        return self.step.mask.shape[1], 0

    def get_seq_length(self) -> int:
        """Never needed: positions and mask are given."""
        return 0

    def get_max_length(self) -> int:
        return self.step.mask.shape[1]


def cache_shape(plain: PlainLM) -> CacheShape | str:
    """What the layers of a model keep of a token, found by reading one; or why no slot holds it."""
    cache = plain.new_cache(1)
    plain.read(DraftTree.chain(0), cache)
    sizes = {tuple(x.shape) for layer in cache.layers for x in (layer.keys, layer.values)}
    places = {layer.keys.device for layer in cache.layers}
    if len(sizes) > 1:
        return word("path.uneven_layers")
    if places != {plain.device}:
        return word("path.spread", count=len(places))
    _, num_kv_heads, _, head_size = sizes.pop()
    return CacheShape(plain.num_layers, num_kv_heads, head_size, plain.dtype, plain.device)
