"""A small draft model in training: a few of the target's layers, taught to imitate it
(distillation by forward KL, as in Zhou et al. 2023, arXiv:2310.08461).

It reads the target's embedding and answers through the target's head, both frozen and not
shipped; what is its own are the layers between and the final norm. Not for decoding: see
`draft_model`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
)
from specviz.lm.base import FeatureTap

# B = sequences, T = tokens of the longest, H = hidden size, Vd = draft vocabulary

EVAL_DEPTH = 4


class DraftLayer(TrainLayer):
    """A decoder layer as the target has them."""

    def __init__(self, config: Any) -> None:
        super().__init__(config, config.hidden_size)
        self.input_layernorm = Norm(config.hidden_size, config.rms_norm_eps)

    def run(self, hidden: Tensor) -> Tensor:
        """(B, T, H) -> (B, T, H), causal."""
        out: Tensor = self(self.input_layernorm(hidden), hidden, Past())
        return out


class DraftBody(nn.Module):
    """Layers and final norm, by transformers' names inside `model`."""

    def __init__(self, config: Any, num_layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DraftLayer(config) for _ in range(num_layers))
        self.norm = Norm(config.hidden_size, config.rms_norm_eps)

    def forward(self, hidden: Tensor) -> Tensor:
        for layer in self.layers:
            assert isinstance(layer, DraftLayer), "the layers made above"
            hidden = layer.run(hidden)
        out: Tensor = self.norm(hidden)
        return out


class DraftNet(nn.Module):
    """A causal language model: row t guesses token t + 1."""

    method: ClassVar[str] = "draft_model"
    embedding: Tensor
    full_head: Tensor

    def __init__(self, frozen: FrozenTarget, num_layers: int = 3, temperature: float = 1.0) -> None:
        """`temperature` softens both distributions of the loss alike."""
        super().__init__()
        self.config = frozen.config
        self.temperature = temperature
        self.model = DraftBody(frozen.config, num_layers)
        self.vocab = DraftVocab(frozen)
        self.register_buffer("embedding", frozen.embedding, persistent=False)
        self.register_buffer("full_head", frozen.head, persistent=False)
        self._start_from(frozen)

    @torch.no_grad()
    def _start_from(self, frozen: FrozenTarget) -> None:
        """The target's first layers, which know its embedding, and its last, which knows its head."""
        count = len(self.model.layers)
        sources = [*range(count - 1), frozen.config.num_hidden_layers - 1]
        for layer, source in zip(self.model.layers, sources, strict=True):
            assert isinstance(layer, DraftLayer), "the layers of `DraftBody`"
            layer.start_from(frozen.layer(source), slice(None))
        self.model.norm.weight.copy_(frozen.tensors["model.norm.weight"])

    @property
    def taps(self) -> tuple[FeatureTap, ...]:
        return ()

    def losses(self, batch: TrainBatch, random: torch.Generator) -> dict[str, Tensor]:
        """The soft cross-entropy against the target at every place whose next token it wrote: up
        to the target's own entropy, which is constant, the forward KL. Times temperature squared,
        which keeps the gradients of a softened loss as large as those of a plain one."""
        del random  # nothing here is noisy
        answers = self.vocab.answers(batch)
        rows, at = answers.after(0)
        probs = answers.probs[at]
        scale = self.temperature
        if scale != 1.0:
            probs = torch.softmax(probs.clamp_min(1e-30).log() / scale, dim=-1)
        logits = self._logits(self._hidden(batch)[rows]).float() / scale
        return {"loss": scale**2 * soft_cross_entropy(logits, probs).mean()}

    @torch.no_grad()
    def ranks(self, batch: TrainBatch) -> Tensor:
        """(starts, EVAL_DEPTH): see `Trainee.ranks`.

        A start is a position t, the root of a lane, whose token t + 1 is an answer token. Depth d
        is row t + d: what the model guesses once the tokens up to t + d are read, which for a causal
        model is the same whether it drafted them itself or the target wrote them. -1 stands where
        one of them was not the greedy one, or the answer ended.
        """
        hidden = self._hidden(batch)

        def logits_at(depth: int) -> Callable[[Tensor], Tensor]:
            return lambda rows: self._logits(shifted(hidden, depth)[rows])

        depths = [logits_at(depth) for depth in range(EVAL_DEPTH)]
        return greedy_ranks(batch, self.vocab, self.full_head, depths, first=0)

    def export(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        config = draft_layer_config(self.config, "LlamaForCausalLM") | {
            "method": self.method,
            "num_hidden_layers": len(self.model.layers),
            "rope_parameters": dict(self.config.rope_parameters),
            "max_position_embeddings": self.config.max_position_embeddings,
            "shares_embedding_and_head": True,
            "draft_vocab_size": len(self.vocab.ids),
        }
        tensors = {name: t.detach().bfloat16() for name, t in self.state_dict().items()}
        return config, tensors | {"d2t": self.vocab.d2t}

    def adopt(self, tensors: Mapping[str, Tensor]) -> None:
        load_named(self, tensors, self.vocab)

    def _hidden(self, batch: TrainBatch) -> Tensor:
        """(B, T, H) after the final norm."""
        out: Tensor = self.model(F.embedding(batch.tokens, self.embedding))
        return out

    def _logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.vocab.weight.to(hidden.dtype))
