"""A lean forward pass on CPU for Llama-like models: bf16 weights, packed once, few operations.

The second implementation behind `lm.base.LanguageModel`; `plain` is the reference it is compared
with. It saves memory traffic and operator calls, both of which bound decoding on a CPU:
queries, keys and values from one product, activations and residual sums fused into the linear
layers, keys and values in one preallocated buffer that is compacted in place.
Rows do not depend on each other: the linear layers promise it, and attention is written so that
a masked key adds an exact zero at its place in every sum (see `_attend`). A tree read then gives
bit for bit what one-row decoding gives; `bench engine` reports how often that holds.
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
from specviz.lm.packed_cache import PackedCache
from specviz.tree import DraftTree

# n = rows of the pass, L = cached tokens, H = hidden size, D = head size,
# Q / K = number of query / key-value heads, G = Q / K

PREFILL_CHUNK = 256  # rows per pass; the mask of a chunk is chunk x (cached + chunk)


@dataclass(frozen=True, slots=True)
class PackedLayer:
    input_norm: DoubledNorm
    qkv: Linear  # (n, H) -> (n, (Q + 2K) D), query and key dimensions interleaved for `rotate`
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
        return F.layer_norm(doubled, self.weight.shape, self.weight, None, self.eps)[:, 0]


class Rotation:
    """Rotary position embedding as one complex product per row (arXiv:2104.09864).

    Dimensions come interleaved, (d0, d_half, d1, d_half+1, ...): the packed query and key weights
    are permuted so. Value heads are multiplied by 1, so that one product serves all heads.
    """

    def __init__(self, inverse_frequencies: Tensor, scaling: float, heads: tuple[int, int]) -> None:
        self.inverse_frequencies = inverse_frequencies.float()
        self.scaling = scaling
        self.num_rotated, self.num_values = heads
        self.table = torch.empty(0, sum(heads), len(inverse_frequencies), dtype=torch.complex64)

    def at(self, positions: Tensor) -> Tensor:
        """(n, Q + 2K, D / 2) complex factors; the table grows to the largest position asked for."""
        if (needed := int(positions.max()) + 1) > len(self.table):
            self.table = self._make_table(max(needed, 2 * len(self.table), 512))
        return self.table[positions]

    def _make_table(self, length: int) -> Tensor:
        angles = torch.outer(torch.arange(length).float(), self.inverse_frequencies)
        turned = torch.polar(torch.full_like(angles, self.scaling), angles).unsqueeze(1)
        still = torch.ones_like(turned)
        parts = [turned.expand(-1, self.num_rotated, -1), still.expand(-1, self.num_values, -1)]
        return torch.cat(parts, dim=1).contiguous()


def rotate(heads: Tensor, factors: Tensor) -> Tensor:
    """(n, heads, D) float32, each pair of neighbours turned by its complex factor."""
    pairs = torch.view_as_complex(heads.float().view(*heads.shape[:2], -1, 2))
    return torch.view_as_real(pairs * factors).flatten(-2)


@dataclass(frozen=True, slots=True)
class PackedShape:
    hidden_size: int
    num_query_heads: int
    num_kv_heads: int
    head_size: int

    @property
    def num_heads(self) -> int:
        """Query, key and value heads, as they leave the fused product."""
        return self.num_query_heads + 2 * self.num_kv_heads

    @property
    def group(self) -> int:
        return self.num_query_heads // self.num_kv_heads


@dataclass(frozen=True, slots=True)
class PackedWeights:
    shape: PackedShape
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
        self.hidden_size = weights.shape.hidden_size
        self.num_layers = len(weights.layers)
        self.num_parameters = weights.num_parameters
        self.max_context = weights.max_context

    def new_cache(self, capacity: int) -> PackedCache:
        shape = self.weights.shape
        return PackedCache(self.num_layers, shape.num_kv_heads, capacity, shape.head_size)

    @torch.inference_mode()
    def prefill(
        self, tokens: Sequence[int], cache: KVCache, taps: Sequence[FeatureTap] = ()
    ) -> Tensor | None:
        features = []
        for start in range(0, len(tokens), PREFILL_CHUNK):
            chunk = tokens[start : start + PREFILL_CHUNK]
            depths = torch.arange(len(chunk))
            mask = self._mask(causal_rows(len(chunk)), cache.length)
            hidden, tapped = self._forward(chunk, depths, mask, cache, taps)
            cache.keep(range(len(hidden)))
            features.append(tapped)
        return torch.cat(features) if taps and features else None

    @torch.inference_mode()
    def read(self, tree: DraftTree, cache: KVCache, taps: Sequence[FeatureTap] = ()) -> LMOutput:
        num_rows = len(tree)
        seen = causal_rows(num_rows) if tree.is_chain else visible_rows(tree)
        mask = self._mask(seen, cache.length)
        depths = torch.tensor(tree.depths)
        hidden, features = self._forward(tree.tokens, depths, mask, cache, taps)
        return LMOutput(self.weights.head(hidden), features if taps else None)

    @torch.inference_mode()
    def embed(self, tokens: Tensor) -> Tensor:
        return self.weights.embedding[tokens]

    @torch.inference_mode()
    def head(self, hidden: Tensor) -> Tensor:
        return self.weights.head(hidden)

    def _mask(self, visible: Tensor, num_cached: int) -> Tensor:
        """(1, G n, L + n): the query heads that share a key head are stacked as further rows."""
        mask = additive_mask(visible, num_cached, dtype=torch.float32, device=self.device)[0]
        return mask.repeat(1, self.weights.shape.group, 1)

    def _forward(
        self,
        tokens: Sequence[int],
        depths: Tensor,
        mask: Tensor,
        cache: KVCache,
        taps: Sequence[FeatureTap],
    ) -> tuple[Tensor, Tensor]:
        """(n, H) after the final norm, and the (n, F) tapped features ((n, 0) without taps)."""
        assert isinstance(cache, PackedCache), "a model reads into a cache it made itself"
        weights = self.weights
        factors = weights.rotation.at(depths + cache.length)
        hidden = weights.embedding[torch.tensor(tokens)]
        boundaries = [hidden]  # the input of layer i stands at i
        writes, keys, values = cache.open(len(tokens))
        for i, layer in enumerate(weights.layers):
            fused = layer.qkv(layer.input_norm(hidden))
            heads = rotate(fused.view(len(fused), weights.shape.num_heads, -1), factors)
            writes[i].copy_(heads[:, weights.shape.num_query_heads :])
            attended = self._attend(heads, keys[i], values[i], mask)
            hidden = layer.output.plus(attended, hidden)
            normed = layer.mlp_norm(hidden)
            hidden = layer.down.plus(layer.up.times(normed, layer.gate.silu(normed)), hidden)
            if taps:
                boundaries.append(hidden)
        normed = weights.final_norm(hidden)
        return normed, _tapped(boundaries, normed, taps)

    def _attend(self, heads: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """(n, Q D) bf16. Grouped queries are folded into rows, so keys are never repeated.

        The sum of weights is the last column of the product with the values, whose own last
        column is 1: both run over the keys one after the other, so that a masked key, weight 0,
        changes neither. A softmax would add the weights in blocks, and round differently.
        """
        shape, num_rows = self.weights.shape, len(heads)
        grouped = (num_rows, shape.num_kv_heads, shape.group, shape.head_size)
        queries = heads[:, : shape.num_query_heads].reshape(grouped).permute(1, 2, 0, 3)
        queries = queries.reshape(shape.num_kv_heads, -1, shape.head_size)
        scale = shape.head_size**-0.5
        scores = torch.baddbmm(mask, queries, keys.transpose(1, 2), alpha=scale)
        weights = scores.sub_(scores.amax(-1, keepdim=True)).exp_()
        sums = torch.bmm(weights, values)
        mixed = (sums[..., :-1] / sums[..., -1:]).view(
            shape.num_kv_heads, shape.group, num_rows, -1
        )
        return mixed.permute(2, 0, 1, 3).to(self.dtype).reshape(num_rows, -1)


def _tapped(boundaries: list[Tensor], normed: Tensor, taps: Sequence[FeatureTap]) -> Tensor:
    if not taps:
        return normed[:, :0]
    return torch.cat([_feature(boundaries, normed, tap) for tap in taps], dim=-1)


def _feature(boundaries: list[Tensor], normed: Tensor, tap: FeatureTap) -> Tensor:
    if tap.side == "normed":
        return normed
    return boundaries[tap.layer + (tap.side == "output")]
