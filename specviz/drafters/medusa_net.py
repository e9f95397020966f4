"""Medusa-1 heads in training (Cai et al. 2024, arXiv:2401.10774): the target stays as it is.

Head i is one residual block on the target's last hidden state; its logits go through the
target's own head, whose rows are frozen and not shipped. Not for decoding: see `medusa`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.drafters.training import (
    DraftVocab,
    FrozenTarget,
    TrainBatch,
    greedy_ranks,
    soft_cross_entropy,
)
from specviz.lm.base import FeatureTap

# n = rows picked from B x T, H = hidden size, V = vocabulary, Vd = draft vocabulary, K = heads

DECAY = 0.8  # of a head's weight in the loss, per token further ahead


class ResidualBlock(nn.Module):
    """h + silu(W h + b), zero at first, so that every head begins as the target's own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden.to(self.linear.weight.dtype)
        moved: Tensor = F.silu(self.linear(hidden))
        return hidden + moved


class MedusaNet(nn.Module):
    """K heads. From the state of position t, which chooses token t + 1, head i guesses t + 2 + i."""

    method: ClassVar[str] = "medusa"
    full_head: Tensor

    def __init__(self, frozen: FrozenTarget, num_heads: int = 4) -> None:
        super().__init__()
        self.width: int = frozen.config.hidden_size
        self.vocab = DraftVocab(frozen)
        self.register_buffer("full_head", frozen.head, persistent=False)
        # Inside stand the published names: {head}.0.linear.weight, {head}.0.linear.bias, and
        # {head}.1.weight for a head with logits of its own.
        blocks = (nn.Sequential(ResidualBlock(self.width)) for _ in range(num_heads))
        self.heads = nn.ModuleList(blocks)

    @property
    def taps(self) -> tuple[FeatureTap, ...]:
        return (FeatureTap("normed"),)

    def losses(self, batch: TrainBatch, random: torch.Generator) -> dict[str, Tensor]:
        """The heads' soft cross-entropies against the target, head i's with weight DECAY ** i.

        Head i's is the mean over the positions t whose token t + 2 + i is an answer token, against
        what the target itself says there: its distribution at t + 1 + i, under the true text.
        """
        del random  # nothing here is noisy
        answers, parts = self.vocab.answers(batch), list[Tensor]()
        for i in range(len(self.heads)):
            rows, at = answers.after(1 + i)
            logits = self._logits(i, batch.features[rows])
            parts.append(soft_cross_entropy(logits, answers.probs, at).mean())
        loss = torch.stack([DECAY**i * part for i, part in enumerate(parts)]).sum()
        return {"loss": loss} | {f"head_{i}": part.detach() for i, part in enumerate(parts)}

    @torch.no_grad()
    def ranks(self, batch: TrainBatch) -> Tensor:
        """(starts, K): see `Trainee.ranks`. Head i stands at depth i.

        A start is a position t whose token t + 2 is an answer token. A lane drafts there when token
        t + 1 is its root: committed but not yet read, so the heads read the state of t, and head i
        is asked for the target's greedy token at t + 2 + i. -1 stands where a token from t + 2 to
        t + 1 + i was not the greedy one, or the answer ended.
        """

        def logits_of(head: int) -> Callable[[Tensor], Tensor]:
            return lambda rows: self._logits(head, batch.features[rows])

        depths = [logits_of(head) for head in range(len(self.heads))]
        return greedy_ranks(batch, self.vocab, self.full_head, depths, first=1)

    def export(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        config = {
            "method": self.method,
            "medusa_num_heads": len(self.heads),
            "medusa_num_layers": 1,
            "hidden_size": self.width,
            "vocab_size": len(self.full_head),
            "draft_vocab_size": len(self.vocab.ids),
        }
        tensors = {name: t.detach().bfloat16() for name, t in self.heads.state_dict().items()}
        return config, tensors | {"d2t": self.vocab.d2t}

    def adopt(self, tensors: Mapping[str, Tensor]) -> None:
        """Heads that share the target's, or published ones with logits of their own, which then
        train too: make the optimiser afterwards. ValueError: other sizes or another vocabulary."""
        if "d2t" in tensors and not torch.equal(tensors["d2t"], self.vocab.d2t.cpu()):
            raise ValueError("This checkpoint drafts from another vocabulary; train on its corpus.")
        if "0.1.linear.weight" in tensors:
            raise ValueError("Heads of several residual blocks cannot be trained further here.")
        found = sum(name.endswith(".0.linear.weight") for name in tensors)
        if found != len(self.heads):
            raise ValueError(f"The checkpoint has {found} heads and {len(self.heads)} are trained.")
        own = {name: t for name, t in tensors.items() if name != "d2t"}
        for i in range(found):
            if (weight := tensors.get(f"{i}.1.weight")) is not None:
                own[f"{i}.1.weight"] = rows = self._drafted_rows(weight)
                layer = nn.Linear(self.width, len(rows), bias=False, device=self.full_head.device)
                self.heads[i] = nn.Sequential(ResidualBlock(self.width).to(rows.device), layer)
        try:
            self.heads.load_state_dict(own)
        except RuntimeError as error:
            raise ValueError(f"This checkpoint does not fit the network: {error}.") from error

    def _drafted_rows(self, weight: Tensor) -> Tensor:
        """(Vd, H) of a head's own logits: published ones cover the whole vocabulary."""
        ids = self.vocab.ids
        weight = weight.to(ids.device)
        return weight[ids] if len(weight) == len(self.full_head) else weight

    def _logits(self, head: int, states: Tensor) -> Tensor:
        """(n, Vd) of one head, for (n, H) normed states of the target."""
        layers = self.heads[head]
        assert isinstance(layers, nn.Sequential), "a head is a chain of its layers"
        out: Tensor = layers(states)
        if len(layers) > 1:
            return out
        return F.linear(out.to(self.vocab.weight.dtype), self.vocab.weight)
