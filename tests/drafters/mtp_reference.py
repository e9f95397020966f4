"""The MTP module again, slowly: float64, one sequence, every row computed anew, no cache.

Written from the published description, not from `mtp_net` or `mtp`; both are compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class Reference:
    """tensors: names inside the module (`eh_proj.weight`, ...). embedding (V, H)."""

    def __init__(self, tensors: Mapping[str, Tensor], embedding: Tensor, config: Any) -> None:
        self.tensors = {name: tensor.detach().double() for name, tensor in tensors.items()}
        self.embedding = embedding.detach().double()
        self.config = config

    def outputs(self, states: Tensor, tokens: list[int]) -> list[Tensor]:
        """What each step puts out. states (P, H) of the first P tokens, true; tokens (P + K,):
        row i pairs state i with token i + 1, and the steps after the first go on from their own
        output and the next token."""
        rows = list(states.double())
        found = []
        for last in range(len(states) - 1, len(tokens) - 1):
            pairs = [(rows[i], tokens[i + 1]) for i in range(last + 1)]
            found.append(self._last_row(pairs))
            rows.append(found[-1])
        return found

    def _last_row(self, pairs: list[tuple[Tensor, int]]) -> Tensor:
        w = self.tensors
        x = torch.stack(
            [
                w["eh_proj.weight"]
                @ torch.cat(
                    (self._norm(self.embedding[token], "enorm"), self._norm(state, "hnorm"))
                )
                for state, token in pairs
            ]
        )
        hidden = x[-1] + self._attended(self._norm(x, "input_layernorm"))
        normed = self._norm(hidden, "post_attention_layernorm")
        gate, up = w["mlp.gate_proj.weight"] @ normed, w["mlp.up_proj.weight"] @ normed
        hidden = hidden + w["mlp.down_proj.weight"] @ (gate / (1 + torch.exp(-gate)) * up)
        return self._norm(hidden, "shared_head.norm")

    def _attended(self, x: Tensor) -> Tensor:
        """(H,) of the last row, which sees all rows."""
        size = self.config.hidden_size // self.config.num_attention_heads
        query, key, value = (
            (x @ self.tensors[f"self_attn.{name}_proj.weight"].T).view(len(x), -1, size)
            for name in "qkv"
        )
        group = query.shape[1] // key.shape[1]
        mixed = []
        for head in range(query.shape[1]):
            q = self._turned(query[-1, head], len(x) - 1)
            keys = torch.stack([self._turned(key[i, head // group], i) for i in range(len(x))])
            weights = torch.softmax(keys @ q / size**0.5, dim=0)
            mixed.append(weights @ value[:, head // group])
        return self.tensors["self_attn.o_proj.weight"] @ torch.cat(mixed)

    def _turned(self, vector: Tensor, position: int) -> Tensor:
        half = len(vector) // 2
        theta = self.config.rope_parameters["rope_theta"]
        angles = position * theta ** (-torch.arange(half).double() / half)
        first, second = vector[:half], vector[half:]
        cos, sin = angles.cos(), angles.sin()
        return torch.cat((first * cos - second * sin, second * cos + first * sin))

    def _norm(self, x: Tensor, name: str) -> Tensor:
        scale = (x.square().mean(-1, keepdim=True) + self.config.rms_norm_eps).sqrt()
        return x / scale * self.tensors[f"{name}.weight"]
