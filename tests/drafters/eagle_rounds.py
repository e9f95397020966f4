"""Rounds played by hand on an EAGLE drafter, and a language in which it can be right every time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from specviz.config import SamplingParams
from specviz.drafters import drafter_class
from specviz.drafters.base import DraftContext, Drafter, Proposal, TargetKit
from specviz.lm.base import FeatureTap
from specviz.lm.checkpoints import DrafterCheckpoint
from specviz.lm.sampling import FreeChance, Sampler
from tests.engine.lanes import Knobs, MakeDrafter
from tests.engine.tables import TableLM, random_table

V = 31
CYCLE = (3, 14, 0, 9, 5, 11, 1, 13, 6, 10, 2)  # ids 4, 7, 8, 12 and 15 are never said
CYCLE_SIZE = 16


def made(name: str, knobs: Knobs, checkpoint: DrafterCheckpoint) -> MakeDrafter:
    """The drafter with these weights, whatever is asked for."""

    def make(kit: TargetKit) -> Drafter:
        cls = drafter_class(name)
        return cls(cls.Config(**knobs), replace(kit, trained=lambda _: checkpoint))

    return make


def context_of(tokens: Sequence[int], features: Tensor, *, max_depth: int = 30) -> DraftContext:
    sampler, chance = Sampler(SamplingParams(), V), FreeChance(0)
    return DraftContext(tuple(tokens), features, sampler, chance, max_depth)


def rounds_by_hand(
    drafter: Drafter, accepted: Sequence[int], width: int, *, prompt: int = 300
) -> Iterator[tuple[list[int], Tensor, Proposal]]:
    """(tokens, features, proposal) of a round for each number of tokens that it accepts.

    Text and features are random: whatever the target thinks, the drafter takes it as it comes.
    """
    rng = torch.Generator().manual_seed(0)
    tokens: list[int] = torch.randint(V, (prompt,), generator=rng).tolist()
    features = torch.randn(prompt - 1, width, generator=rng)
    drafter.start(context_of(tokens, features))
    for count in accepted:
        proposal = drafter.propose(context_of(tokens, features))
        yield tokens, features, proposal
        tree = proposal.tree
        deep = next(row for row in range(len(tree)) if tree.depths[row] == count)
        own = int(torch.randint(V, (), generator=rng))
        tokens = [*tokens, *tree.path_tokens(deep), own]
        features = torch.cat([features, torch.randn(count + 1, width, generator=rng)])


def text_target() -> TableLM:
    return random_table(V)


class CycleLM(TableLM):
    """Says CYCLE for ever. Embedding and hidden state of a token are its own unit vector."""

    hidden_size = CYCLE_SIZE

    def __init__(self, dtype: torch.dtype) -> None:
        after = torch.eye(CYCLE_SIZE)
        for token, following in zip(CYCLE, (*CYCLE[1:], CYCLE[0]), strict=True):
            after[token] = torch.eye(CYCLE_SIZE)[following]
        super().__init__(20.0 * after.expand(CYCLE_SIZE, -1, -1).to(dtype))
        self.dtype = dtype
        self.after_token = after  # (V, V) one-hot rows: what follows each token
        self.embedding, self.head_weight = torch.eye(CYCLE_SIZE).to(dtype), 10 * after.T.to(dtype)

    def _features(
        self, before: Sequence[int], last: Sequence[int], taps: Sequence[FeatureTap]
    ) -> Tensor | None:
        del before
        states = self.embedding[list(last)]
        return torch.cat([states] * len(taps), dim=-1) if taps else None


def cycle_vocabulary() -> Tensor:
    """(Vd,) d2t: only ids of the cycle are drafted."""
    return torch.tensor(sorted(CYCLE)) - torch.arange(len(CYCLE))
