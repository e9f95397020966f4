"""An MTP module of any family, slowly: float64, whole sequences, no cache, no code of ours.

Written from the published descriptions: how embedding and state are joined, which heads are normed,
rotated in part or gated, and how a mixture chooses its experts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Traits:
    """What a family does, and what it calls the four parts that are no layer."""

    embedding_norm: str
    state_norm: str
    projection: str
    final_norm: str
    is_state_first: bool = False
    hides_first: bool = False
    norms_heads: bool = False
    is_gated: bool = False
    rotated: float = 1.0  # share of a head
    added_to_norms: float = 0.0
    num_experts: int = 0  # 2 of them are used


class Module64:
    def __init__(
        self, tensors: Mapping[str, Tensor], embedding: Tensor, traits: Traits, *, eps: float
    ) -> None:
        """tensors: names inside the module. embedding (V, H)."""
        self.w = {name: tensor.double() for name, tensor in tensors.items()}
        self.embedding, self.traits, self.eps = embedding.double(), traits, eps
        self.heads, self.kv_heads, self.size, self.theta = 4, 2, 16, 500.0

    def outputs(self, states: Tensor, tokens: list[int]) -> list[Tensor]:
        """Step by step: row i pairs state i with token i + 1; later steps go on from their own."""
        rows, found = list(states.double()), list[Tensor]()
        for last in range(len(states) - 1, len(tokens) - 1):
            found.append(self._module(torch.stack(rows), tokens[1 : last + 2])[-1])
            rows.append(found[-1])
        return found

    def _module(self, states: Tensor, tokens: list[int]) -> Tensor:
        traits, embedded = self.traits, self.embedding[tokens].clone()
        if traits.hides_first:
            embedded[0] = 0.0
        parts = [self._norm(embedded, traits.embedding_norm), self._norm(states, traits.state_norm)]
        both = torch.cat(parts[::-1] if traits.is_state_first else parts, dim=-1)
        x = both @ self.w[f"{traits.projection}.weight"].T
        x = x + self._attended(self._norm(x, "input_layernorm"))
        normed = self._norm(x, "post_attention_layernorm")
        mixed = self._mixture(normed) if traits.num_experts else self._mlp(normed, "mlp.")
        return self._norm(x + mixed, traits.final_norm)

    def _attended(self, x: Tensor) -> Tensor:
        n, size, traits = len(x), self.size, self.traits
        query, key, value = (self._linear(x, f"self_attn.{name}_proj") for name in "qkv")
        gate = torch.zeros(0)
        if traits.is_gated:
            pairs = query.view(n, self.heads, 2 * size)
            query, gate = pairs[..., :size], pairs[..., size:]
        query, key = query.reshape(n, self.heads, size), key.view(n, self.kv_heads, size)
        value = value.view(n, self.kv_heads, size)
        if traits.norms_heads:
            query = self._norm(query, "self_attn.q_norm")
            key = self._norm(key, "self_attn.k_norm")
        query, key = self._turned(query), self._turned(key)
        mixed = torch.zeros_like(query)
        for row in range(n):
            for head in range(self.heads):
                shared = head // (self.heads // self.kv_heads)
                scores = key[: row + 1, shared] @ query[row, head] / size**0.5
                mixed[row, head] = scores.softmax(0) @ value[: row + 1, shared]
        if traits.is_gated:
            mixed = mixed * torch.sigmoid(gate)
        return self._linear(mixed.flatten(1), "self_attn.o_proj")

    def _turned(self, heads: Tensor) -> Tensor:
        width = int(self.size * self.traits.rotated)
        half = width // 2
        speeds = self.theta ** (-torch.arange(half).double() / half)
        angles = torch.arange(len(heads)).double()[:, None, None] * speeds
        first, second, still = heads[..., :half], heads[..., half:width], heads[..., width:]
        cos, sin = angles.cos(), angles.sin()
        return torch.cat((first * cos - second * sin, second * cos + first * sin, still), dim=-1)

    def _mixture(self, x: Tensor) -> Tensor:
        """The two likeliest experts by score and bias, weighed by their scores; one sees all."""
        scores = torch.sigmoid(x @ self.w["mlp.gate.weight"].T)
        found = self._mlp(x, "mlp.shared_experts.")
        for row in range(len(x)):
            chosen = (scores[row] + self.w["mlp.gate.e_score_correction_bias"]).topk(2).indices
            total = scores[row, chosen].sum()
            for expert in chosen.tolist():
                own = self._mlp(x[row : row + 1], f"mlp.experts.{expert}.")[0]
                found[row] += own * scores[row, expert] / total
        return found

    def _mlp(self, x: Tensor, prefix: str) -> Tensor:
        gate, up = (self._linear(x, f"{prefix}{name}_proj") for name in ("gate", "up"))
        return self._linear(gate / (1 + torch.exp(-gate)) * up, f"{prefix}down_proj")

    def _linear(self, x: Tensor, name: str) -> Tensor:
        bias = self.w.get(f"{name}.bias")
        y = x @ self.w[f"{name}.weight"].T
        return y if bias is None else y + bias

    def _norm(self, x: Tensor, name: str) -> Tensor:
        scale = (x.square().mean(-1, keepdim=True) + self.eps).sqrt()
        return x / scale * (self.w[f"{name}.weight"] + self.traits.added_to_norms)
