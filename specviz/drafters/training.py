"""What a drafter's network must offer to be trained, and what several of them share.

The loop, the data and the files are `specviz.train`; a network knows its own loss and how often
its guesses would have been right. Networks are written for batches and gradients; the drafters
that decode read the same tensors in their own, leaner way, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.lm.base import FeatureTap

# B = sequences, T = tokens of the longest, H = hidden size, F = width of the taps, n = rows
# picked from B x T, Vd = draft vocabulary

NUM_RANKS = 10  # how far down a drafter's list a hit is looked for


@dataclass(frozen=True, slots=True)
class TrainBatch:
    """Sequences the target wrote, right-padded, with what it thought while writing."""

    tokens: Tensor  # (B, T) long
    is_answer: Tensor  # (B, T) bool: written by the target; neither prompt nor padding
    features: Tensor  # (B, T, F) bf16: the taps the network asked for
    normed: Tensor  # (B, T, H) bf16: after the final norm; its head's logits choose token t + 1


@dataclass(frozen=True, slots=True)
class FrozenTarget:
    """The parts of a target that training reads and never changes."""

    folder: Path
    config: Any  # transformers' config
    tensors: Mapping[str, Tensor]  # transformers' names, bf16
    draft_vocab: Tensor  # (Vd,) ascending token ids: all a drafter may guess

    @property
    def embedding(self) -> Tensor:
        return self.tensors["model.embed_tokens.weight"]

    @property
    def head(self) -> Tensor:
        return self.embedding if self.config.tie_word_embeddings else self.tensors["lm_head.weight"]

    def layer(self, index: int) -> dict[str, Tensor]:
        """A layer's tensors, by their names inside it."""
        prefix = f"model.layers.{index}."
        return {
            name.removeprefix(prefix): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(prefix)
        }


class Trainee(Protocol):
    """A network of one method; also an `nn.Module`, whose parameters are what is trained."""

    method: ClassVar[str]  # folder name of its checkpoint

    @property
    def taps(self) -> tuple[FeatureTap, ...]: ...

    def losses(self, batch: TrainBatch, random: torch.Generator) -> dict[str, Tensor]:
        """Scalars; "loss" is minimised, the others are shown. `random` draws all noise."""

    def ranks(self, batch: TrainBatch) -> Tensor:
        """(starts, depths): place of the target's own greedy token in the drafter's list.

        A start is an answer token the target greedily wrote; at each depth the tokens before it
        are the true ones. NUM_RANKS: not among the first NUM_RANKS. -1: past the sequence's end.
        """

    def export(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """config.json and tensors, in the published names of the method."""

    def adopt(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from a checkpoint in the published names. ValueError: it does not fit."""


class DraftVocab(nn.Module):
    """The target's head, or a head of the drafter's own, over the draft vocabulary alone."""

    ids: Tensor  # (Vd,)
    place: Tensor  # (V,) index in the draft vocabulary, -1 outside
    weight: Tensor  # (Vd, H) the target's head rows, frozen

    def __init__(self, frozen: FrozenTarget) -> None:
        super().__init__()
        ids = frozen.draft_vocab
        place = torch.full((len(frozen.head),), -1)
        place[ids] = torch.arange(len(ids))
        self.register_buffer("ids", ids, persistent=False)
        self.register_buffer("place", place, persistent=False)
        self.register_buffer("weight", frozen.head[ids].clone(), persistent=False)

    @torch.no_grad()
    def target_probs(self, normed: Tensor) -> Tensor:
        """(n, Vd) float32: what the target gives each token of the draft vocabulary."""
        return torch.softmax(F.linear(normed, self.weight).float(), dim=-1)

    @property
    def d2t(self) -> Tensor:
        """(Vd,) int64 offsets: target id = draft id + d2t[draft id], as EAGLE-3 stores them."""
        return self.ids - torch.arange(len(self.ids))


def soft_cross_entropy(logits: Tensor, probs: Tensor) -> Tensor:
    """(n,) -sum p log q: the gradient of KL(p || q). logits and probs (n, Vd)."""
    scores = logits.float()
    return torch.logsumexp(scores, dim=-1) - (probs * scores).sum(dim=-1)


@torch.no_grad()
def ranks_of(logits: Tensor, places: Tensor) -> Tensor:
    """(n,) how many tokens stand before `places` (n,) in `logits` (n, Vd); NUM_RANKS if that many
    or if the place is -1."""
    own = logits.gather(-1, places.clamp_min(0)[:, None])
    ranks = (logits > own).sum(dim=-1)
    return torch.where(places < 0, NUM_RANKS, ranks.clamp_max(NUM_RANKS))
