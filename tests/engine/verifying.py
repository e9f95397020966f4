"""Cases to verify and what must come of them, exactly: no sampling, no tolerance but rounding's.

A case is a target and a draft distribution for every path over a few tokens, and a way to draft
a tree. The tokens a round adds, filled up with plain draws from p, must have p's own joint
distribution.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import torch
from torch import Tensor

from specviz.engine.verify import verify
from specviz.tree import DraftTree
from tests.engine.chances import ScriptedChance, enumerate_outcomes

V = 3
DEPTH = 3  # tokens whose joint distribution is compared
Path = tuple[int, ...]
Table = Callable[[Path], Tensor]
Tokens = tuple[int, ...]
Verify = Callable[[DraftTree, Callable[[int], Tensor], Tensor | None, ScriptedChance], Tokens]


def ours(
    tree: DraftTree, target: Callable[[int], Tensor], draft: Tensor | None, chance: Any
) -> Tokens:
    verdict = verify("rejection", tree, target, draft, chance, 0).verdict
    assert verdict.next_token is not None
    return (*(tree.tokens[row] for row in verdict.accepted_rows), verdict.next_token)


def table(seed: int, *, zeros: int = 0, sharpness: float = 1.5) -> Table:
    """A random distribution for each path, with some tokens that never come."""

    @cache
    def probs(path: Path) -> Tensor:
        rng = torch.Generator().manual_seed(zlib.crc32(repr((seed, path)).encode()))
        logits = sharpness * torch.randn(V, generator=rng, dtype=torch.float64)
        logits[torch.randperm(V, generator=rng)[:zeros]] = -torch.inf
        return torch.softmax(logits, -1)

    return probs


def one_hot(seed: int) -> Table:
    probs = table(seed)
    return lambda path: torch.nn.functional.one_hot(probs(path).argmax(), V).double()


@dataclass(frozen=True)
class Case:
    p: Table
    q: Table


CASES = {
    "unlike": Case(table(1), table(2)),
    "alike": Case(table(1), table(1)),
    "nearly alike": Case(table(1), lambda path: 0.9 * table(1)(path) + 0.1 * table(2)(path)),
    "sure and wrong": Case(table(3), table(4, sharpness=12.0)),
    "sure target": Case(table(3, sharpness=12.0), table(4)),
    "p has zeros": Case(table(5, zeros=1), table(6)),
    "q has zeros": Case(table(7), table(8, zeros=1)),
    "both have zeros": Case(table(9, zeros=1), table(10, zeros=1)),
    "greedy": Case(one_hot(11), one_hot(12)),
    "greedy target": Case(one_hot(13), table(14)),
    "greedy draft": Case(table(15), one_hot(16)),
}


def grown(widths: tuple[int, ...], q: Table, chance: ScriptedChance) -> tuple[DraftTree, Tensor]:
    """A tree with so many siblings per level, drawn from q without replacement."""
    tokens, parents, paths = [0], [-1], [()]
    rows: list[Tensor] = [q(())]
    level = [0]
    for width in widths:
        below = []
        for parent in level:
            left = q(paths[parent])
            for _ in range(min(width, int((left > 0).sum()))):
                token = chance.token(left, 0)
                below.append(len(tokens))
                tokens.append(token)
                parents.append(parent)
                paths.append((*paths[parent], token))
                rows.append(q(paths[-1]))
                left = left.clone()
                left[token] = 0.0
        level = below
    return DraftTree(tuple(tokens), tuple(parents)), torch.stack(rows)


def joint(p: Table) -> dict[Tokens, float]:
    """The distribution of the first DEPTH tokens when the target writes alone."""
    found = {}
    for tokens in product(range(V), repeat=DEPTH):
        chance = 1.0
        for depth, token in enumerate(tokens):
            chance *= float(p(tokens[:depth])[token])
        found[tokens] = chance
    return found


def filled(tokens: Tokens, p: Table, chance: ScriptedChance) -> Tokens:
    """Exactly DEPTH tokens: what a round gave, then plain decoding."""
    while len(tokens) < DEPTH:
        tokens = (*tokens, chance.token(p(tokens), 0))
    return tokens[:DEPTH]


def target_of(tree: DraftTree, p: Table) -> Callable[[int], Tensor]:
    return lambda row: p(tree.path_tokens(row))


def assert_same(found: dict[Tokens, float], p: Table) -> None:
    wanted = joint(p)
    assert abs(sum(found.values()) - 1.0) < 1e-12
    assert max(abs(found.get(t, 0.0) - wanted[t]) for t in wanted) < 1e-12


def assert_sampled_exact(check: Verify, case: Case, widths: tuple[int, ...]) -> None:
    def run(chance: ScriptedChance) -> Tokens:
        tree, q = grown(widths, case.q, chance)
        return filled(check(tree, target_of(tree, case.p), q, chance), case.p, chance)

    assert_same(enumerate_outcomes(run), case.p)


def assert_chosen_exact(check: Verify, p: Table, tree: DraftTree, q: Tensor | None = None) -> None:
    def run(chance: ScriptedChance) -> Tokens:
        return filled(check(tree, target_of(tree, p), q, chance), p, chance)

    assert_same(enumerate_outcomes(run), p)


CHAIN, SIBLINGS, BUSHY = (1, 1), (3,), (2, 2)
TREES = {
    "chain": DraftTree.chain(0, (1, 2)),
    "siblings": DraftTree((0, 2, 1), (-1, 0, 0)),
    "every token": DraftTree((0, 0, 1, 2), (-1, 0, 0, 0)),
    "shared prefix": DraftTree.from_paths(0, [(1, 2), (1, 0), (2, 2)]),
    "with lookahead": DraftTree((0, 1, 2, 0, 0), (-1, 0, 0, 0, 3), 2),
}
TARGETS = {"soft": table(1), "zeros": table(5, zeros=1), "greedy": one_hot(11)}
