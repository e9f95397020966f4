"""A smaller or cheaper model samples a chain (Leviathan et al. 2023, arXiv:2211.17192; Chen et
al. 2023, arXiv:2302.01318).

Its distribution q goes through the same sampling settings as the target's p, along the row's own
path, and travels with the proposal: what is verified is what was drawn from. Its vocabulary may
be padded differently from the target's; only ids both know are ever drafted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from specviz.config import Exactness
from specviz.drafters.base import CopySpec, DraftContext, Outcome, Proposal, TargetKit
from specviz.drafters.knobs import knob
from specviz.lm.base import FeatureTap, KVCache, LanguageModel
from specviz.lm.device import Stopwatch
from specviz.tree import DraftTree

DRAFTS = ("auto", "own checkpoint", "4-bit copy", "truncated copy")


@dataclass(frozen=True, slots=True)
class DraftModelConfig:
    num_draft_tokens: int = knob(3, 1, 16, help="K: tokens drafted one after another in a round")
    draft: str = knob(
        "auto",
        help="What drafts: the owner's own draft checkpoint, a 4-bit copy of the target, or its "
        "first layers alone. Auto takes the first of these that exists here",
        choices=DRAFTS,
    )
    num_layers: int = knob(8, 1, 64, help="Layers of a truncated copy")
    is_adaptive: bool = knob(
        False, help="Two tokens more after a round that kept all of its draft, else one less"
    )


class DraftModel:
    Config: ClassVar[type] = DraftModelConfig
    title: ClassVar[str] = "Draft model"
    summary: ClassVar[str] = "A cheaper model guesses a chain of tokens; one pass checks them all."
    paper: ClassVar[str] = "Leviathan et al. 2023, arXiv:2211.17192"
    exactness: ClassVar[Exactness] = "exact"
    taps: tuple[FeatureTap, ...] = ()

    def __init__(self, config: DraftModelConfig, kit: TargetKit) -> None:
        self.kit = kit
        self.lm, self.description = _choose_draft(config, kit)
        self.length = DraftLength(config.num_draft_tokens, is_adaptive=config.is_adaptive)
        self.tokens: tuple[int, ...] = ()  # what the draft's cache is a cache of
        self.cache: KVCache | None = None

    def start(self, context: DraftContext) -> None:
        if len(context.tokens) > self.lm.max_context:
            raise ValueError(
                f"The prompt has {len(context.tokens)} tokens and the draft model holds "
                f"{self.lm.max_context}; shorten the prompt or choose another draft."
            )
        capacity = min(len(context.tokens) + context.max_depth, self.lm.max_context) + 1
        self.cache = self.lm.new_cache(capacity)
        self.tokens = context.tokens[:-1]
        self.lm.prefill(self.tokens, self.cache)

    def propose(self, context: DraftContext) -> Proposal:
        cache = self._caught_up(context.tokens)
        watch = Stopwatch(self.lm.device)
        path, rows, seconds = list(context.tokens), list[Tensor](), list[float]()
        room = self.lm.max_context - len(context.tokens)
        count = max(0, min(self.length.current, context.max_depth, room))
        for _ in range(count):
            unread = path[cache.length :]  # the root, and a token accepted beyond the last draft
            logits = self.lm.read(DraftTree.chain(unread[0], unread[1:]), cache).logits[-1]
            cache.keep(range(len(unread)))
            probs = context.sampling.probs(self._shared(logits), path)
            rows.append(probs)
            path.append(context.chance.token(probs, len(path)))
            seconds.append(watch.lap())
        self.tokens = tuple(path[: cache.length])
        draft = path[len(context.tokens) :]
        tree = DraftTree.chain(context.tokens[-1], draft)
        if not rows:
            return Proposal(tree, (1.0,))
        draft_probs = [float(q[token]) for q, token in zip(rows, draft, strict=True)]
        rows.append(torch.zeros_like(rows[0]))  # the last row has no children
        return Proposal(tree, (1.0, *draft_probs), torch.stack(rows), step_seconds=tuple(seconds))

    def observe(self, outcome: Outcome) -> None:
        self.length.learn(outcome.tree.num_draft_tokens, len(outcome.verdict.accepted_rows))

    def _caught_up(self, tokens: tuple[int, ...]) -> KVCache:
        """The cache cropped to the longest prefix it shares with the committed text, less the root."""
        assert self.cache is not None, "start comes first"
        known = min(len(self.tokens), len(tokens) - 1)
        while self.tokens[:known] != tokens[:known]:
            known -= 1
        self.cache.crop(known)
        return self.cache

    def _shared(self, logits: Tensor) -> Tensor:
        """(V,) over the target's ids: ids only one of the two knows are never drafted."""
        size = min(len(logits), self.kit.vocab_size)
        shared = torch.full((self.kit.vocab_size,), -torch.inf, dtype=logits.dtype)
        shared[:size] = logits[:size].to("cpu")
        return shared


class DraftLength:
    """How many tokens to draft. State of one lane: an unlucky run teaches the next one nothing."""

    def __init__(self, start: int, *, is_adaptive: bool) -> None:
        self.current = start
        self.is_adaptive = is_adaptive

    def learn(self, num_drafted: int, num_accepted: int) -> None:
        if self.is_adaptive and num_drafted:
            step = 2 if num_accepted == num_drafted else -1
            self.current = max(1, min(16, self.current + step))


def _choose_draft(config: DraftModelConfig, kit: TargetKit) -> tuple[LanguageModel, str]:
    own = kit.draft_lm() if config.draft in ("auto", "own checkpoint") else None
    if own is not None:
        return own, f"a draft model of {own.num_parameters / 1e6:.0f}M parameters"
    if config.draft == "own checkpoint":
        raise ValueError(
            "No draft checkpoint was given; start with --draft FOLDER, or choose another draft."
        )
    if config.draft == "truncated copy" or (config.draft == "auto" and not kit.has_quantised_copy):
        count = min(config.num_layers, kit.num_layers - 1)
        copy = kit.copy(CopySpec("truncated", count))
        return copy, f"the target's first {count} of {kit.num_layers} layers, untrained as a draft"
    return kit.copy(CopySpec("quantised")), "a 4-bit copy of the target itself"
