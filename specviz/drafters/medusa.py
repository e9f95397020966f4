"""Medusa-1 (Cai et al. 2024, arXiv:2401.10774): heads on the target's last state guess the tokens
ahead, each on its own; a static tree of their likeliest tokens is verified in one pass.

Lossless: the tree is chosen without chance, so the usual verification keeps the target's
distribution; Medusa's typical acceptance is not here. Training is `medusa_net`; what published
files hold is `medusa_files`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from specviz.config import Exactness
from specviz.drafters.base import DraftContext, Outcome, Proposal, TargetKit
from specviz.drafters.growth import likeliest, nothing
from specviz.drafters.knobs import knob
from specviz.drafters.medusa_files import HeadWeights, read_heads
from specviz.drafters.static_growth import StaticTree, filled, likeliest_paths
from specviz.lm.base import FeatureTap
from specviz.lm.device import Laps
from specviz.lm.linear import Linear, best_linear
from specviz.words import message, word

# K = heads, H = hidden size, Vd = ids the heads may guess

# [head][rank]: how often that guess is the target's token, where a checkpoint's config.json does
# not tell: each head a fifth less than the one before, each rank two fifths of the one above.
ASSUMED_RATES = tuple(tuple(0.5 * 0.8**head * 0.4**rank for rank in range(10)) for head in range(5))


@dataclass(frozen=True, slots=True)
class MedusaConfig:
    budget: int = knob(16, 2, 64, help="Rows the target reads in a round, the root included")
    num_heads: int = knob(4, 1, 5, help="Heads used at most: how far ahead is guessed")


class Medusa:
    Config: ClassVar[type] = MedusaConfig
    title: ClassVar[str] = "Medusa"
    summary: ClassVar[str] = (
        "Extra heads on the target guess several tokens ahead at once; a tree of their best "
        "guesses is checked in one pass."
    )
    paper: ClassVar[str] = "Cai et al. 2024, arXiv:2401.10774"
    exactness: ClassVar[Exactness] = "exact"
    taps: tuple[FeatureTap, ...] = (FeatureTap("normed"),)

    def __init__(self, config: MedusaConfig, kit: TargetKit) -> None:
        checkpoint = kit.trained("medusa")
        weights = read_heads(checkpoint, kit)
        count = min(config.num_heads, len(weights.blocks))
        measured = checkpoint.config.get("hit_rates")
        rates = [head[: len(weights.ids)] for head in (measured or ASSUMED_RATES)[:count]]
        self.shape = StaticTree(likeliest_paths(rates, config.budget - 1))
        self.heads = MedusaHeads(weights, self.shape.depth, kit)
        self.laps = Laps(kit.device)
        self.description = word(
            "drafts.heads",
            heads=self.shape.depth,
            size=f"{self.heads.num_parameters / 1e6:.1f}",
            rows=len(self.shape.paths) + 1,
            rates=message("drafts.measured" if measured else "drafts.assumed"),
        )

    def start(self, context: DraftContext) -> None:
        """The target has read the prompt; the heads keep nothing of their own."""

    def propose(self, context: DraftContext) -> Proposal:
        root = context.tokens[-1]
        count = self.shape.num_within(context.max_depth)
        if not count or context.features is None or not len(context.features):
            return nothing(root)  # after a prompt of one token, nothing is cached yet
        # The root is committed but not yet read. The last state there is belongs to the token
        # before it and chooses the root; head 0 there guesses what follows the root.
        self.laps.start()
        guesses = self.heads.guess(context.features[-1:], self.shape.num_ranks)
        self.laps.mark()
        found = [guesses[len(path) - 1][path[-1]] for path in self.shape.paths[:count]]
        return filled(self.shape, root, found, self.laps.seconds(1))

    def observe(self, outcome: Outcome) -> None:
        """The next state comes with the next context."""


class MedusaHeads:
    """The first `count` heads of a checkpoint, all their first blocks in one product."""

    def __init__(self, weights: HeadWeights, count: int, kit: TargetKit) -> None:
        blocks, own = weights.blocks[:count], weights.logits[:count]
        self.count, self.ids = count, weights.ids
        first = [head[0] for head in blocks]
        biases = [bias for _, bias in first if bias is not None]
        stacked = torch.cat([weight for weight, _ in first])
        self.block = best_linear(stacked, torch.cat(biases) if biases else None)
        self.further = [[best_linear(*block) for block in head[1:]] for head in blocks]
        self.logits: list[Callable[[Tensor], Tensor]] = [best_linear(rows) for rows in own]
        if not own:
            self.logits = [_target_logits(weights.ids, kit)]
        held = [t for head in blocks for block in head for t in block if t is not None]
        self.num_parameters = sum(t.numel() for t in (*held, *own))

    @torch.inference_mode()
    def guess(self, state: Tensor, num_ranks: int) -> list[list[tuple[int, float]]]:
        """[head][rank]: a token and the head's log-probability of it. state (1, H)."""
        hidden = state + self.block.silu(state).view(self.count, -1)  # (K, H): a row per head
        if any(self.further):
            rows = zip(torch.split(hidden, 1), self.further, strict=True)
            hidden = torch.cat([_through(row, blocks) for row, blocks in rows])
        if len(self.logits) == 1:
            logits = self.logits[0](hidden)  # (K, Vd)
        else:
            logits = torch.cat([head(hidden[i : i + 1]) for i, head in enumerate(self.logits)])
        log_probs, places = likeliest(logits, num_ranks)
        numbers = torch.stack((self.ids[places].double(), log_probs.double()))
        tokens, chances = numbers.tolist()  # here the device is waited for
        return [
            list(zip(map(int, row), chance, strict=True))
            for row, chance in zip(tokens, chances, strict=True)
        ]


def _target_logits(ids: Tensor, kit: TargetKit) -> Callable[[Tensor], Tensor]:
    """(n, H) -> (n, Vd) by the target's own head."""
    if int(ids[-1]) == len(ids) - 1:  # 0, 1, 2, ...: the first rows of the head it has already
        return lambda hidden: kit.head(hidden)[:, : len(ids)]
    return best_linear(kit.head_rows(ids))


def _through(row: Tensor, blocks: Sequence[Linear]) -> Tensor:
    """(1, H) after a head's blocks behind the first."""
    for block in blocks:
        row = row + block.silu(row)
    return row
