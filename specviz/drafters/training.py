"""What a drafter's network must offer to be trained, and what several of them share.

The loop, the data and the files are `specviz.train`; a network knows its own loss and how often
its guesses would have been right. Networks are written for batches and gradients; the drafters
that decode read the same tensors in their own, leaner way, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.lm.base import FeatureTap

# B = sequences, T = tokens of the longest, H = hidden size, F = width of the taps, n = rows
# picked from B x T, Vd = draft vocabulary

CHUNK_ROWS = 64  # of logits at a time in the loss: two megabytes in float32
NOT_TRAINED = ("d2t", "t2d", "embed_tokens.weight")  # of a published checkpoint
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


@dataclass(frozen=True, slots=True)
class Answers:
    """The target's soft answers, computed once and read at several distances."""

    places: Tensor  # (B, T) bool: the target wrote the token after this place
    probs: Tensor  # (n, Vd): its distribution at each of them, in order

    def after(self, distance: int) -> tuple[Tensor, Tensor]:
        """Rows (B, T) bool whose place t + distance has an answer, and (m,) where in `probs`."""
        rows = _ahead(self.places, distance)
        is_read = torch.zeros_like(self.places)
        is_read[:, distance:] = self.places[:, distance:]
        return rows, is_read[self.places].nonzero()[:, 0]


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

    def answers(self, batch: TrainBatch) -> Answers:
        """What the target said at every place of `batch` whose next token it wrote."""
        places = torch.zeros_like(batch.is_answer)
        places[:, :-1] = batch.is_answer[:, 1:]
        return Answers(places, self.target_probs(batch.normed[places]))

    @property
    def d2t(self) -> Tensor:
        """(Vd,) int64 offsets: target id = draft id + d2t[draft id], as EAGLE-3 stores them."""
        return self.ids - torch.arange(len(self.ids), device=self.ids.device)


def soft_cross_entropy(logits: Tensor, probs: Tensor, at: Tensor | None = None) -> Tensor:
    """(n,) float32 -sum p log q: the gradient of KL(p || q). logits (n, Vd); probs (n, Vd), or
    (m, Vd) whose row at[i] belongs to logits' row i."""
    at = torch.arange(len(logits), device=logits.device) if at is None else at
    loss: Tensor = _SoftCrossEntropy.apply(logits, probs, at)  # type: ignore[no-untyped-call]
    return loss


class _SoftCrossEntropy(torch.autograd.Function):
    """Its gradient, q - p, is made while the logits are in the processor's cache: on a CPU the
    separate passes over n x Vd numbers would cost as much as the head itself."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, probs: Tensor, at: Tensor) -> Tensor:
        gradient, losses = torch.empty_like(logits), []
        for start in range(0, len(logits), CHUNK_ROWS):
            rows = slice(start, start + CHUNK_ROWS)
            wanted = probs[at[rows]].float()
            scores = torch.log_softmax(logits[rows], dim=-1, dtype=torch.float32)
            losses.append(-(wanted * scores).sum(dim=-1))
            gradient[rows] = scores.exp_().sub_(wanted)
        ctx.save_for_backward(gradient)
        return torch.cat(losses) if losses else logits.new_zeros(0, dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * outer[0][:, None].to(gradient.dtype), None, None


@torch.no_grad()
def greedy_ranks(
    batch: TrainBatch,
    vocab: DraftVocab,
    head: Tensor,
    depths: Sequence[Callable[[Tensor], Tensor]],
    *,
    first: int,
) -> Tensor:
    """`Trainee.ranks` of a network whose row t, at depth d from 0, guesses what the target says at
    place t + first + d. depths[d] maps rows (B, T) bool to logits (n, Vd); head (V, H) is the
    target's, whole."""
    places = vocab.answers(batch).places
    greedy = torch.full_like(batch.tokens, -1)
    greedy[places] = F.linear(batch.normed[places], head.to(batch.normed)).argmax(dim=-1)
    is_greedy = greedy == torch.roll(batch.tokens, -1, dims=1)  # -1 is no token
    wanted = torch.where(greedy < 0, -1, vocab.place[greedy.clamp_min(0)])
    found = list[Tensor]()
    starts = _ahead(places, first)
    rows = starts.clone()
    for depth, logits in enumerate(depths):
        distance = first + depth
        rows = rows & _ahead(places, distance)
        ranks = torch.full_like(batch.tokens, -1)
        if rows.any():
            ranks[rows] = ranks_of(logits(rows).float(), _ahead(wanted, distance)[rows])
        found.append(ranks[starts])
        rows = rows & _ahead(is_greedy, distance)  # deeper only behind what greedy decoding wrote
    return torch.stack(found, dim=-1)


def _ahead(x: Tensor, distance: int) -> Tensor:
    """(B, T): what `x` says `distance` places further on; False or 0 behind the end."""
    moved = torch.zeros_like(x)
    moved[:, : max(0, x.shape[1] - distance)] = x[:, distance:]
    return moved


def draft_layer_config(config: Any, architecture: str) -> dict[str, Any]:
    """config.json of a one-layer drafter shaped like a layer of its target."""
    head_dim = getattr(config, "head_dim", None)
    return {
        "architectures": [architecture],
        "model_type": "llama",
        "hidden_act": config.hidden_act,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": head_dim or config.hidden_size // config.num_attention_heads,
        "num_hidden_layers": 1,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_parameters["rope_theta"],
        "rope_parameters": dict(config.rope_parameters),
        "vocab_size": config.vocab_size,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }


def vocab_tensors(vocab: DraftVocab) -> dict[str, Tensor]:
    is_drafted = torch.zeros(len(vocab.place), dtype=torch.bool)
    is_drafted[vocab.ids.cpu()] = True
    return {"d2t": vocab.d2t, "t2d": is_drafted}


def load_named(net: nn.Module, tensors: Mapping[str, Tensor], vocab: DraftVocab) -> None:
    """A checkpoint's tensors into `net`; published ones may bring the target's embedding along, or
    know no draft vocabulary. ValueError: names, shapes or draft vocabulary differ."""
    if "d2t" in tensors and not torch.equal(tensors["d2t"].cpu(), vocab.d2t.cpu()):
        raise ValueError("This checkpoint drafts from another vocabulary; train on its corpus.")
    own = {name: tensor for name, tensor in tensors.items() if name not in NOT_TRAINED}
    wanted = net.state_dict()
    for name in sorted(own.keys() | wanted.keys()):
        came, fits = (
            tuple(held[name].shape) if name in held else "missing" for held in (own, wanted)
        )
        if came != fits:
            raise ValueError(
                f"This checkpoint does not fit the network: {name} is {came} in it, and {fits} here."
            )
    net.load_state_dict(own)


@torch.no_grad()
def ranks_of(logits: Tensor, places: Tensor) -> Tensor:
    """(n,) how many tokens stand before `places` (n,) in `logits` (n, Vd); NUM_RANKS if that many
    or if the place is -1."""
    own = logits.gather(-1, places.clamp_min(0)[:, None])
    ranks = (logits > own).sum(dim=-1)
    return torch.where(places < 0, NUM_RANKS, ranks.clamp_max(NUM_RANKS))
