"""A smaller or cheaper model samples a chain (Leviathan et al. 2023, arXiv:2211.17192; Chen et
al. 2023, arXiv:2302.01318), or grows a tree of its likeliest tokens (SpecInfer, Miao et al. 2023,
arXiv:2305.09781; grown and cut as EAGLE-2's).

Of a chain its distribution q goes through the same sampling settings as the target's p, along the
row's own path, and travels with the proposal: what is verified is what was drawn from. A tree's
tokens are chosen, not drawn, at any temperature. The draft's vocabulary may be padded differently
from the target's, or be a part of it; only ids both know are ever drafted.
Training a draft for a target is `draft_net`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import torch
from torch import Tensor

from specviz.config import Exactness
from specviz.drafters.base import CopySpec, DraftContext, Outcome, Proposal, TargetKit
from specviz.drafters.growth import DynamicShape, grow_dynamic
from specviz.drafters.knobs import knob
from specviz.drafters.lm_rows import LmRows
from specviz.drafters.parts import known_ids
from specviz.lm.base import FeatureTap, KVCache, LanguageModel
from specviz.lm.checkpoints import DrafterCheckpoint
from specviz.lm.device import Laps
from specviz.lm.draft_lm import load_draft_lm, num_layers_of, num_own_parameters
from specviz.lm.sampling import Sampler
from specviz.tree import DraftTree
from specviz.words import Refusal, message, word

UNKNOWN = 0  # what a draft reads for a token it has no row for: what follows is guessed worse
LONGEST = 16  # draft of an adaptive length
DRAFTS = ("auto", "own checkpoint", "trained", "4-bit copy", "truncated copy")


@dataclass(frozen=True, slots=True)
class DraftModelConfig:
    num_draft_tokens: int = knob(3, 1, 16, help="K: tokens drafted one after another in a round")
    top_k: int = knob(
        1, 1, 10, help="Children of a node: 1 drafts a chain, more a tree as EAGLE-2 grows it"
    )
    budget: int = knob(
        16, 2, 64, help="Rows of a tree that the target reads in a round, the root included"
    )
    draft: str = knob(
        "auto",
        help="What drafts: the owner's own draft checkpoint, a small model trained to imitate the "
        "target, a 4-bit copy of it, or its first layers alone. Auto takes the first of these that "
        "exists here",
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
    paper: ClassVar[str] = (
        "Leviathan et al. 2023, arXiv:2211.17192; Chen et al. 2023, arXiv:2302.01318"
    )
    exactness: ClassVar[Exactness] = "exact"
    taps: tuple[FeatureTap, ...] = ()

    def __init__(self, config: DraftModelConfig, kit: TargetKit) -> None:
        chosen = _choose_draft(config, kit)
        self.lm, self.ids, self.description = chosen.lm, chosen.ids, chosen.description
        self.num_readable = chosen.num_readable
        self.laps = Laps(self.lm.device)
        self.length = DraftLength(config.num_draft_tokens, is_adaptive=config.is_adaptive)
        self.top_k, self.budget = config.top_k, config.budget
        self.tokens: tuple[int, ...] = ()  # what the draft's cache is a cache of
        self.cache: KVCache | None = None

    def start(self, context: DraftContext) -> None:
        if len(context.tokens) > self.lm.max_context:
            counts = {"count": len(context.tokens), "limit": self.lm.max_context}
            raise Refusal(message("refusal.draft_context", **counts))
        text = min(len(context.tokens) + context.max_depth, self.lm.max_context)
        capacity = text + 1 + self.top_k * self.length.longest  # a pass reads a whole tree
        self.cache = self.lm.new_cache(capacity)
        self.tokens = context.tokens[:-1]
        self.lm.prefill(self._readable(self.tokens), self.cache)

    def settle(self, context: DraftContext) -> None:
        del context
        assert self.cache is not None, "start comes first"
        self.lm.settle(self.cache)

    def propose(self, context: DraftContext) -> Proposal:
        cache = self._caught_up(context.tokens)
        room = self.lm.max_context - len(context.tokens)
        length = max(0, min(self.length.current, context.max_depth, room))
        if self.top_k > 1:
            return self._tree(context, cache, length)
        return self._chain(context, cache, length)

    def observe(self, outcome: Outcome) -> None:
        drafted = max(outcome.tree.depths)
        self.length.learn(drafted, len(outcome.verdict.accepted_rows))

    def _chain(self, context: DraftContext, cache: KVCache, length: int) -> Proposal:
        path, rows, draft_probs = list(context.tokens), list[Tensor](), [1.0]
        self.laps.start()
        for _ in range(length):
            # The root, and a token accepted beyond the last draft.
            unread = self._readable(path[cache.length :])
            logits = self.lm.read(DraftTree.chain(unread[0], unread[1:]), cache).logits[-1]
            cache.keep(range(len(unread)))
            if context.sampling.is_one_hot:
                token, q = self.ids.likeliest(logits, context.sampling.num_known_tokens)
            else:
                rows.append(self.ids.probs(logits, context.sampling, path))
                token = context.chance.token(rows[-1], len(path))
                q = float(rows[-1][token])
            path.append(token)
            draft_probs.append(q)
            self.laps.mark()
        self.tokens = tuple(path[: cache.length])
        tree = DraftTree.chain(context.tokens[-1], path[len(context.tokens) :])
        # The last row has no children. Likeliest tokens are point masses.
        child_probs = torch.stack([*rows, torch.zeros_like(rows[0])]) if rows else None
        seconds = self.laps.seconds(length)
        return Proposal(tree, tuple(draft_probs), child_probs, step_seconds=seconds)

    @torch.inference_mode()
    def _tree(self, context: DraftContext, cache: KVCache, depth: int) -> Proposal:
        unread = context.tokens[cache.length :]
        ids = self.ids.known(context.sampling.num_known_tokens)
        rows = LmRows(self.lm, cache, ids, unread, self._readable)
        rows.laps.start()
        shape = DynamicShape(self.top_k, depth, self.budget)
        proposal = grow_dynamic(rows, shape, context.tokens[-1], depth)
        self.tokens = context.tokens[: cache.length]
        return proposal

    def _readable(self, tokens: Sequence[int]) -> list[int]:
        """The tokens, but UNKNOWN for ids past the draft's table: those a tokenizer added later, which
        the target may have and its smaller sibling not."""
        return [token if token < self.num_readable else UNKNOWN for token in tokens]

    def _caught_up(self, tokens: tuple[int, ...]) -> KVCache:
        """The cache cropped to the longest prefix it shares with the committed text, less the root."""
        assert self.cache is not None, "start comes first"
        known = min(len(self.tokens), len(tokens) - 1)
        while self.tokens[:known] != tokens[:known]:
            known -= 1
        self.cache.crop(known)
        return self.cache


class DraftLength:
    """How many tokens to draft. State of one lane: an unlucky run teaches the next one nothing."""

    def __init__(self, start: int, *, is_adaptive: bool) -> None:
        self.current = start
        self.longest = LONGEST if is_adaptive else start
        self.is_adaptive = is_adaptive

    def learn(self, num_drafted: int, num_accepted: int) -> None:
        if self.is_adaptive and num_drafted:
            step = 2 if num_accepted == num_drafted else -1
            self.current = max(1, min(LONGEST, self.current + step))


class DraftIds:
    """Which of the target's ids a draft can name: row i of its logits stands for the i-th."""

    def __init__(self, ids: Tensor, vocab_size: int) -> None:
        """ids (Vd,) ascending."""
        self.ids, self.vocab_size = ids, vocab_size
        self.is_beginning = int(ids[-1]) == len(ids) - 1  # 0, 1, 2, ...: nothing is to be moved

    def probs(self, logits: Tensor, sampling: Sampler, path: Sequence[int]) -> Tensor:
        """(V,) float64 over the target's ids: what `sampling` makes of the draft's logits.

        Computed among the draft's own ids. All others have no chance, so that is the same, and
        cheaper by as much as they are more.
        """
        count = len(self.ids)
        own = Sampler(sampling.params, min(count, sampling.num_known_tokens))
        chances = own.probs(logits[:count], self._places(path))
        probs = torch.zeros(self.vocab_size, dtype=torch.float64)
        probs[slice(count) if self.is_beginning else self.ids] = chances
        return probs

    def likeliest(self, logits: Tensor, num_known_tokens: int) -> tuple[int, float]:
        """The token of the largest logit, and its chance by softmax. FloatingPointError: the logits
        are no numbers."""
        own = logits[: len(self.known(num_known_tokens))].float()
        best = own.max(0)
        chance = (best.values - own.logsumexp(0)).exp()
        place, q = torch.stack((best.indices, chance.double())).tolist()  # one wait for a device
        if not isfinite(q):
            raise FloatingPointError(word("failure.draft_scores"))
        return int(self.ids[int(place)]), q

    def known(self, num_known_tokens: int) -> Tensor:
        """(n,) those that are tokens; ids behind them are padding."""
        return self.ids[: int((self.ids < num_known_tokens).sum())]

    def _places(self, path: Sequence[int]) -> Iterator[int]:
        """Of those tokens of `path` that the draft can name; looked up only if asked for."""
        tokens = torch.tensor(path)
        places = torch.searchsorted(self.ids, tokens).clamp_max(len(self.ids) - 1)
        yield from places[self.ids[places] == tokens].tolist()


