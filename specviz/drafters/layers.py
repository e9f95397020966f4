"""A Llama decoder layer to train, with the attention of training-time test (arXiv:2503.01840).

`transformers` has the same layer without that attention: there, step k of a draft sees the true
rows up to its start and its own earlier steps, which no causal mask over one sequence can say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.lm.rotary import rotary

# B = sequences, T = rows, H = hidden size, Q and K = number of query and of key-value heads,
# D = head size

Past = list[tuple[Tensor, Tensor]]  # keys and values (B, K, T, D) of each step so far


class Norm(nn.Module):
    """RMSNorm in float32, cast back before the scale, as Llama's."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        normed = F.rms_norm(x.float(), self.weight.shape, None, self.eps).to(x.dtype)
        return normed * self.weight.to(x.dtype)


class Attention(nn.Module):
    def __init__(self, config: Any, in_width: int) -> None:
        super().__init__()
        self.head_size: int = getattr(config, "head_dim", None) or (
            config.hidden_size // config.num_attention_heads
        )
        num_queries = config.num_attention_heads * self.head_size
        num_keys = config.num_key_value_heads * self.head_size
        self.q_proj = nn.Linear(in_width, num_queries, bias=False)
        self.k_proj = nn.Linear(in_width, num_keys, bias=False)
        self.v_proj = nn.Linear(in_width, num_keys, bias=False)
        self.o_proj = nn.Linear(num_queries, config.hidden_size, bias=False)
        self.rope = rotary(config)

    def forward(self, x: Tensor, past: Past) -> Tensor:
        """(B, T, H). Row t of step k stands at position t + k; its keys join `past`."""
        query, key, value = (
            layer(x).unflatten(-1, (-1, self.head_size)).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        positions = torch.arange(len(past), len(past) + x.shape[1], device=x.device)
        cos, sin = self.rope(x, positions[None])
        query, key = _rotated(query, cos, sin), _rotated(key, cos, sin)
        past.append((key, value))
        if len(past) == 1:
            mixed = F.scaled_dot_product_attention(
                query, key, value, is_causal=True, enable_gqa=True
            )
        else:
            mixed = self._mixed(query, past)
        out: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return out

    def _mixed(self, query: Tensor, past: Past) -> Tensor:
        """(B, Q, T, D): step 0 under the causal mask, each later step on its own row alone."""
        group = query.shape[1] // past[0][0].shape[1]
        (key, value), *later = [
            (k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)) for k, v in past
        ]
        length = query.shape[2]
        query = query * self.head_size**-0.5
        future = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
        scores = (query @ key.transpose(2, 3)).masked_fill(future, -torch.inf)
        own = [(query * k).sum(dim=-1, keepdim=True) for k, _ in later]
        weights = torch.cat([scores, *own], dim=-1).softmax(dim=-1)
        mixed = weights[..., :length] @ value
        for step, (_, v) in enumerate(later):
            mixed = mixed + weights[..., length + step, None] * v
        return mixed


class Mlp(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class TrainLayer(nn.Module):
    """Attention and MLP with the published names; the norm before attention is the caller's."""

    def __init__(self, config: Any, in_width: int) -> None:
        super().__init__()
        self.self_attn = Attention(config, in_width)
        self.post_attention_layernorm = Norm(config.hidden_size, config.rms_norm_eps)
        self.mlp = Mlp(config)

    def forward(self, x: Tensor, residual: Tensor, past: Past) -> Tensor:
        """(B, T, H) from x (B, T, in_width) and residual (B, T, H); `past` grows by one step."""
        hidden = residual + self.self_attn(x, past)
        out: Tensor = hidden + self.mlp(self.post_attention_layernorm(hidden))
        return out

    @torch.no_grad()
    def start_from(self, tensors: Mapping[str, Tensor], columns: slice) -> None:
        """Take over a target layer's weights. Queries, keys and values read its input from
        `columns` of theirs; the other columns start at zero."""
        for name, parameter in self.named_parameters():
            source = tensors[name].float()
            if parameter.shape == source.shape:
                parameter.copy_(source)
            else:
                parameter.zero_()[:, columns] = source


def shifted(x: Tensor, steps: int) -> Tensor:
    """(B, T, ...) with row t holding what stood at t + steps; zeros behind the end."""
    return torch.cat((x[:, steps:], torch.zeros_like(x[:, :steps])), dim=1)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos[:, None] + torch.cat((-second, first), dim=-1) * sin[:, None]
