"""EAGLE as its publications compute it, in float64, nothing cached and no code of ours.

What a file means is told by the test, not read from its config.json. Row i reads feature i with
token i + 1 at position i. The rows of a path follow the last of those, each with the output of the
row before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

Path = tuple[int, ...]


@dataclass(frozen=True)
class Meaning:
    version: Literal[1, 3]
    prefix: str  # of the layer's tensors
    heads: int = 4
    eps: float = 1e-5
    theta: float = 10_000.0
    slowed: float = 1.0  # positions are divided by it: linear scaling
    before_fc: Literal["", "each", "all"] = ""
    has_normed_residual: bool = False
    has_normed_output: bool = False
    fc_rows: int | None = None  # of more, the rest is no part of the feature


@dataclass
class Published64:
    """One text: T tokens, and the target's features (T - 1, F) of all but the last."""

    meaning: Meaning
    tensors: Mapping[str, Tensor]  # as stored
    embedding: Tensor  # (V, H) the one it reads
    head: Tensor  # (Vd, H) the one that names tokens
    tokens: Sequence[int]
    features: Tensor
    known: dict[Path, Tensor] = field(default_factory=dict)  # (H,) outputs found so far

    def log_probs(self, path: Path) -> Tensor:
        """(Vd,)"""
        last = self.output(path)
        if self.meaning.version == 3 and not self.meaning.has_normed_output:
            last = self.norm(last, "norm.weight")
        return (last @ self.head.double().T).log_softmax(-1)

    def output(self, path: Path) -> Tensor:
        """(H,) what the row of the path's last token feeds to the next."""
        if path not in self.known:
            above = [self.output(path[:depth]) for depth in range(len(path))]
            states = torch.cat([self.true_states(), *(state[None] for state in above)])
            following = torch.tensor([*self.tokens[1:], *path])
            embedded = self.embedding.double()[following]
            self.known[path] = self.rows(embedded, states)[-1]
        return self.known[path]

    def true_states(self) -> Tensor:
        """(T - 1, H): what the rows of the text read."""
        states = self.features.double()
        if self.meaning.version == 1:
            return states
        if self.meaning.before_fc == "all":
            states = self.norm(states, "input_norm.weight")
        if self.meaning.before_fc == "each":
            low, middle, high = states.chunk(3, dim=-1)
            states = torch.cat(
                [
                    self.norm(low, "fc_norm.0.weight"),
                    self.norm(middle, "fc_norm.1.weight"),
                    self.norm(high, "fc_norm.2.weight"),
                ],
                dim=-1,
            )
        return self.linear(states, "fc")[:, : self.meaning.fc_rows]

    def rows(self, embedded: Tensor, states: Tensor) -> Tensor:
        layer = self.meaning.prefix
        if self.meaning.version == 1:
            x = self.linear(torch.cat([embedded, states], dim=-1), "fc")
            residual = x
        else:
            normed = self.norm(states, f"{layer}hidden_norm.weight")
            x = torch.cat([self.norm(embedded, f"{layer}input_layernorm.weight"), normed], dim=-1)
            residual = normed if self.meaning.has_normed_residual else states
        hidden = residual + self.linear(self.attention(x), f"{layer}self_attn.o_proj")
        normed = self.norm(hidden, f"{layer}post_attention_layernorm.weight")
        gate, up = (self.linear(normed, f"{layer}mlp.{name}_proj") for name in ("gate", "up"))
        out = hidden + self.linear(gate * gate.sigmoid() * up, f"{layer}mlp.down_proj")
        return self.norm(out, "norm.weight") if self.meaning.has_normed_output else out

    def attention(self, x: Tensor) -> Tensor:
        """(n, heads D), causal; a key head serves as many query heads as there are for it."""
        heads, count = self.meaning.heads, len(x)
        query, key, value = (
            self.linear(x, f"{self.meaning.prefix}self_attn.{name}_proj") for name in "qkv"
        )
        size = query.shape[1] // heads
        query, key, value = (rows.view(count, -1, size) for rows in (query, key, value))
        query, key = self.turned(query, "q"), self.turned(key, "k")
        seen = torch.ones(count, count, dtype=torch.bool).tril()
        mixed = []
        for head in range(heads):
            shared = head * key.shape[1] // heads
            scores = query[:, head] @ key[:, shared].T / size**0.5
            weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
            mixed.append(weights @ value[:, shared])
        return torch.cat(mixed, dim=-1)

    def turned(self, rows: Tensor, name: str) -> Tensor:
        """(n, heads, D), rotated halves against each other, normed before where there is a norm."""
        norm = f"{self.meaning.prefix}self_attn.{name}_norm.weight"
        if norm in self.tensors:
            rows = self.norm(rows, norm)
        half = rows.shape[-1] // 2
        speeds = self.meaning.theta ** (-torch.arange(half, dtype=torch.float64) / half)
        places = torch.arange(len(rows), dtype=torch.float64) / self.meaning.slowed
        angles = places[:, None, None] * speeds
        a, b = rows[..., :half], rows[..., half:]
        return torch.cat(
            [a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], dim=-1
        )

    def linear(self, x: Tensor, name: str) -> Tensor:
        y = x @ self.tensors[f"{name}.weight"].double().T
        bias = self.tensors.get(f"{name}.bias")
        return y if bias is None else y + bias.double()

    def norm(self, x: Tensor, name: str) -> Tensor:
        scale = (x.pow(2).mean(-1, keepdim=True) + self.meaning.eps).sqrt()
        return x / scale * self.tensors[name].double()
