"""Verification as published codes have got it wrong: each mistake must be caught by our tests.

The walk is written a second time here, in plain numbers, with one switch per mistake. With no
switch set it is right, which the tests check too: the mistakes alone then make the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from specviz.lm.sampling import Chance
from specviz.tree import DraftTree

Mistake = Literal[
    "none",
    "recovers from p itself",
    "recovers the favourite",
    "tries siblings against an untouched p",
    "keeps q as it was after a rejection",
]
MISTAKES: tuple[Mistake, ...] = (
    "recovers from p itself",
    "recovers the favourite",
    "tries siblings against an untouched p",
    "keeps q as it was after a rejection",
)
RowProbs = Callable[[int], Tensor]


def walk(
    tree: DraftTree,
    target: RowProbs,
    draft: Tensor | None,
    chance: Chance,
    mistake: Mistake = "none",
) -> tuple[int, ...]:
    """The tokens a round adds."""
    row, tokens = 0, list[int]()
    while True:
        p, survivor = target(row), None
        residual = p
        q = None if draft is None else draft[row]
        for child in tree.children(row):
            token = tree.tokens[child]
            ratio = float(residual[token]) / (1.0 if q is None else float(q[token]))
            if chance.uniform() < min(1.0, ratio):
                survivor = child
                break
            if mistake != "tries siblings against an untouched p":
                residual = _left_over(residual, q, token)
            if q is not None and mistake != "keeps q as it was after a rejection":
                q = _without(q, token)
        if survivor is None:
            source = p if mistake == "recovers from p itself" else residual
            if mistake == "recovers the favourite" and tree.children(row):
                return (*tokens, int(source.argmax()))
            return (*tokens, chance.token(source, len(tokens)))
        tokens.append(tree.tokens[survivor])
        row = survivor


def soft_greedy_walk(
    tree: DraftTree, logits: Callable[[int], Tensor], chance: Chance
) -> tuple[int, ...]:
    """Temperature 0 as in codes that pick by argmax and accept by softmax: not greedy at all."""
    row, tokens = 0, list[int]()
    while children := tree.children(row):
        token = tree.tokens[children[0]]
        if not chance.uniform() < float(torch.softmax(logits(row), -1)[token]):
            break
        tokens.append(token)
        row = children[0]
    return (*tokens, int(logits(row).argmax()))


def own_draw_per_child(tree: DraftTree, target: RowProbs, chance: Chance) -> tuple[int, ...]:
    """ "Sample from the target, accept if equal", with a fresh sample for every sibling."""
    row, tokens = 0, list[int]()
    while True:
        for child in tree.children(row):
            if chance.token(target(row), 0) == tree.tokens[child]:
                tokens.append(tree.tokens[child])
                row = child
                break
        else:
            return (*tokens, chance.token(target(row), 0))


def _left_over(p: Tensor, q: Tensor | None, token: int) -> Tensor:
    if q is None:
        return _without(p, token)
    rest = (p - q).clamp(min=0)
    return rest / rest.sum() if float(rest.sum()) > 0 else p


def _without(p: Tensor, token: int) -> Tensor:
    rest = p.clone()
    rest[token] = 0
    return rest / rest.sum() if float(rest.sum()) > 0 else p