@dataclass(frozen=True, slots=True)
class _Draft:
    lm: LanguageModel
    ids: DraftIds
    description: str
    num_readable: int  # rows of its table: ids it can read


def _choose_draft(config: DraftModelConfig, kit: TargetKit) -> _Draft:
    own = kit.draft_lm() if config.draft in ("auto", "own checkpoint") else None
    if own is not None:
        return _same_ids(own, kit, word("drafts.own", size=f"{own.num_parameters / 1e6:.0f}"))
    if config.draft == "own checkpoint":
        raise Refusal(message("refusal.no_draft_checkpoint"))
    if config.draft == "trained":
        return _trained(kit.trained("draft_model"), kit)
    if config.draft == "auto" and (checkpoint := _trained_if_any(kit)) is not None:
        return _trained(checkpoint, kit)
    if config.draft == "truncated copy" or (config.draft == "auto" and not kit.has_quantised_copy):
        count = min(config.num_layers, kit.num_layers - 1)
        copy = kit.copy(CopySpec("truncated", count))
        words = word("drafts.first_layers", count=count, layers=kit.num_layers)
        return _same_ids(copy, kit, words)
    return _same_ids(kit.copy(CopySpec("quantised")), kit, word("drafts.four_bit"))


def _trained_if_any(kit: TargetKit) -> DrafterCheckpoint | None:
    """Nobody asked for trained weights by name, so their absence is no fault."""
    try:
        return kit.trained("draft_model")
    except ValueError:
        return None


def _trained(checkpoint: DrafterCheckpoint, kit: TargetKit) -> _Draft:
    ids = known_ids(checkpoint, kit)
    if "draft_model" not in kit.made:
        embedding = kit.embed(torch.arange(kit.vocab_size, device=kit.device))
        kit.made["draft_model"] = load_draft_lm(
            checkpoint, embedding, kit.head_rows(ids), context=kit.max_context
        )
    size = f"{num_own_parameters(checkpoint) / 1e6:.0f}"
    words = word("drafts.distilled", layers=num_layers_of(checkpoint), size=size)
    own = DraftIds(ids.cpu(), kit.vocab_size)
    return _Draft(kit.made["draft_model"], own, words, kit.vocab_size)


def _same_ids(lm: LanguageModel, kit: TargetKit, description: str) -> _Draft:
    ids = torch.arange(min(lm.vocab_size, kit.vocab_size))
    return _Draft(lm, DraftIds(ids, kit.vocab_size), description, lm.vocab_size)
