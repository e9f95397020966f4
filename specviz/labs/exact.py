"""Rules of acceptance that can be broken, and where each of them leads: by enumeration and by draws.

One step of verification under one row: siblings are drafted, tried one after the other, and if all
are refused a token is drawn from what remains. The rule called right is the engine's, written
here once more only so that wrong ones can differ from it in one line; `draws.py` draws through the
engine itself. Leviathan et al. 2023 (arXiv:2211.17192); siblings: SpecInfer (arXiv:2305.09781).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from specviz.labs.source import source_of
from specviz.words import Refusal, message

Probs: TypeAlias = npt.NDArray[np.float64]
Rule: TypeAlias = Literal["right", "no_residual", "swapped", "siblings_kept"]
RULES: tuple[Rule, ...] = get_args(Rule)
MAX_TOKENS, MAX_SIBLINGS = 9, 3
FAR_OUT = 3.0902  # standard deviations: a right rule lies beyond once in 1000 experiments


@dataclass(frozen=True, slots=True)
class Odds:
    """p and q after one row, over a vocabulary small enough to see."""

    p: tuple[float, ...]
    q: tuple[float, ...]
    labels: tuple[str, ...]
    num_siblings: int
    is_sampled: bool  # siblings are drawn from q without replacement; else they are q's favourites


def checked(odds: Odds) -> Odds:
    """The same, each side summing to 1. Refusal: it is no pair of distributions, or too large."""
    size = len(odds.p)
    if len(odds.q) != size or not 2 <= size <= MAX_TOKENS:
        raise Refusal(message("labs.refusal.sizes", most=MAX_TOKENS, p=size, q=len(odds.q)))
    for name, side in (("p", odds.p), ("q", odds.q)):
        if not all(math.isfinite(v) and v >= 0 for v in side) or sum(side) <= 0:
            raise Refusal(message("labs.refusal.probs", name=name))
    able = sum(v > 0 for v in odds.q) if odds.is_sampled else size
    if not 1 <= odds.num_siblings <= min(MAX_SIBLINGS, able):
        most = min(MAX_SIBLINGS, able)
        raise Refusal(message("labs.refusal.siblings", most=most, value=odds.num_siblings))
    p, q = (tuple(v / sum(side) for v in side) for side in (odds.p, odds.q))
    return Odds(p, q, odds.labels, odds.num_siblings, odds.is_sampled)


def decide(
    rule: Rule, p: Probs, q: Probs | None, siblings: Sequence[int]
) -> tuple[list[float], Probs]:
    """(chance that each sibling is kept once it is asked, what a token is drawn from if none is).

    q is None where the siblings were chosen without chance: each is then a point mass.
    """
    residual, proposal, kept = p, q, []
    for token in siblings:
        target = residual[token]
        draft = 1.0 if proposal is None else proposal[token]
        if rule == "swapped":
            target, draft = draft, target
        kept.append(1.0 if target >= draft else float(target / draft))
        if rule != "siblings_kept":
            residual, proposal = without(residual, proposal, token)
    if rule == "siblings_kept":  # each was tried as if it were the first
        residual, _ = without(p, q, siblings[-1])
    return kept, p if rule == "no_residual" else residual


def without(p: Probs, q: Probs | None, token: int) -> tuple[Probs, Probs | None]:
    """What remains after `token` was refused: norm(max(0, p - q)), and q without it."""
    rest = p.copy()
    if q is None:
        rest[token] = 0.0
        return normalised(rest, p), None
    unused = q.copy()
    unused[token] = 0.0
    return normalised(np.maximum(rest - q, 0.0), p), normalised(unused, q)


def normalised(weights: Probs, fallback: Probs) -> Probs:
    total = float(weights.sum())
    return weights / total if total > 0 else fallback


def drafts(odds: Odds) -> Iterator[tuple[tuple[int, ...], float]]:
    """Each ordered choice of siblings, and its chance."""
    if not odds.is_sampled:
        yield favourites(odds), 1.0
        return
    for siblings in permutations(range(len(odds.q)), odds.num_siblings):
        chance, left = 1.0, 1.0
        for token in siblings:
            chance *= odds.q[token] / left if left > 1e-12 else 0.0
            left -= odds.q[token]
        if chance > 0:
            yield siblings, chance


def favourites(odds: Odds) -> tuple[int, ...]:
    """The likeliest of q; among equals the first."""
    order = sorted(range(len(odds.q)), key=lambda i: (-odds.q[i], i))
    return tuple(order[: odds.num_siblings])


def output_of(rule: Rule, odds: Odds) -> Probs:
    """(V,) the distribution that a rule's tokens have, by enumeration of every draft and decision."""
    p, q = np.array(odds.p), np.array(odds.q) if odds.is_sampled else None
    out = np.zeros(len(p))
    for siblings, chance in drafts(odds):
        kept, last = decide(rule, p, q, siblings)
        for token, keep in zip(siblings, kept, strict=True):
            out[token] += chance * keep
            chance *= 1 - keep
        out += chance * last
    return out


def drawn(
    rule: Rule, odds: Odds, num_draws: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """(V,) how often each token came out of `num_draws` draws by a rule: no enumeration of chances,
    real draws, taken together where draft and decision are alike."""
    p, q = np.array(odds.p), np.array(odds.q) if odds.is_sampled else None
    counts = np.zeros(len(p), dtype=np.int64)
    choices = list(drafts(odds))
    weights = np.array([chance for _, chance in choices])
    for (siblings, _), alive in zip(
        choices, rng.multinomial(num_draws, weights / weights.sum()), strict=True
    ):
        kept, last = decide(rule, p, q, siblings)
        left = int(alive)
        for token, keep in zip(siblings, kept, strict=True):
            num_kept = int(rng.binomial(left, keep))
            counts[token] += num_kept
            left -= num_kept
        counts += rng.multinomial(left, last / last.sum())
    return counts


def divergence(found: Sequence[float], p: Sequence[float]) -> float:
    """KL(found || p) in nats; infinite where something came out that p excludes. Any total will do."""
    total = sum(found)
    kl = 0.0
    for weight, wanted in zip(found, p, strict=True):
        if weight > 0:
            share = weight / total
            kl += share * math.log(share / wanted) if wanted > 0 else math.inf
    return max(0.0, kl)


def chi_square(counts: Sequence[int], p: Sequence[float]) -> float:
    """Pearson's sum of (counted - expected)^2 / expected; infinite as above."""
    total = sum(counts)
    if any(c > 0 and w <= 0 for c, w in zip(counts, p, strict=True)):
        return math.inf
    return sum((c - total * w) ** 2 / (total * w) for c, w in zip(counts, p, strict=True) if w > 0)


def chi_square_limit(p: Sequence[float]) -> float:
    """What draws from p exceed once in 1000 (Wilson and Hilferty 1931)."""
    freedom = max(1, sum(w > 0 for w in p) - 1)
    spread = 2 / (9 * freedom)
    return float(freedom * (1 - spread + FAR_OUT * math.sqrt(spread)) ** 3)


def expected_divergence(p: Sequence[float], num_draws: int) -> float:
    """What KL to p is on average for draws from p itself: (V - 1) / (2 n), V the possible tokens."""
    return (sum(w > 0 for w in p) - 1) / (2 * num_draws)


def code() -> str:
    return source_of(decide, without)
