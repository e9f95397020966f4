"""EAGLE-1 in training: the next feature, and through the target's own head the next token
(Li et al. 2024, arXiv:2401.15077). EAGLE-2 decodes with the same weights.

Noise on the features stands for the error of a draft that goes on from its own output. Several
steps on its own output, each with both losses, teach it better how to go on (Zhang et al. 2024,
arXiv:2408.15766); the tensors, and so the drafters, are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.drafters.layers import Past, TrainLayer, shifted
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

TOKEN_WEIGHT = 1.0  # of the token loss against the feature loss
STEP_DECAY = 0.8  # weight of a step's losses against the step before it
NOISE = 0.1  # half the width of the uniform noise, in standard deviations of the features
EVAL_DEPTH = 5


class EagleNet(nn.Module):
    embedding: Tensor  # (V, H), the target's
    full_head: Tensor  # (V, H), the target's
    method: ClassVar[str] = "eagle"

    def __init__(self, frozen: FrozenTarget, num_steps: int = 1) -> None:
        super().__init__()
        config, self.num_steps = frozen.config, num_steps
        self.config = config
        self.fc = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        layer = TrainLayer(config, config.hidden_size)
        self.layers = nn.ModuleList([layer])  # of one: so the published names say
        self.vocab = DraftVocab(frozen)
        self.register_buffer("embedding", frozen.embedding, persistent=False)
        self.register_buffer("full_head", frozen.head, persistent=False)
        self._start_from(frozen)

    @torch.no_grad()
    def _start_from(self, frozen: FrozenTarget) -> None:
        """The feature passes through fc, and the layer, the target's last, adds nothing yet: what
        it would add is made for the residual stream, which is many times as large as the state
        after the final norm. Queries, keys and values read that state as they read the stream."""
        size, last = self.config.hidden_size, frozen.layer(self.config.num_hidden_layers - 1)
        self.fc.weight[:, size:].mul_(0.1).add_(torch.eye(size))
        self._layer.start_from(last, slice(None))
        own = last["input_layernorm.weight"].float()
        rescaled = own / frozen.tensors["model.norm.weight"].float()
        attention = self._layer.self_attn
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
            projection.weight.mul_(rescaled)
        attention.o_proj.weight.zero_()
        self._layer.mlp.down_proj.weight.zero_()

    @property
    def _layer(self) -> TrainLayer:
        return cast(TrainLayer, self.layers[0])

    @property
    def taps(self) -> tuple[FeatureTap, ...]:
        return (FeatureTap("normed"),)

    def losses(self, batch: TrainBatch, random: torch.Generator) -> dict[str, Tensor]:
        spread = NOISE * batch.features.float().std()
        noise = torch.empty(batch.features.shape).uniform_(-1, 1, generator=random)
        noisy = batch.features + (noise.to(spread) * spread).to(batch.features)
        targets, total = self.vocab.answers(batch), noise.new_zeros(())
        found, weights = dict[str, Tensor](), 0.0
        for step, hidden in enumerate(self._steps(batch, noisy, self.num_steps)):
            rows, at = targets.after(step + 1)
            guessed, truth = hidden[rows], shifted(batch.normed, step + 1)[rows]
            token = soft_cross_entropy(self._logits(guessed), targets.probs, at).mean()
            feature = F.smooth_l1_loss(guessed.float(), truth.float())
            total = total + STEP_DECAY**step * (feature + TOKEN_WEIGHT * token)
            weights += STEP_DECAY**step
            found |= {f"token {step + 1}": token.detach(), f"feature {step + 1}": feature.detach()}
        return {"loss": total / weights, **found}

    @torch.no_grad()
    def ranks(self, batch: TrainBatch) -> Tensor:
        steps = self._steps(batch, batch.features, EVAL_DEPTH)
        depths = [lambda rows, hidden=hidden: self._logits(hidden[rows]) for hidden in steps]
        return greedy_ranks(batch, self.vocab, self.full_head, depths, first=1)

    def _steps(self, batch: TrainBatch, feature: Tensor, count: int) -> Iterator[Tensor]:
        """(B, T, H) per step: row t of step k guesses the feature of t + 1 + k, and what it says."""
        past = Past()
        for step in range(count):
            embedded = F.embedding(shifted(batch.tokens, step + 1), self.embedding)
            x = self.fc(torch.cat((embedded.to(feature.dtype), feature), dim=-1))
            feature = self._layer(x, x, past)
            yield feature

    def _logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.vocab.weight.to(hidden.dtype))

    def export(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        config = draft_layer_config(self.config, "EagleForCausalLM")
        config |= {"method": self.method, "bias": False, "draft_vocab_size": len(self.vocab.ids)}
        return config, {**self.state_dict(), **vocab_tensors(self.vocab)}

    def adopt(self, tensors: Mapping[str, Tensor]) -> None:
        load_named(self, tensors, self.vocab)
