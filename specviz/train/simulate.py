"""From the ranks of the target's tokens in a drafter's lists: what chains and trees would accept.

No decoding is run: at each place of held-out text the network's guesses are compared with what
the target says there. A static tree of rank paths is valued by the product of its hit rates.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from torch import Tensor

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
    conditional, survivors = [], ranks[:, 0] >= 0
    for depth in range(ranks.shape[1]):
        survivors = survivors & (ranks[:, depth] >= 0)
        hits = survivors & (ranks[:, depth] == 0)
        conditional.append(int(hits.sum()) / max(int(survivors.sum()), 1))
        survivors = hits
    tau, product = 1.0, 1.0
    for rate in conditional:
        product *= rate
        tau += product
    tree = sum(value for value, _ in best_paths(rates, tree_rows - 1))
    return Simulated(tuple(conditional), tau, 1.0 + tree, tree_rows, rates, len(ranks))


def hit_rates(ranks: Tensor) -> HitRates:
    rates = []
    for column in ranks.T:
        known = column[column >= 0]
        counts = [int((known == rank).sum()) for rank in range(NUM_RANKS)]
        rates.append([count / max(len(known), 1) for count in counts])
    return rates


def best_paths(rates: HitRates, count: int) -> list[tuple[float, tuple[int, ...]]]:
    """The `count` likeliest rank paths, best first: a tree, as no path outdoes its own start."""
    waiting: list[tuple[float, tuple[int, ...]]] = [
        (-rate, (rank,)) for rank, rate in enumerate(rates[0])
    ]
    heapq.heapify(waiting)
    found: list[tuple[float, tuple[int, ...]]] = []
    while waiting and len(found) < count:
        value, path = heapq.heappop(waiting)
        found.append((-value, path))
        if len(path) < len(rates):
            for rank, rate in enumerate(rates[len(path)]):
                heapq.heappush(waiting, (value * rate, (*path, rank)))
    return found
