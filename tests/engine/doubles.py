"""Drafters that know, or pretend to: what the loop must withstand whatever is drafted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from specviz.config import Exactness
from specviz.drafters.base import DraftContext, Outcome, Proposal, TargetKit
from specviz.lm.base import FeatureTap
from specviz.tree import DraftTree

Guess = Callable[[DraftContext], DraftTree]


@dataclass(frozen=True, slots=True)
class NoKnobs:
    """Nothing to set."""


class Double:
    """`drafters.base.Drafter` whose trees come from a function."""

    Config: ClassVar[type] = NoKnobs
    title: ClassVar[str] = "Double"
    summary: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    exactness: ClassVar[Exactness] = "exact"
    taps: tuple[FeatureTap, ...] = ()
    description = "a test double"

    def __init__(self, guess: Guess) -> None:
        self.guess = guess
        self.outcomes: list[Outcome] = []

    def start(self, context: DraftContext) -> None: ...

    def propose(self, context: DraftContext) -> Proposal:
        tree = self.guess(context)
        return Proposal(tree, (1.0,) * len(tree))

    def observe(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


class ConfidentDouble(Double):
    """Claims to have sampled its chain with near-certainty: q = 1 - 1e-9 on each token."""

    def propose(self, context: DraftContext) -> Proposal:
        tree, size = self.guess(context), context.sampling.num_known_tokens
        q = torch.full((len(tree), size), 1e-9 / (size - 1), dtype=torch.float64)
        for row in range(1, len(tree)):
            q[tree.parents[row], tree.tokens[row]] = 1 - 1e-9
        return Proposal(tree, (1.0,) * len(tree), q)


def making(guess: Guess, double: type[Double] = Double) -> Callable[[TargetKit], Double]:
    return lambda kit: double(guess)


def chains(draft: Callable[[DraftContext], Sequence[int]]) -> Guess:
    return lambda context: DraftTree.chain(
        context.tokens[-1], list(draft(context))[: context.max_depth]
    )


def oracle(prompt_size: int, answer: Sequence[int], length: int = 8) -> Guess:
    """Drafts the plain lane's own answer."""

    def guess(context: DraftContext) -> Sequence[int]:
        done = len(context.tokens) - prompt_size
        return answer[done : done + length]

    return chains(guess)


def half(prompt_size: int, answer: Sequence[int], size: int, length: int = 8) -> Guess:
    """The plain lane's answer, every other position of it wrong."""
    wrong = [token if i % 2 else (token + 1) % size for i, token in enumerate(answer)]
    return oracle(prompt_size, wrong, length)


def constant(token: int, length: int) -> Guess:
    return chains(lambda context: [token] * length)


def bushy(prompt_size: int, answer: Sequence[int], size: int) -> Guess:
    """The right path is the last branch, wrong siblings stand before it, one of them longer."""

    def guess(context: DraftContext) -> DraftTree:
        done = len(context.tokens) - prompt_size
        right = list(answer[done : done + 3])
        wrong = [[(right[0] + i) % size] * 6 for i in (1, 2)] if right else []
        paths = [*wrong, [*right[:1], *wrong[0][:1]] if right else [], right]
        return DraftTree.from_paths(
            context.tokens[-1], [path[: context.max_depth] for path in paths]
        )

    return guess
