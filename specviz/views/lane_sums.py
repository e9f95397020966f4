"""What the rounds of a lane add up to while they come in: running sums, for the stage.

A round costs the same however long the run. Every number is defined in `metrics`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from specviz.config import PLAIN_DRAFTER
from specviz.metrics import DepthAcceptance, Tally, TimeSplit, interval, tally
from specviz.trace import LaneStart, RoundTrace, RowOdds
from specviz.verdict import outcome_of
from specviz.views.agreement import Comparison, unpaired
from specviz.views.numbers import short

Item: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class LaneSums:
    """After any round these equal `metrics` of the rounds so far."""

    start: LaneStart
    comparison: Comparison
    tally: Tally = field(default_factory=Tally)
    lengths: list[int] = field(default_factory=list)  # rounds that accepted 0, 1, 2, ... tokens
    answer: list[int] = field(default_factory=list)
    odds: list[RowOdds] = field(default_factory=list)  # one per answer token; plain lane only

    @property
    def is_plain(self) -> bool:
        return self.start.drafter == PLAIN_DRAFTER

    @property
    def seconds(self) -> float:
        return self.tally.time.seconds

    @property
    def num_rounds(self) -> int:
        return self.tally.num_rounds

    def add(self, round_: RoundTrace) -> None:
        self.tally += tally([round_])
        num_accepted = len(round_.verdict.accepted_rows)
        self.lengths += [0] * (num_accepted + 1 - len(self.lengths))
        self.lengths[num_accepted] += 1
        self.answer += round_.new_tokens
        if self.is_plain:
            self.odds += round_.odds

    def total(self) -> Item:
        sums = self.tally
        return {
            "num_tokens": sums.num_tokens,
            "num_rounds": sums.num_rounds,
            "tau": short(sums.tau),
            "accepted_per_round": short(sums.accepted_per_round),
            "tokens_per_second": short(sums.tokens_per_second) if sums.time.seconds else None,
            "seconds": short(sums.time.seconds),
            "num_drafted": sums.num_drafted,
            "num_accepted": sums.num_accepted,
            "acceptance_rate": short(sums.acceptance_rate),
            "depths": [_depth_item(depth) for depth in sums.depths],
            "lengths": list(self.lengths),
            "time": time_item(sums.time),
        }

    def versus(self, plain: LaneSums | None, *, is_alone: bool = False) -> Item:
        """This lane beside the plain one of its backbone, each as far as it has come. Without one
        there is no speed-up; `is_alone` if the race has no plain lane of any model."""
        ours, theirs = self.tally, Tally() if plain is None else plain.tally
        is_timed = ours.time.seconds > 0 and theirs.time.seconds > 0
        agreement = (
            unpaired(is_alone=is_alone and not self.start.backbone)
            if plain is None
            else self.comparison.update(self.answer, plain.answer, plain.odds)
        )
        return {
            "plain": None if plain is None else plain.start.lane,
            "outcome": outcome_of(ours.speedup(theirs)) if is_timed else None,
            "speedup": short(ours.speedup(theirs)) if is_timed else None,
            "rho": short(ours.rho(theirs)) if is_timed else None,
            "round_seconds": short(ours.seconds_per_round) if is_timed else None,
            "plain_step": short(theirs.seconds_per_round) if is_timed else None,
            "agreement": {
                "state": agreement.state,
                "num_tokens": agreement.num_tokens,
                "top_two_gap": short(agreement.top_two_gap),
                "sentence": agreement.message,
            },
        }


def time_item(time: TimeSplit) -> Item:
    """Seconds and shares of the three parts; a share is None while no clock has moved."""
    parts = {
        "draft": time.draft_seconds,
        "verify": time.verify_seconds,
        "commit": time.commit_seconds,
    }
    return {
        name: {
            "seconds": short(seconds),
            "share": short(seconds / time.seconds) if time.seconds else None,
        }
        for name, seconds in parts.items()
    }


def _depth_item(depth: DepthAcceptance) -> list[float | None]:
    low, high = interval(depth.num_accepted, depth.num_reached)
    return [
        depth.num_reached,
        depth.num_accepted,
        short(depth.rate),
        short(low),
        short(high),
    ]
