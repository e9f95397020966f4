"""EAGLE-3 in training: tokens predicted directly, from three layers, on its own outputs
(Li et al. 2025, arXiv:2503.01840).

Training-time test: step 0 reads the target's true features; step k reads what step k - 1 put out,
so that the network meets in training what it meets when it drafts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.drafters.layers import Norm, Past, TrainLayer, shifted
from specviz.drafters.training import (
    DraftVocab,
    FrozenTarget,
    TrainBatch,
    draft_layer_config,
    greedy_ranks,
    load_named,
    soft_cross_entropy,
    vocab_tensors,
)
from specviz.lm.base import FeatureTap

STEP_DECAY = 0.8  # weight of a step's loss against the step before it


class Eagle3Layer(TrainLayer):
    """Reads the token's embedding and the feature side by side, each under its own norm."""

    def __init__(self, config: Any) -> None:
        super().__init__(config, 2 * config.hidden_size)
        self.input_layernorm = Norm(config.hidden_size, config.rms_norm_eps)
        self.hidden_norm = Norm(config.hidden_size, config.rms_norm_eps)

    def draft(self, embedded: Tensor, feature: Tensor, past: Past) -> Tensor:
        both = torch.cat((self.input_layernorm(embedded), self.hidden_norm(feature)), dim=-1)
        return self.forward(both, feature, past)


class Eagle3Net(nn.Module):
    embedding: Tensor  # (V, H), the target's
    full_head: Tensor  # (V, H), the target's
    method: ClassVar[str] = "eagle3"

    def __init__(self, frozen: FrozenTarget, num_steps: int = 5) -> None:
        super().__init__()
        config = frozen.config
        self.num_steps, self.config = num_steps, config
        self.num_layers: int = config.num_hidden_layers
        size = config.hidden_size
        self.fc = nn.Linear(3 * size, size, bias=False)
        self.midlayer = Eagle3Layer(config)
        self.norm = Norm(size, config.rms_norm_eps)
        self.vocab = DraftVocab(frozen)
        self.lm_head = nn.Linear(size, len(frozen.draft_vocab), bias=False)
        self.register_buffer("embedding", frozen.embedding, persistent=False)
        self.register_buffer("full_head", frozen.head, persistent=False)
        self._start_from(frozen)

    @torch.no_grad()
    def _start_from(self, frozen: FrozenTarget) -> None:
        """The target's last layer, final norm and head; the high feature passes through fc."""
        size = self.config.hidden_size
        last = frozen.layer(self.num_layers - 1)
        self.fc.weight.mul_(0.1)[:, 2 * size :] += torch.eye(size)
        ones = torch.ones(size)
        norms = {
            "input_layernorm.weight": ones,
            "hidden_norm.weight": last["input_layernorm.weight"],
        }
        self.midlayer.start_from({**last, **norms}, slice(size, None))
        self.norm.weight.copy_(frozen.tensors["model.norm.weight"])
        self.lm_head.weight.copy_(self.vocab.weight)

    @property
    def taps(self) -> tuple[FeatureTap, ...]:
        layers = (2, self.num_layers // 2, self.num_layers - 3)
        return tuple(FeatureTap("input", layer) for layer in layers)

    def losses(self, batch: TrainBatch, random: torch.Generator) -> dict[str, Tensor]:
        del random
        targets = self.vocab.answers(batch)
        total = torch.zeros((), device=batch.tokens.device)
        found = dict[str, Tensor]()
        for step, hidden in enumerate(self._steps(batch)):
            rows, at = targets.after(step + 1)
            loss = soft_cross_entropy(self._logits(hidden[rows]), targets.probs, at).mean()
            total = total + STEP_DECAY**step * loss
            found[f"step {step + 1}"] = loss.detach()
        weight = sum(STEP_DECAY**step for step in range(self.num_steps))
        return {"loss": total / weight, **found}

    @torch.no_grad()
    def ranks(self, batch: TrainBatch) -> Tensor:
        depths = [
            lambda rows, hidden=hidden: self._logits(hidden[rows]) for hidden in self._steps(batch)
        ]
        return greedy_ranks(batch, self.vocab, self.full_head, depths, first=1)

    def _steps(self, batch: TrainBatch) -> Iterator[Tensor]:
        """(B, T, H) per step: row t of step k guesses token t + 2 + k."""
        feature, past = self.fc(batch.features), Past()
        for step in range(self.num_steps):
            embedded = F.embedding(shifted(batch.tokens, step + 1), self.embedding)
            feature = self.midlayer.draft(embedded.to(feature.dtype), feature, past)
            yield feature

    def _logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.lm_head(self.norm(hidden))
        return logits

    def export(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        config = draft_layer_config(self.config, "LlamaForCausalLMEagle3")
        config |= {"method": self.method, "draft_vocab_size": len(self.vocab.ids)}
        return config, {**self.state_dict(), **vocab_tensors(self.vocab)}

    def adopt(self, tensors: Mapping[str, Tensor]) -> None:
        load_named(self, tensors, self.vocab)
