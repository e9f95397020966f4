"""How much a better draft pays: rounds of a chain whose drafts are kept with one chance, alpha."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from specviz.labs.source import source_of
from specviz.theory import expected_tokens, most_tokens

ALPHAS = (0.5, 0.7, 0.85, 0.95)
GRID = tuple(i / 100 for i in range(101))
Break: TypeAlias = Literal["none", "rate", "no_own", "after_refusal"]
Counts: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AlphaCount:
    alpha: float  # what was set
    shown_alpha: float  # where the point is drawn: another place if alpha is estimated wrongly
    mean: float  # tokens per pass, counted
    half: float  # of the 95 % interval of that mean
    formula: float
    acceptance_rate: float  # accepted / drafted

    @property
    def share_of_most(self) -> float:
        """Of 1 / (1 - alpha), which no draft length exceeds."""
        return self.formula / most_tokens(self.alpha)


def survivors(
    alpha: float, num_draft_tokens: int, num_rounds: int, seed: int, broken: Break = "none"
) -> Counts:
    """(num_rounds,) drafts kept in each round: all before the first that is refused."""
    rng = np.random.default_rng(seed)
    is_kept = rng.random((num_rounds, num_draft_tokens)) < alpha
    if broken != "after_refusal":  # which counts drafts behind one, whose text never came about
        is_kept = np.logical_and.accumulate(is_kept, axis=1)
    kept: Counts = is_kept.sum(axis=1)
    return kept


def count(
    alpha: float, num_draft_tokens: int, num_rounds: int, seed: int, broken: Break = "none"
) -> AlphaCount:
    kept = survivors(alpha, num_draft_tokens, num_rounds, seed, broken)
    tokens = kept if broken == "no_own" else kept + 1
    rate = float(kept.mean()) / num_draft_tokens
    return AlphaCount(
        alpha,
        shown_alpha=rate if broken == "rate" else alpha,
        mean=float(tokens.mean()),
        half=1.96 * float(tokens.std()) / num_rounds**0.5,
        formula=expected_tokens(alpha, num_draft_tokens),
        acceptance_rate=rate,
    )


def sweep(
    num_draft_tokens: int, num_rounds: int, seed: int, broken: Break = "none"
) -> tuple[AlphaCount, ...]:
    """`count` at each of ALPHAS, every one with rounds of its own."""
    return tuple(
        count(alpha, num_draft_tokens, num_rounds, seed + i, broken)
        for i, alpha in enumerate(ALPHAS)
    )


def code() -> str:
    return source_of(survivors, expected_tokens)
