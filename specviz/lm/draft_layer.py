"""One decoder layer of a drafter, over a cache of its own: the layer EAGLE and MTP are made of.

The norm before attention is the caller's, because drafters differ in what they norm. Linear
layers are packed where that exists; attention is the cache's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaConfig

from specviz.lm.checkpoint_files import first_line
from specviz.lm.device import placed_on
from specviz.lm.draft_cache import DraftCache, FixedCache, GrowingCache
from specviz.lm.linear import Linear, best_linear
from specviz.lm.packed import DoubledNorm
from specviz.lm.packed_attention import HeadShape, Rotation
from specviz.lm.packed_loading import ROPE_TYPES, MakeLinear, interleaved, rotation_of

ROPE_BASE = 10_000.0  # where a config.json is silent
# n = rows of a pass, m = keys that `visible` speaks of, H = hidden size


class CachedLayer:
    """Attention and MLP with Llama's tensor names under `prefix`; weights in the compute dtype.

    With biases where there are any, and with Qwen3's norms of queries and keys where there are any.
    Only reads its weights, so one layer may serve several caches.
    """

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        prefix: str,
        *,
        shape: HeadShape,
        eps: float,
        rope: Rotation,
        make: MakeLinear = best_linear,
    ) -> None:
        def linear(name: str) -> Linear:
            return make(tensors[f"{prefix}{name}.weight"], tensors.get(f"{prefix}{name}.bias"))

        norm = tensors[f"{prefix}post_attention_layernorm.weight"]
        self.shape, self.width = shape, len(norm)
        self.dtype, self.device = norm.dtype, norm.device
        with placed_on(self.device):
            speeds = rope.inverse_frequencies.to(self.device)
            self.rope = Rotation(speeds, rope.scaling, shape)
        self.qkv = make(*_fused(tensors, f"{prefix}self_attn.", shape))
        self.head_norms = _head_norms(tensors, f"{prefix}self_attn.", shape, eps)
        self.output = linear("self_attn.o_proj")
        self.gate, self.up, self.down = (linear(f"mlp.{n}_proj") for n in ("gate", "up", "down"))
        self.mlp_norm = norm_of(norm, eps)

    def new_cache(self, capacity: int) -> GrowingCache:
        return GrowingCache(self.shape, self.rope, capacity, self.dtype, self.device)

    def fixed_cache(self, capacity: int) -> FixedCache:
        return FixedCache(self.shape, self.rope, capacity, self.dtype, self.device)

    @torch.inference_mode()
    def run(
        self, x: Tensor, residual: Tensor, depths: Tensor, visible: Tensor, cache: DraftCache
    ) -> Tensor:
        """(n, H). x (n, in): what queries, keys and values are made from; residual (n, H); depths
        (n,) and visible (n, m) as in `DraftCache.attend`.

        The new rows join the cache; crop it to forget them.
        """
        attended = cache.attend(self.head_norms(self.qkv(x)), depths, visible)
        hidden = self.output.plus(attended, residual)
        normed = self.mlp_norm(hidden)
        return self.down.plus(self.up.times(normed, self.gate.silu(normed)), hidden)


def head_shape(tensors: Mapping[str, Tensor], prefix: str, num_heads: int) -> HeadShape:
    """Head size and key heads from the weights: configs are often wrong about them.

    ValueError: the projections do not fit `num_heads` heads, or one another.
    """
    rows = {name: len(tensors[f"{prefix}self_attn.{name}_proj.weight"]) for name in "qkv"}
    size = rows["q"] // num_heads
    width = tensors[f"{prefix}self_attn.o_proj.weight"].shape[1]
    is_whole = rows["q"] == width == size * num_heads and rows["k"] == rows["v"] and size % 2 == 0
    num_kv_heads = rows["k"] // size if size else 0
    if not is_whole or num_kv_heads * size != rows["k"] or num_heads % max(num_kv_heads, 1):
        raise ValueError(
            f"The projections of {prefix}self_attn have {rows['q']}, {rows['k']} and {rows['v']} "
            f"rows for queries, keys and values, which does not fit {num_heads} query heads; "
            "check num_attention_heads in config.json."
        )
    return HeadShape(num_heads, num_kv_heads, size)


def rope_of(config: Mapping[str, Any], shape: HeadShape) -> Rotation:
    """Rotary embedding of a flat Llama-style config.json: base from rope_parameters, else
    rope_theta, else 10,000; scaling from rope_parameters, else rope_scaling.

    ValueError: a scaling that is not known here, changes with the length, or lacks numbers.
    """
    rope = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    old_name = rope.pop("type", "default")
    kind = rope.setdefault("rope_type", old_name)
    if kind not in ROPE_TYPES:
        raise ValueError(
            f"config.json asks for {kind!r} scaling of the rotary positions; known here are "
            f"{', '.join(ROPE_TYPES)}. Choose another drafter."
        )
    if rope.get("rope_theta") is None:
        rope["rope_theta"] = config.get("rope_theta") or ROPE_BASE
    sizes = {
        "hidden_size": shape.num_query_heads * shape.head_size,
        "num_attention_heads": shape.num_query_heads,
        "head_dim": shape.head_size,
    }
    if config.get("max_position_embeddings") is not None:
        sizes["max_position_embeddings"] = config["max_position_embeddings"]
    try:
        return rotation_of(LlamaConfig(**sizes, rope_parameters=rope), shape)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"The {kind} scaling of rotary positions in config.json cannot be used "
            f"({first_line(error)}); fetch the drafter's config.json again."
        ) from error


def norm_of(weight: Tensor, eps: float) -> DoubledNorm:
    """RMSNorm where its weight is."""
    with placed_on(weight.device):
        return DoubledNorm(weight, eps)


class _HeadNorms:
    """RMSNorm of each query head and each key head before they are rotated (Qwen3)."""

    def __init__(self, query: Tensor, key: Tensor, shape: HeadShape, eps: float) -> None:
        """query, key (D,): one weight for all heads."""
        counts = (shape.num_query_heads, shape.num_kv_heads)
        rows = [
            interleaved(weight.float(), shape.head_size).expand(count, -1)
            for weight, count in zip((query, key), counts, strict=True)
        ]
        self.weight, self.shape, self.eps = torch.cat(rows), shape, eps

    def __call__(self, fused: Tensor) -> Tensor:
        """(n, (Q + 2K) D) float32; values as they were."""
        size, num_normed = self.shape.head_size, len(self.weight)
        heads = fused.float().view(len(fused), self.shape.num_heads, size)
        normed = F.rms_norm(heads[:, :num_normed], (size,), eps=self.eps) * self.weight
        return torch.cat([normed, heads[:, num_normed:]], dim=1).flatten(1)


def _head_norms(
    tensors: Mapping[str, Tensor], prefix: str, shape: HeadShape, eps: float
) -> Callable[[Tensor], Tensor]:
    query, key = (tensors.get(f"{prefix}{name}_norm.weight") for name in "qk")
    if query is None or key is None:
        return lambda fused: fused
    return _HeadNorms(query, key, shape, eps)


def _fused(
    tensors: Mapping[str, Tensor], prefix: str, shape: HeadShape
) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of queries, keys and values in one product, dimensions as `Rotation` wants
    them."""
    weight = [tensors[f"{prefix}{name}_proj.weight"] for name in "qkv"]
    bias = [tensors.get(f"{prefix}{name}_proj.bias") for name in "qkv"]
    rows = [
        torch.zeros_like(w[:, 0]) if b is None else b for w, b in zip(weight, bias, strict=True)
    ]
    has_bias = any(b is not None for b in bias)
    return _stacked(weight, shape), _stacked(rows, shape) if has_bias else None


def _stacked(parts: list[Tensor], shape: HeadShape) -> Tensor:
    query, key, value = parts
    turned = (interleaved(rows, shape.head_size) for rows in (query, key))
    return torch.cat([*turned, value])
