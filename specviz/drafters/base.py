"""What a drafter is: it proposes a tree, then observes what became of it.

A drafter serves one lane of one run and dies with it; there is no reset. It is built with
parts of the target (`TargetKit`), never with the target, and never verifies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor

from specviz.config import Exactness
from specviz.lm.base import FeatureTap, LanguageModel
from specviz.lm.checkpoints import DrafterCheckpoint
from specviz.lm.graphs import Recorder
from specviz.lm.sampling import Chance, Sampler
from specviz.trace import Verdict
from specviz.tree import DraftTree


@dataclass(frozen=True, slots=True)
class DraftContext:
    tokens: tuple[int, ...]  # (T,) committed tokens, prompt included; the last one is the root
    features: Tensor | None  # (T - 1, F) of every committed token but the root; None if no taps
    sampling: Sampler  # logits to the distribution in force, along a row's own path
    chance: Chance  # where every random draw of this lane comes from
    max_depth: int  # deeper draft tokens could not be committed: budget or context ends there


@dataclass(frozen=True, slots=True)
class GrownToken:
    """A candidate the drafter considered; the trace shows kept and pruned alike."""

    token: int
    parent: int  # index into the candidates, -1 under the root
    depth: int
    score: float
    draft_step: int
    is_kept: bool


@dataclass(frozen=True, slots=True)
class Proposal:
    tree: DraftTree
    draft_probs: tuple[float, ...]  # (N,) q(token | path), for the eye and the trace
    child_probs: Tensor | None = None  # (N, V) float64: what each row's children were drawn from,
    # without replacement; None if they were chosen deterministically: a point mass each
    candidates: tuple[GrownToken, ...] = ()
    step_seconds: tuple[float, ...] = ()  # one per forward pass of the drafter
    notes: dict[str, str] = field(default_factory=dict)  # what it says of itself this round


@dataclass(frozen=True, slots=True)
class Outcome:
    tree: DraftTree
    verdict: Verdict
    new_tokens: tuple[int, ...]  # committed this round, cut exactly at a stop
    features: Tensor | None  # (A + 1, F) of the root and the accepted rows
    logits: Tensor  # (N, V) the target's, for drafters that learn from its favourites


class Drafter(Protocol):
    Config: ClassVar[type]  # a frozen dataclass whose fields are knobs (`drafters.knobs.knob`)
    title: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    exactness: ClassVar[Exactness]
    taps: tuple[FeatureTap, ...]  # the hidden states of the target it reads
    description: str  # what drafts here, called what it is

    def __init__(self, config: Any, kit: TargetKit) -> None: ...

    def start(self, context: DraftContext) -> None:
        """Read the prompt; timed as the drafter's own prefill."""

    def propose(self, context: DraftContext) -> Proposal: ...
    def observe(self, outcome: Outcome) -> None: ...


def backbone_of(drafter: Drafter) -> str:
    """What decodes and verifies the drafter's lane: "" the target, or "mtp", the model that was
    tuned together with its drafter. A drafter that says nothing of it works on the target."""
    return str(getattr(drafter, "backbone", ""))


def settle(drafter: Drafter, context: DraftContext) -> None:
    """Let it do what belongs to no round and to no clock: capture its work, come in where caches take
    turns. Asked for before every round; a drafter that has nothing of this says nothing of it."""
    does = getattr(drafter, "settle", None)
    if does is not None:
        does(context)


@dataclass(frozen=True, slots=True)
class CopySpec:
    """A cheaper copy of the target to draft with."""

    kind: Literal["truncated", "quantised"]
    num_layers: int = 0  # of a truncated copy: the first so many


@dataclass(frozen=True, slots=True)
class TargetKit:
    """The parts of the target a drafter may be built with; weights are shared, state is not."""

    vocab_size: int
    num_known_tokens: int  # ids the tokenizer defines; rows above are padding
    hidden_size: int
    num_layers: int
    max_context: int
    dtype: torch.dtype  # compute dtype of the target's hidden states
    device: torch.device
    embed: Callable[[Tensor], Tensor]
    head: Callable[[Tensor], Tensor]
    head_rows: Callable[[Tensor], Tensor]  # ids (n,) -> (n, H) rows of the head, compute dtype
    copy: Callable[[CopySpec], LanguageModel]  # ValueError says why it cannot be made here
    has_quantised_copy: bool
    draft_lm: Callable[
        [], LanguageModel | None
    ]  # the owner's own draft checkpoint, if one was given
    recorder: Recorder | None  # what captures work on this device; None: nothing does
    trained: Callable[[str], DrafterCheckpoint]  # by method; ValueError: none for this target here
    # Models made of trained weights, by method: made by the first lane that needs one, for all.
    made: dict[str, LanguageModel] = field(default_factory=dict)

    @classmethod
    def of(cls, lm: LanguageModel, **own: Any) -> TargetKit:
        """What the model says of itself; `own`: the fields that only who holds it can fill."""
        return cls(
            vocab_size=lm.vocab_size,
            hidden_size=lm.hidden_size,
            num_layers=lm.num_layers,
            max_context=lm.max_context,
            dtype=lm.dtype,
            device=lm.device,
            embed=lm.embed,
            head=lm.head,
            **own,
        )
