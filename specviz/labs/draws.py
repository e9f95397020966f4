"""Tokens drawn through the engine's own verification, and beside it by rules that are broken.

Torch and the engine are imported inside the calls: a page that only plays needs neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from specviz.labs.exact import RULES, Odds, Rule, chi_square, divergence, drawn, favourites
from specviz.labs.source import source_in, source_of
from specviz.tree import DraftTree

MARKS = 10  # how often the curves are told on the way, each mark further by the same factor
FIRST_MARK = 100


@dataclass(frozen=True, slots=True)
class Curve:
    """How far the tokens of one rule are from p, after more and more draws."""

    rule: Rule
    num_draws: tuple[int, ...]
    divergences: tuple[float, ...]
    counts: tuple[int, ...]  # (V,) of all draws so far

    def chi_square(self, odds: Odds) -> float:
        return chi_square(self.counts, odds.p)


@dataclass(frozen=True, slots=True)
class Experiment:
    odds: Odds
    curves: tuple[Curve, ...]  # the right rule first: the engine's own
    is_over: bool


def experiment(odds: Odds, num_draws: int, seed: int) -> Iterator[Experiment]:
    """The curves as they grow, to `num_draws` draws by each rule. `odds` are checked ones."""
    makers = [engine_counts(odds, seed), *(_rule_counts(r, odds, seed) for r in RULES[1:])]
    for maker in makers:
        next(maker)
    curves = [Curve(rule, (), (), (0,) * len(odds.p)) for rule in RULES]
    marks = marks_to(num_draws)
    before = 0
    for mark in marks:
        curves = [
            _longer(curve, maker.send(mark - before), odds, mark)
            for curve, maker in zip(curves, makers, strict=True)
        ]
        before = mark
        yield Experiment(odds, tuple(curves), mark == marks[-1])


def marks_to(num_draws: int) -> tuple[int, ...]:
    """Numbers of draws, evenly spaced on a logarithmic scale, the last one `num_draws`."""
    first = min(FIRST_MARK, num_draws)
    steps = np.geomspace(first, num_draws, MARKS).round().astype(int)
    return tuple(dict.fromkeys(int(step) for step in steps))


def _longer(curve: Curve, more: npt.NDArray[np.int64], odds: Odds, mark: int) -> Curve:
    counts = tuple(int(a + b) for a, b in zip(curve.counts, more, strict=True))
    far = (*curve.divergences, divergence(counts, odds.p))
    return Curve(curve.rule, (*curve.num_draws, mark), far, counts)


def _rule_counts(rule: Rule, odds: Odds, seed: int) -> Any:
    """Send it a number of draws, and it gives their counts."""
    rng = np.random.default_rng([seed, RULES.index(rule)])
    num_draws = yield
    while True:
        num_draws = yield drawn(rule, odds, num_draws, rng)


def engine_counts(odds: Odds, seed: int) -> Any:
    """The same through `engine.verify`: a tree of siblings, our rule, one token."""
    import torch

    from specviz.engine.verify import verify
    from specviz.lm.sampling import FreeChance

    p = torch.tensor(odds.p, dtype=torch.float64)
    size, rows = len(odds.p), odds.num_siblings + 1
    q = torch.tensor(odds.q, dtype=torch.float64).expand(rows, size) if odds.is_sampled else None
    rng, chance = np.random.default_rng([seed, 0]), FreeChance(seed)
    parents = (-1, *(0 for _ in range(odds.num_siblings)))
    num_draws = yield
    while True:
        counts = np.zeros(size, dtype=np.int64)
        for siblings in drafted(odds, num_draws, rng):
            tree = DraftTree((size, *siblings), parents)  # the root is a token of no other row
            verdict = verify("rejection", tree, lambda _: p, q, chance, 0).verdict
            path = verdict.accepted_rows
            token = tree.tokens[path[0]] if path else verdict.next_token
            assert token is not None
            counts[token] += 1
        num_draws = yield counts


def drafted(odds: Odds, num_draws: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Siblings for each draw: from q without replacement (the largest of log q + Gumbel noise), or
    q's favourites."""
    if not odds.is_sampled:
        return [favourites(odds)] * num_draws
    with np.errstate(divide="ignore"):
        scores = np.log(np.array(odds.q)) + rng.gumbel(size=(num_draws, len(odds.q)))
    order = np.argsort(-scores, axis=1)[:, : odds.num_siblings]
    return [tuple(row) for row in order.tolist()]


def code() -> str:
    """The engine's own rule, and how it is called here."""
    rule = source_in("engine/verify.py", "_rejection_step", "_after_rejection")
    return f"{rule}\n\n{source_of(engine_counts)}"
