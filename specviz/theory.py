"""What speculative decoding should give: pure functions of given numbers. Nothing is measured here.

Formulas of Leviathan et al. 2023 (arXiv:2211.17192; there gamma is K) and of the cost model
S = tau / rho, rho = delta(n) + d c + eta. Costs are in plain steps: one step of plain decoding,
its host time included, costs 1. What a run measured is `metrics`, what it cost is `cost`; the
bounds that a machine sets are `roofline`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from specviz.metrics import DepthAcceptance, interval


@dataclass(frozen=True, slots=True)
class Alpha:
    """The chance that a draft token is kept once it is asked about, fitted to counts."""

    num_accepted: int
    num_tried: int  # decisions: a round that refuses makes one more than it accepts

    @property
    def rate(self) -> float:
        """Maximum likelihood, in [0, 1].

        A round of K drafts that accepts A < K has likelihood alpha^A (1 - alpha). One that accepts
        all K has alpha^K: it is censored, nobody knows how far it would have gone. The product
        over rounds is largest at accepted / (accepted + refusals). accepted / drafted, in turn, is
        too low for alpha, as it counts drafts after a refusal that nobody asked about.
        """
        return self.num_accepted / self.num_tried

    @property
    def interval(self) -> tuple[float, float]:
        """95 %, Wilson's: the likelihood is a binomial's, whatever rule ended the rounds."""
        return interval(self.num_accepted, self.num_tried)


@dataclass(frozen=True, slots=True)
class Costs:
    """What the parts of a round cost, in plain steps."""

    draft_step: float  # c: one pass of the drafter
    host: float  # eta: everything of a round that is no pass of a model
    reads: tuple[tuple[int, float], ...]  # (n, delta): one pass of the target over n rows; by n

    def __post_init__(self) -> None:
        rows = [n for n, _ in self.reads]
        if not rows or rows != sorted(set(rows)) or rows[0] < 1:
            raise ValueError(
                f"The cost of reads needs one entry per number of rows, from 1 row on, in order; "
                f"got rows {rows}."
            )
        if min(self.draft_step, self.host, *(delta for _, delta in self.reads)) < 0:
            raise ValueError("A cost is a number of plain steps, 0 or more.")

    def delta(self, num_rows: float) -> float:
        """One read of `num_rows` rows: between entries a straight line.

        Below the first entry: that entry, as a smaller read is not known to be cheaper. Above the
        last: the slope of the last two goes on, if it rises; with one entry it stays flat.
        """
        first, last = self.reads[0], self.reads[-1]
        if num_rows <= first[0] or len(self.reads) == 1:
            return first[1]
        (n0, d0), (n1, d1) = next(
            (pair for pair in pairwise(self.reads) if num_rows <= pair[1][0]),
            (self.reads[-2], last),
        )
        cost = d0 + (d1 - d0) * (num_rows - n0) / (n1 - n0)
        return cost if num_rows <= last[0] else max(last[1], cost)

    def covers(self, num_rows: float) -> bool:
        """Whether `delta` of so many rows lies among entries, not beyond them."""
        return self.reads[0][0] <= num_rows <= self.reads[-1][0]


@dataclass(frozen=True, slots=True)
class Choice:
    """A draft length, and what it should give."""

    num_draft_tokens: int  # K; 0 is plain decoding
    tau: float  # tokens per round
    rho: float  # plain steps per round

    @property
    def speedup(self) -> float:
        return self.tau / self.rho


def fit_alpha(num_accepted: Sequence[int], num_drafted: Sequence[int]) -> Alpha | None:
    """alpha of chains, one entry per round. None if nothing was drafted.

    A round that accepts all it drafted is censored; so is one that a stop ended, for which
    `num_drafted` is what was accepted.
    """
    pairs = list(zip(num_accepted, num_drafted, strict=True))
    if bad := next(((a, k) for a, k in pairs if not 0 <= a <= k), None):
        raise ValueError(f"A round accepts from 0 to all it drafted; got {bad[0]} of {bad[1]}.")
    accepted = sum(a for a, _ in pairs)
    tried = accepted + sum(a < k for a, k in pairs)
    return Alpha(accepted, tried) if tried else None


def alpha_of(depths: Sequence[DepthAcceptance]) -> Alpha | None:
    """alpha of a lane, from its acceptance by depth: each depth's decisions, summed.

    In a tree a decision is about all children of a row together. None if nothing was decided.
    """
    tried = sum(depth.num_reached for depth in depths)
    return Alpha(sum(depth.num_accepted for depth in depths), tried) if tried else None


def acceptance_probability(p: Sequence[float], q: Sequence[float]) -> float:
    """Chance that a token drawn from q is kept: sum of min(p, q), 1 less the total variation.

    p, q: (V,) probabilities of the target and of the draft. Leviathan et al., corollary 3.6.
    """
    return sum(min(a, b) for a, b in zip(p, q, strict=True))


def expected_tokens(alpha: float, num_draft_tokens: int) -> float:
    """E[tokens per round] = (1 - alpha^(K+1)) / (1 - alpha), the target's own token included.

    Summed as 1 + alpha + ... + alpha^K, so alpha = 1 gives K + 1 and needs no case of its own.
    0.8 and 4: 3.36; 0.8 and 5: 3.69. Leviathan et al., equation 1.
    """
    _check_alpha(alpha)
    if num_draft_tokens < 0:
        raise ValueError(f"A draft has 0 or more tokens; got {num_draft_tokens}.")
    total = 1.0
    for _ in range(num_draft_tokens):
        total = 1.0 + alpha * total
    return total


def most_tokens(alpha: float) -> float:
    """1 / (1 - alpha), tokens per round: what no draft length exceeds. Infinite at alpha = 1."""
    _check_alpha(alpha)
    return float("inf") if alpha == 1 else 1 / (1 - alpha)


def round_cost(costs: Costs, *, num_rows: float, num_steps: float) -> float:
    """rho = delta(n) + d c + eta, in plain steps: one read of n rows, d draft steps, the host."""
    return costs.delta(num_rows) + num_steps * costs.draft_step + costs.host


def break_even_alpha(rho: float, num_draft_tokens: int) -> float | None:
    """The alpha at which K drafts repay a round of `rho` plain steps. None: not even alpha = 1.

    E[tokens] grows with alpha from 1 to K + 1; solved by halving, to 1e-12.
    """
    if rho <= 1:
        return 0.0
    if rho > num_draft_tokens + 1:
        return None
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        if expected_tokens(middle, num_draft_tokens) < rho:
            low = middle
        else:
            high = middle
    return high


def predicted(
    alpha: float, num_draft_tokens: int, costs: Costs, *, num_steps: float | None = None
) -> Choice:
    """A chain of K drafts made by K steps, or so many as told, and read as K + 1 rows; K = 0 is plain
    decoding, 1 at 1.

    With delta = 1 and eta = 0 the speed-up is Leviathan et al.'s theorem 3.8,
    (1 - alpha^(K+1)) / ((1 - alpha)(K c + 1)).
    """
    if num_draft_tokens == 0:
        return Choice(0, 1.0, 1.0)
    steps = num_draft_tokens if num_steps is None else num_steps
    rho = round_cost(costs, num_rows=num_draft_tokens + 1, num_steps=steps)
    return Choice(num_draft_tokens, expected_tokens(alpha, num_draft_tokens), rho)


def best_length(alpha: float, costs: Costs, max_draft_tokens: int) -> Choice:
    """The fastest K from 0 (do not speculate) to `max_draft_tokens`; of equals the shortest."""
    choices = [predicted(alpha, k, costs) for k in range(max_draft_tokens + 1)]
    return max(choices, key=lambda choice: (choice.speedup, -choice.num_draft_tokens))


def another_row_pays(survival: float, tau: float, cost_now: float, cost_then: float) -> bool:
    """Whether one more row makes a round faster: survival / tau > relative growth of its cost.

    survival: the chance that the row is kept, in [0, 1]; tau: tokens per round now; costs in plain
    steps, without the row and with it.
    """
    return survival / tau > (cost_then - cost_now) / cost_now


def rising(costs: Sequence[float]) -> list[float]:
    """The nearest costs that never fall, by least squares: neighbours that do become their mean."""
    runs: list[list[float]] = []
    for cost in costs:
        runs.append([cost])
        while len(runs) > 1 and _mean(runs[-2]) > _mean(runs[-1]):
            last = runs.pop()
            runs[-1] += last
    return [_mean(run) for run in runs for _ in run]


def paying_rows(chances: Sequence[float], costs: Costs, num_steps: float) -> int:
    """How many rows a tree should have, the root included: where no further ones pay.

    chances: that a row below the root is kept, the likeliest first; num_steps: passes of the
    drafter in a round. Rows are added as long as they make tokens per cost larger, alone or
    together, since kernels for several rows have steps. 1: nothing pays, decode plainly.
    """
    tau, best, best_rows = 1.0, 1.0, 1  # plain decoding: a token per step
    for num_rows, chance in enumerate(chances, start=2):
        tau += chance
        rate = tau / round_cost(costs, num_rows=num_rows, num_steps=num_steps)
        if rate > best:
            best, best_rows = rate, num_rows
    return best_rows


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _check_alpha(alpha: float) -> None:
    if not 0 <= alpha <= 1:
        raise ValueError(f"An acceptance rate lies between 0 and 1; got {alpha!r}.")
