"""From the ranks of the target's tokens in a drafter's lists: what chains and trees would accept.

No decoding is run: held-out text is walked as decoding would walk it, round after round. A round
starts where the one before it ended, so most rounds start where guessing is hard; an average over
all places would promise too much (a chain of 2.5 where decoding reached 2.2).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from specviz.drafters.static_growth import likeliest_paths
from specviz.drafters.training import NUM_RANKS

HitRates = list[list[float]]  # [depth][rank]: how often that guess is the target's token


@dataclass(frozen=True, slots=True)
class Walk:
    """Rounds over a text, each with the same tree of rank paths. tau counts the target's own
    token."""

    conditional: tuple[float, ...]  # by depth: accepted, of the rounds that accepted all before it
    tau: float
    starts: tuple[int, ...]  # where its rounds began


@dataclass(frozen=True, slots=True)
class Simulated:
    """Held-out acceptance."""

    chain: Walk  # the first guess at every depth
    tree: Walk  # the best static tree with `tree_rows` rows, root included
    tree_rows: int
    hit_rates: HitRates  # where the chain's rounds began: what a tree is built from
    num_starts: int


def simulate(ranks: Tensor, tree_rows: int = 16) -> Simulated:
    """ranks (starts, depths), as `Trainee.ranks` gives them, in the order of the text; -1 is left
    out."""
    chain = walk(ranks, {(0,) * depth for depth in range(1, ranks.shape[1] + 1)})
    rates = hit_rates(ranks[list(chain.starts)])
    tree = walk(ranks, likeliest_paths(rates, tree_rows - 1))
    return Simulated(chain, tree, tree_rows, rates, len(ranks))


def walk(ranks: Tensor, tree: Collection[tuple[int, ...]]) -> Walk:
    """Rounds of a tree of rank paths. One that reaches the end of a text may take the first place
    of the next one with it: one in hundreds."""
    rows: list[list[int]] = ranks.tolist()
    paths, reached, kept = set(tree), [0] * ranks.shape[1], [0] * ranks.shape[1]
    place, starts = 0, list[int]()
    while place < len(rows):
        starts.append(place)
        depth = 0
        while depth < len(reached) and rows[place][depth] >= 0:
            reached[depth] += 1
            if tuple(rows[place][: depth + 1]) not in paths:
                break
            kept[depth] += 1
            depth += 1
        place += depth + 1
    conditional = tuple(k / max(r, 1) for k, r in zip(kept, reached, strict=True))
    return Walk(conditional, 1.0 + sum(kept) / max(len(starts), 1), tuple(starts))


def acceptance(simulated: Simulated) -> dict[str, Any]:
    """For a file: what was held out, and how much of it would have been accepted."""
    return {
        "conditional": [round(rate, 4) for rate in simulated.chain.conditional],
        "chain_tau": round(simulated.chain.tau, 4),
        "tree_tau": round(simulated.tree.tau, 4),
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
