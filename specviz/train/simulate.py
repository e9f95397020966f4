"""From the ranks of the target's tokens in a drafter's lists: what chains and trees would accept.

No decoding is run: at each place of held-out text the network's guesses are compared with what
the target says there, and with that what a static tree of rank paths would have accepted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from torch import Tensor

from specviz.drafters.growth import likeliest_paths
from specviz.drafters.training import NUM_RANKS

HitRates = list[list[float]]  # [depth][rank]: how often that guess is the target's token


@dataclass(frozen=True, slots=True)
class Simulated:
    """Held-out acceptance. tau counts the target's own token."""

    conditional: tuple[float, ...]  # chain: first guess right at depth d, given all before it
    chain_tau: float
    tree_tau: float  # of the best static tree with `tree_rows` rows, root included
    tree_rows: int
    hit_rates: HitRates
    num_starts: int


def simulate(ranks: Tensor, tree_rows: int = 16) -> Simulated:
    """ranks (starts, depths), as `Trainee.ranks` gives them; -1 is left out."""
    rates = hit_rates(ranks)
    chain = {(0,) * depth for depth in range(1, ranks.shape[1] + 1)}
    tree = likeliest_paths(rates, tree_rows - 1)
    conditional = accepted_by_depth(ranks, chain)
    return Simulated(
        conditional,
        _tau(conditional),
        _tau(accepted_by_depth(ranks, tree)),
        tree_rows,
        rates,
        len(ranks),
    )


def accepted_by_depth(ranks: Tensor, tree: Collection[tuple[int, ...]]) -> tuple[float, ...]:
    """How often a tree of rank paths holds the target's token at a depth, of the starts where it
    held all before it. Counted, not multiplied: what is easy stays easy further down."""
    rows: list[list[int]] = ranks.tolist()
    paths, found = set(tree), []
    for depth in range(1, ranks.shape[1] + 1):
        rows = [row for row in rows if row[depth - 1] >= 0]
        kept = [row for row in rows if tuple(row[:depth]) in paths]
        found.append(len(kept) / max(len(rows), 1))
        rows = kept
    return tuple(found)


def _tau(conditional: Sequence[float]) -> float:
    return 1.0 + sum(prod(conditional[:depth]) for depth in range(1, len(conditional) + 1))


def acceptance(simulated: Simulated) -> dict[str, Any]:
    """For a file: what was held out, and how much of it would have been accepted."""
    return {
        "conditional": [round(rate, 4) for rate in simulated.conditional],
        "chain_tau": round(simulated.chain_tau, 4),
        "tree_tau": round(simulated.tree_tau, 4),
        "tree_rows": simulated.tree_rows,
        "places": simulated.num_starts,
    }


def hit_rates(ranks: Tensor) -> HitRates:
    rates = []
    for column in ranks.T:
        known = column[column >= 0]
        counts = [int((known == rank).sum()) for rank in range(NUM_RANKS)]
        rates.append([count / max(len(known), 1) for count in counts])
    return rates
