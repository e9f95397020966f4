"""Does a lane write what the plain lane writes? Compared token by token, as both come in.

Same answer as `metrics.first_difference`, but each token is looked at once. Where the texts
may differ by right (independent draws, a lossy rule) it says so and counts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from specviz.config import SamplingParams
from specviz.metrics import near_tie_gap
from specviz.trace import LaneStart, RowOdds

State: TypeAlias = Literal["identical", "differs", "independent", "lossy"]


@dataclass(frozen=True, slots=True)
class Agreement:
    state: State
    num_tokens: int  # compared and equal
    top_two_gap: float | None  # of the plain lane's logits at the first difference
    sentence: str


def is_greedy(sampling: SamplingParams) -> bool:
    return sampling.temperature == 0 or sampling.top_k == 1 or sampling.top_p == 0


def expected_state(lane: LaneStart) -> State:
    """What the lane's rule promises: the same text, the same distribution only, or neither."""
    if lane.exactness == "lossy":
        return "lossy"
    if is_greedy(lane.sampling) or lane.verification == "coupled":
        return "identical"
    return "independent"


class Comparison:
    """One lane beside the plain lane; `update` looks at what is new to both."""

    def __init__(self, lane: LaneStart, dtype: str) -> None:
        self._expected = expected_state(lane)
        # A penalty moves scores after these logits, so their gap then says nothing of a tie.
        self._is_plainly_greedy = (
            is_greedy(lane.sampling) and lane.sampling.repetition_penalty == 1.0
        )
        self._dtype = dtype
        self._num_equal = 0
        self._difference: Agreement | None = None

    def update(
        self, ours: Sequence[int], plain: Sequence[int], plain_odds: Sequence[RowOdds]
    ) -> Agreement:
        if self._expected == "independent":
            return Agreement("independent", 0, None, INDEPENDENT)
        while self._difference is None and self._num_equal < min(len(ours), len(plain)):
            position = self._num_equal
            if ours[position] == plain[position]:
                self._num_equal += 1
                continue
            odds = plain_odds[position] if position < len(plain_odds) else None
            self._difference = self._describe(position, odds)
        return self._difference or self._identical()

    def _identical(self) -> Agreement:
        n = self._num_equal
        sentence = f"identical to plain for {n} token{'s'[: n != 1]}"
        return Agreement("identical", n, None, sentence)

    def _describe(self, position: int, odds: RowOdds | None) -> Agreement:
        sentence = f"first difference at token {position + 1}"
        state: State = "lossy" if self._expected == "lossy" else "differs"
        if odds is None or len(odds.odds) < 2:
            return Agreement(state, position, None, sentence)
        gap = odds.top_two_gap
        if state == "lossy":
            sentence += ": the acceptance rule of this lane is lossy"
        elif self._is_plainly_greedy:
            tie = gap <= near_tie_gap(odds, self._dtype)
            kind = "near-tie, rounding decides" if tie else "not a near-tie"
            sentence += f": top two logits differ by {gap:.3g} ({kind})"
        return Agreement(state, position, gap, sentence)


INDEPENDENT = "drawn independently of plain: other text, same distribution"
