"""MTP in training: a target that is tuned to be guessed, and the module that guesses it
(DeepSeek-V3, arXiv:2412.19437; one module used again and again as in FastMTP, arXiv:2509.18362).

The backbone moves by a low-rank update alone (LoRA, arXiv:2106.09685), held near the original by
a KL term, so that it stays the same assistant. The module learns what the *tuned* model says:
that is what it will be verified by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.drafters.layers import Norm, Past, TrainLayer, shifted
from specviz.drafters.training import (
    Answers,
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
from specviz.lm.tunable import tunable_decoder

STEP_DECAY = 0.8  # weight of a step's loss against the step before it


class MtpModule(TrainLayer):
    """Norm of the embedding, norm of the state, a projection of both, one layer, one norm."""

    def __init__(self, config: Any) -> None:
        super().__init__(config, config.hidden_size)
        size, eps = config.hidden_size, config.rms_norm_eps
        self.enorm, self.hnorm = Norm(size, eps), Norm(size, eps)
        self.eh_proj = nn.Linear(2 * size, size, bias=False)
        self.input_layernorm = Norm(size, eps)
        self.shared_head = nn.ModuleDict({"norm": Norm(size, eps)})

    def step(self, embedded: Tensor, state: Tensor, past: Past) -> Tensor:
        """(B, T, H): what the head reads, and the state the next step starts from."""
        both = torch.cat((self.enorm(embedded), self.hnorm(state)), dim=-1)
        x = self.eh_proj(both)
        out: Tensor = self.shared_head["norm"](self(self.input_layernorm(x), x, past))
        return out


class MtpNet(nn.Module):
    """`freeze_backbone`: train the module alone on the original's states, at a fraction of the
    cost; the low-rank update stays zero. Unset it to train both, from that checkpoint or anew.
    `tuned_layers`: so many of the uppermost layers are updated; no gradient has to go below them."""

    method: ClassVar[str] = "mtp"
    embedding: Tensor
    full_head: Tensor

    def __init__(
        self,
        frozen: FrozenTarget,
        rank: int = 16,
        num_steps: int = 3,
        draft_weight: float = 1.0,
        tuned_layers: int = 10,
        *,
        freeze_backbone: bool = False,
    ) -> None:
        super().__init__()
        self.rank, self.num_steps, self.draft_weight = rank, num_steps, draft_weight
        self.freeze_backbone = freeze_backbone
        self.alpha = 2.0 * rank
        self.config = frozen.config
        random = torch.Generator().manual_seed(0)
        self.backbone = tunable_decoder(
            frozen.folder, rank, self.alpha / rank, random, num_layers=tuned_layers
        )
        self.module = MtpModule(frozen.config)
        self.vocab = DraftVocab(frozen)
        self.register_buffer("embedding", frozen.embedding, persistent=False)
        self.register_buffer("full_head", frozen.head, persistent=False)
        self._start_from(frozen, random)

    def _start_from(self, frozen: FrozenTarget, random: torch.Generator) -> None:
        """The target's last layer and final norm; the state passes through the projection."""
        size = self.config.hidden_size
        last = frozen.layer(self.config.num_hidden_layers - 1)
        projection = torch.randn(size, 2 * size, generator=random) * (0.1 * size**-0.5)
        projection[:, size:] += torch.eye(size)
        ones = torch.ones(size)
        own = {"enorm.weight": ones, "hnorm.weight": ones, "eh_proj.weight": projection}
        own["shared_head.norm.weight"] = frozen.tensors["model.norm.weight"]
        self.module.start_from({**last, **own}, slice(None))

    @property
    def taps(self) -> tuple[FeatureTap, ...]:
        return (FeatureTap("normed"),)

    def states(self, batch: TrainBatch) -> Tensor:
        """(B, T, H) float32, after the final norm: of the tuned model, or of the original while
        frozen."""
        if self.freeze_backbone:
            return batch.normed.float()
        states: Tensor = self.backbone(input_ids=batch.tokens, use_cache=False).last_hidden_state
        return states.float()

    def losses(self, batch: TrainBatch, random: torch.Generator) -> dict[str, Tensor]:
        del random
        original, states = self.vocab.answers(batch), self.states(batch)
        if self.freeze_backbone:
            total, found = self._draft_losses(batch, states, original)
            return {"loss": total, **found}
        logits = self._logits(states[original.places])
        said = Answers(original.places, torch.softmax(logits.detach().float(), dim=-1))
        kept = kl_divergence(logits, original.probs).mean()
        total, found = self._draft_losses(batch, states, said)
        return {"loss": kept + self.draft_weight * total, "kl": kept.detach(), **found}

    def _draft_losses(
        self, batch: TrainBatch, states: Tensor, said: Answers
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The steps' weighted mean, and each step's own."""
        total, found = states.new_zeros(()), dict[str, Tensor]()
        for step, state in enumerate(self._steps(batch, states)):
            rows, at = said.after(step + 1)
            loss = soft_cross_entropy(self._logits(state[rows]), said.probs, at).mean()
            total = total + STEP_DECAY**step * loss
            found[f"step {step + 1}"] = loss.detach()
        return total / sum(STEP_DECAY**step for step in range(self.num_steps)), found

    @torch.no_grad()
    def ranks(self, batch: TrainBatch) -> Tensor:
        states = self.states(batch)
        depths = [
            lambda rows, state=state: self._logits(state[rows])
            for state in self._steps(batch, states)
        ]
        said = replace(batch, normed=states.to(self.full_head.dtype))
        return greedy_ranks(said, self.vocab, self.full_head, depths, first=1)

    def _steps(self, batch: TrainBatch, states: Tensor) -> Iterator[Tensor]:
        """(B, T, H) per step: row t of step k guesses token t + 2 + k."""
        state, past = states, Past()
        for step in range(self.num_steps):
            embedded = F.embedding(shifted(batch.tokens, step + 1), self.embedding)
            state = self.module.step(embedded.to(state.dtype), state, past)
            yield state

    def _logits(self, state: Tensor) -> Tensor:
        return F.linear(state, self.vocab.weight.to(state.dtype))

    def export(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        config = draft_layer_config(self.config, "SpecVizMTPForCausalLM")
        config |= {"method": self.method, "draft_vocab_size": len(self.vocab.ids)}
        config |= {"num_hidden_layers": self.config.num_hidden_layers}
        config |= {"num_nextn_predict_layers": 1, "num_speculative_steps": self.num_steps}
        config |= {"lora_rank": self.rank, "lora_alpha": self.alpha}
        published = {
            name.replace("module.", self._prefix, 1) if name.startswith("module.") else name: tensor
            for name, tensor in self.state_dict().items()
        }
        return config, {**published, **vocab_tensors(self.vocab)}

    def adopt(self, tensors: Mapping[str, Tensor]) -> None:
        own = {
            f"module.{name.removeprefix(self._prefix)}"
            if name.startswith(self._prefix)
            else name: t
            for name, t in tensors.items()
        }
        load_named(self, self._without_idle_updates(own), self.vocab)

    def _without_idle_updates(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Less the updates that are zero, of layers which this network does not update."""
        known = self.state_dict()
        idle = {
            name.removesuffix("B")
            for name, t in tensors.items()
            if name.endswith(".lora_B") and name not in known and not t.any()
        }
        return {name: t for name, t in tensors.items() if name[:-1] not in idle}

    @property
    def _prefix(self) -> str:
        """A published MTP module is the layer behind the target's last."""
        return f"model.layers.{self.config.num_hidden_layers}."


def kl_divergence(logits: Tensor, probs: Tensor) -> Tensor:
    """(n,) KL(probs || softmax(logits)); both (n, Vd)."""
    return soft_cross_entropy(logits, probs) + torch.xlogy(probs, probs).sum(dim=-1)
