"""A lean forward pass on CPU for Llama-like models: bf16 weights, packed once, few operations.

The second implementation behind `lm.base.LanguageModel`; `plain` is the reference it is compared
with. It saves memory traffic and operator calls, both of which bound decoding on a CPU:
queries, keys and values from one product, activations and residual sums fused into the linear
layers, keys and values in one preallocated buffer that is compacted in place.
Rows do not depend on each other: the linear layers promise it, and attention is written for it. A
tree read then gives bit for bit what one-row decoding gives; `bench engine` reports how often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.lm.attention import additive_mask, causal_rows, visible_rows
from specviz.lm.base import FeatureTap, KVCache, LMOutput
from specviz.lm.linear import Linear
from specviz.lm.packed_attention import Attention, HeadShape, Rotation
from specviz.lm.packed_cache import PackedCache
from specviz.tree import DraftTree

# n = rows of the pass, L = cached tokens, H = hidden size, F = width of all tapped features

PREFILL_CHUNK = 256  # rows per pass; the mask of a chunk is chunk x (cached + chunk)


@dataclass(frozen=True, slots=True)
class PackedLayer:
    input_norm: DoubledNorm
    qkv: Linear  # queries, keys and values in one product, dimensions as `Rotation` wants them
    output: Linear
    mlp_norm: DoubledNorm
    gate: Linear
    up: Linear
    down: Linear


class DoubledNorm:
    """RMSNorm in two operator calls: layer norm of (x, -x) has mean 0 and the same scale.

    mean((x, -x)^2) = mean(x^2), so its first half is x / sqrt(mean(x^2) + eps) * weight exactly.
    """

    def __init__(self, weight: Tensor, eps: float) -> None:
        self.weight = torch.stack((weight, weight))
        self.signs = torch.tensor([[1.0], [-1.0]], dtype=weight.dtype)
        self.eps = eps

    def __call__(self, x: Tensor) -> Tensor:
        doubled = x.unsqueeze(1) * self.signs
        normed = F.layer_norm(doubled, self.weight.shape, self.weight, None, self.eps)
        return normed[:, 0].contiguous()  # once here, not in each linear layer that reads it


@dataclass(frozen=True, slots=True)
class PackedWeights:
    heads: HeadShape
    embedding: Tensor  # (V, H) bf16
    layers: tuple[PackedLayer, ...]
    final_norm: DoubledNorm
    head: Linear
    rotation: Rotation
    vocab_size: int
    num_parameters: int
    max_context: int


class PackedLM:
    """`LanguageModel` over packed weights; see `packed_loading` for where they come from."""

    device = torch.device("cpu")
    dtype = torch.bfloat16

    def __init__(self, weights: PackedWeights, path: str) -> None:
        self.weights = weights
        self.path = path
        self.vocab_size = weights.vocab_size
        self.hidden_size = weights.embedding.shape[1]
        self.num_layers = len(weights.layers)
        self.num_parameters = weights.num_parameters
        self.max_context = weights.max_context

    def new_cache(self, capacity: int) -> PackedCache:
        heads = self.weights.heads
        return PackedCache(self.num_layers, heads.num_kv_heads, capacity, heads.head_size)

    def settle(self, cache: KVCache, taps: Sequence[FeatureTap] = ()) -> None:
        """Nothing: any cache can be read into at any time."""

    @torch.inference_mode()
    def prefill(
        self, tokens: Sequence[int], cache: KVCache, taps: Sequence[FeatureTap] = ()
    ) -> Tensor | None:
        features = []
        for start in range(0, len(tokens), PREFILL_CHUNK):
            chunk = tokens[start : start + PREFILL_CHUNK]
            depths, visible = torch.arange(len(chunk)), causal_rows(len(chunk))
            hidden, tapped = self._forward(chunk, depths, visible, cache, taps)
            cache.keep(range(len(hidden)))
            features.append(tapped)
        if not taps:
            return None
        nothing = torch.empty(0, self.hidden_size * len(taps), dtype=self.dtype)
        return torch.cat([nothing, *features])

    @torch.inference_mode()
    def read(self, tree: DraftTree, cache: KVCache, taps: Sequence[FeatureTap] = ()) -> LMOutput:
        visible = causal_rows(len(tree)) if tree.is_chain else visible_rows(tree)
        depths = torch.tensor(tree.depths)
        hidden, features = self._forward(tree.tokens, depths, visible, cache, taps)
        return LMOutput(self.weights.head(hidden), features if taps else None)

    @torch.inference_mode()
    def embed(self, tokens: Tensor) -> Tensor:
        return self.weights.embedding[tokens]

    @torch.inference_mode()
    def head(self, hidden: Tensor) -> Tensor:
        return self.weights.head(hidden)

    def _forward(
        self,
        tokens: Sequence[int],
        depths: Tensor,
        visible: Tensor,
        cache: KVCache,
        taps: Sequence[FeatureTap],
    ) -> tuple[Tensor, Tensor]:
        """(n, H) after the final norm, and the (n, F) tapped features ((n, 0) without taps)."""
        assert isinstance(cache, PackedCache), "a model reads into a cache it made itself"
        weights = self.weights
        hidden = weights.embedding[torch.tensor(tokens)]
        boundaries = [hidden]  # the input of layer i stands at i
        attention = self._attention(depths, visible, cache)
        writes, keys, values = cache.open(len(tokens))
        for i, layer in enumerate(weights.layers):
            fused = layer.qkv(layer.input_norm(hidden))
            attended = attention.attend(fused, writes[i], keys[i], values[i])
            hidden = layer.output.plus(attended, hidden)
            normed = layer.mlp_norm(hidden)
            hidden = layer.down.plus(layer.up.times(normed, layer.gate.silu(normed)), hidden)
            if taps:
                boundaries.append(hidden)
        normed = weights.final_norm(hidden)
        return normed, _tapped(boundaries, normed, taps)

    def _attention(self, depths: Tensor, visible: Tensor, cache: PackedCache) -> Attention:
        mask = additive_mask(visible, cache.length, dtype=torch.float32, device=self.device)
        factors = self.weights.rotation.at(depths + cache.length, cache.length + len(depths))
        return Attention(self.weights.heads, factors, mask[0, 0], dtype=self.dtype)


def _tapped(boundaries: list[Tensor], normed: Tensor, taps: Sequence[FeatureTap]) -> Tensor:
    if not taps:
        return normed[:, :0]
    return torch.cat([_feature(boundaries, normed, tap) for tap in taps], dim=-1)


def _feature(boundaries: list[Tensor], normed: Tensor, tap: FeatureTap) -> Tensor:
    if tap.side == "normed":
        return normed
    return boundaries[tap.layer + (tap.side == "output")]
