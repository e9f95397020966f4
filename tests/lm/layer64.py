"""A Llama decoder layer in float64, whole sequences at once: the truth drafters are held to.

No cache, no fusing, no code of ours: positions and mask are given, everything is recomputed.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * weight.double()


def rotated(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    """x (n, heads, D), halves turned against each other."""
    half = x.shape[-1] // 2
    speeds = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = positions.double()[:, None, None] * speeds
    first, second = x[..., :half], x[..., half:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def layer64(
    tensors: Mapping[str, Tensor],
    prefix: str,
    x: Tensor,
    residual: Tensor,
    *,
    positions: Tensor,
    visible: Tensor,
    heads: int,
    eps: float,
    theta: float,
) -> Tensor:
    """(n, H) for rows x (n, in) and residual (n, H); visible (n, n) bool."""

    def linear(name: str, rows: Tensor) -> Tensor:
        y = rows @ tensors[f"{prefix}{name}.weight"].double().T
        bias = tensors.get(f"{prefix}{name}.bias")
        return y if bias is None else y + bias.double()

    x, residual = x.double(), residual.double()
    num_rows = len(x)
    query = linear("self_attn.q_proj", x).view(num_rows, heads, -1)
    size = query.shape[-1]
    key = linear("self_attn.k_proj", x).view(num_rows, -1, size)
    value = linear("self_attn.v_proj", x).view(num_rows, -1, size)
    query, key = rotated(query, positions, theta), rotated(key, positions, theta)
    mixed = torch.empty_like(query)
    for head in range(heads):
        shared = head // (heads // key.shape[1])
        scores = query[:, head] @ key[:, shared].T / size**0.5
        weights = scores.masked_fill(~visible, -torch.inf).softmax(-1)
        mixed[:, head] = weights @ value[:, shared]
    hidden = residual + linear("self_attn.o_proj", mixed.flatten(1))
    normed = rms_norm(hidden, tensors[f"{prefix}post_attention_layernorm.weight"], eps)
    gate, up = linear("mlp.gate_proj", normed), linear("mlp.up_proj", normed)
    return hidden + linear("mlp.down_proj", gate * gate.sigmoid() * up)


def random_layer(
    prefix: str, hidden: int, width: int, *, inputs: int, kv: int, scale: float, seed: int
) -> dict[str, Tensor]:
    """Random float32 weights: `kv` rows of keys and of values, MLP `width`."""
    rng = torch.Generator().manual_seed(seed)
    shapes = {
        "self_attn.q_proj": (hidden, inputs),
        "self_attn.k_proj": (kv, inputs),
        "self_attn.v_proj": (kv, inputs),
        "self_attn.o_proj": (hidden, hidden),
        "mlp.gate_proj": (width, hidden),
        "mlp.up_proj": (width, hidden),
        "mlp.down_proj": (hidden, width),
    }
    tensors = {
        f"{prefix}{name}.weight": scale * torch.randn(shape, generator=rng)
        for name, shape in shapes.items()
    }
    norm = 1.0 + scale * torch.randn(hidden, generator=rng)
    return {**tensors, f"{prefix}post_attention_layernorm.weight": norm}
