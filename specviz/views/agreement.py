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
from specviz.views.tokens import glyphs
from specviz.words import Message, message, tell

State: TypeAlias = Literal["identical", "differs", "independent", "lossy", "unpaired"]


@dataclass(frozen=True, slots=True)
class Agreement:
    state: State
    num_tokens: int  # compared and equal
    top_two_gap: float | None  # of the plain lane's logits at the first difference
    message: Message

    @property
    def sentence(self) -> str:
        return tell(self.message)


def is_greedy(sampling: SamplingParams) -> bool:
    return sampling.temperature == 0 or sampling.top_k == 1 or sampling.top_p == 0


def expected_state(lane: LaneStart) -> State:
    """What the lane's rule promises: the same text, the same distribution only, or neither."""
    if lane.exactness == "lossy":
        return "lossy"
    if is_greedy(lane.sampling) or lane.verification == "coupled":
        return "identical"
    return "independent"


def unpaired(*, is_alone: bool = False) -> Agreement:
    """Of a lane whose own model decodes plainly in no lane of the run: nothing to compare with.
    `is_alone`: no lane of the run decodes plainly at all."""
    said = message("agree.alone") if is_alone else message("agree.unpaired")
    return Agreement("unpaired", 0, None, said)


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
            return Agreement("independent", 0, None, message("agree.independent"))
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
        return Agreement("identical", n, None, message("agree.identical", n=n))

    def _describe(self, position: int, odds: RowOdds | None) -> Agreement:
        token = position + 1
        state: State = "lossy" if self._expected == "lossy" else "differs"
        said = message("agree.differs", token=token)
        if odds is None or len(odds.odds) < 2:
            return Agreement(state, position, None, said)
        gap = odds.top_two_gap
        if state == "lossy":
            said = message("agree.lossy", token=token)
        elif self._is_plainly_greedy:
            is_tie = gap <= near_tie_gap(odds, self._dtype)
            first, second = sorted(odds.odds, key=lambda o: -o.logit)[:2]
            said = message(
                "agree.near_tie" if is_tie else "agree.no_tie",
                token=token,
                gap=f"{gap:.3g}",
                first=f"{glyphs(first.text)} {first.logit:.5g}",
                second=f"{glyphs(second.text)} {second.logit:.5g}",
            )
        return Agreement(state, position, gap, said)
