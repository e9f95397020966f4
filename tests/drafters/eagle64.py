"""EAGLE in float64, nothing cached: each question is answered from the whole text.

Row i reads feature i with token i + 1 at position i. A tree's rows follow the last of those, each
at the next position with the output of the row before it, which is what a tree's mask leaves of
the other branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.lm.checkpoints import DrafterCheckpoint
from tests.engine.tables import TableLM
from tests.lm.layer64 import layer64, rms_norm

Path = tuple[int, ...]


@dataclass(frozen=True)
class Eagle64:
    """One text: T tokens, and the target's features (T - 1, F) of all but the last."""

    checkpoint: DrafterCheckpoint
    lm: TableLM
    tokens: Sequence[int]
    features: Tensor

    @property
    def is_third(self) -> bool:
        return "lm_head.weight" in self.checkpoint.tensors

    def log_probs(self, path: Path) -> Tensor:
        """(Vd,) over the draft vocabulary, after the text and the `path` below its last token."""
        last = self.output(path)
        if self.is_third:
            normed = rms_norm(last, self.tensor("norm.weight"), self.eps)
            return (normed @ self.tensor("lm_head.weight").T).log_softmax(-1)
        return (last @ self.lm.head_weight.double()[self.ids].T).log_softmax(-1)

    def output(self, path: Path) -> Tensor:
        """(H,) of the row that holds the last token of `path`, of the text if it is empty."""
        states = self.features.double()
        if self.is_third:
            states = states @ self.tensor("fc.weight").T
        if path:
            # Each token of the path beside the output of the row before it.
            above = [self.output(path[:depth]) for depth in range(len(path))]
            states = torch.cat([states, torch.stack(above)])
        return self.outputs(states, torch.tensor([*self.tokens[1:], *path]))[-1]

    def outputs(self, states: Tensor, following: Tensor) -> Tensor:
        """(n, H) of the rows, plain causal."""
        embedded, count = self.lm.embedding.double()[following], len(states)
        if self.is_third:
            prefix, residual = "midlayer.", states
            embedded = rms_norm(embedded, self.tensor("midlayer.input_layernorm.weight"), self.eps)
            normed = rms_norm(states, self.tensor("midlayer.hidden_norm.weight"), self.eps)
            x = torch.cat([embedded, normed], dim=-1)
        else:
            prefix = "layers.0."
            x = torch.cat([embedded, states], dim=-1) @ self.tensor("fc.weight").T
            if "fc.bias" in self.checkpoint.tensors:
                x = x + self.tensor("fc.bias")
            residual = x
        return layer64(
            self.checkpoint.tensors,
            prefix,
            x,
            residual,
            positions=torch.arange(count),
            visible=torch.ones(count, count, dtype=torch.bool).tril(),
            heads=self.checkpoint.config["num_attention_heads"],
            eps=self.eps,
            theta=self.checkpoint.config["rope_theta"],
        )

    @property
    def ids(self) -> Tensor:
        offsets = self.checkpoint.tensors["d2t"]
        return torch.arange(len(offsets)) + offsets

    @property
    def eps(self) -> float:
        return float(self.checkpoint.config["rms_norm_eps"])

    def tensor(self, name: str) -> Tensor:
        return self.checkpoint.tensors[name].double()
