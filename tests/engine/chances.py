"""Exact distributions of random procedures: every outcome is enumerated with its probability.

What a procedure does is piecewise constant in each of its uniform draws, and the pieces end
where a draw is compared. A scripted chance answers each comparison both ways, one run after the
other, and multiplies up what each answer weighs. No sampling, no tolerance but rounding's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from torch import Tensor

Result = TypeVar("Result")


class ScriptedChance:
    """`lm.sampling.Chance` that takes the branches a script names, the first possible after it."""

    def __init__(self, script: Sequence[int]) -> None:
        self.script = script
        self.weights: list[list[float]] = []  # of every choice made so far
        self.taken: list[int] = []
        self.probability = 1.0

    def choose(self, weights: list[float]) -> int:
        step = len(self.taken)
        possible = [i for i, weight in enumerate(weights) if weight > 0]
        choice = self.script[step] if step < len(self.script) else possible[0]
        self.weights.append(weights)
        self.taken.append(choice)
        self.probability *= weights[choice]
        return choice

    def token(self, probs: Tensor, position: int) -> int:
        total = float(probs.sum())
        return self.choose([float(p) / total for p in probs])

    def uniform(self) -> Any:
        return _Draw(self)

    def next_script(self) -> list[int] | None:
        """The script of the next outcome in order; None if this was the last."""
        for step in reversed(range(len(self.taken))):
            later = range(self.taken[step] + 1, len(self.weights[step]))
            follow = next((i for i in later if self.weights[step][i] > 0), None)
            if follow is not None:
                return [*self.taken[:step], follow]
        return None


class _Draw:
    """A uniform number that is known only as far as it was asked about."""

    def __init__(self, chance: ScriptedChance) -> None:
        self.chance = chance
        self.low, self.high = 0.0, 1.0

    def __lt__(self, edge: float) -> bool:
        share = min(1.0, max(0.0, (edge - self.low) / (self.high - self.low)))
        is_below = self.chance.choose([share, 1.0 - share]) == 0
        if is_below:
            self.high = min(self.high, edge)
        else:
            self.low = max(self.low, edge)
        return is_below

    def __ge__(self, edge: float) -> bool:
        return not self < edge


def enumerate_outcomes(run: Callable[[ScriptedChance], Result]) -> dict[Result, float]:
    """Every result `run` can have, with its exact probability."""
    found: dict[Result, float] = defaultdict(float)
    script: list[int] | None = []
    while script is not None:
        chance = ScriptedChance(script)
        result = run(chance)
        found[result] += chance.probability
        script = chance.next_script()
    return dict(found)
