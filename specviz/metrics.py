"""Numbers about a run, from its trace alone. Page, command line and benchmark share them.

Every definition stands here once. `rounds` are those of one lane, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.trace import RoundTrace


@dataclass(frozen=True, slots=True)
class DepthAcceptance:
    """How often a draft token at `depth` survives, given that its parent did."""

    depth: int
    num_reached: int  # rounds in which the walk asked for a child at this depth
    num_accepted: int

    @property
    def rate(self) -> float:
        return self.num_accepted / self.num_reached


@dataclass(frozen=True, slots=True)
class TimeSplit:
    draft_seconds: float
    verify_seconds: float
    commit_seconds: float

    @property
    def seconds(self) -> float:
        return self.draft_seconds + self.verify_seconds + self.commit_seconds


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two lanes part: the first token that differs, and how near to a tie it was."""

    position: int  # 0-based index into the answer
    top_two_gap: float  # of the baseline's logits there


def num_tokens(rounds: Sequence[RoundTrace]) -> int:
    return sum(len(r.new_tokens) for r in rounds)


def mean_acceptance_length(rounds: Sequence[RoundTrace]) -> float:
    """tau: tokens committed per target pass, the target's own token included."""
    return num_tokens(rounds) / len(rounds)


def num_drafted(rounds: Sequence[RoundTrace]) -> int:
    return sum(r.tree.num_draft_tokens for r in rounds)


def num_accepted(rounds: Sequence[RoundTrace]) -> int:
    return sum(len(r.verdict.accepted_rows) for r in rounds)


def acceptance_rate(rounds: Sequence[RoundTrace]) -> float | None:
    """accepted / drafted; in a tree at most one path can be accepted. None: nothing was drafted."""
    drafted = num_drafted(rounds)
    return num_accepted(rounds) / drafted if drafted else None


def acceptance_by_depth(rounds: Sequence[RoundTrace]) -> tuple[DepthAcceptance, ...]:
    """Conditional acceptance per depth, with the number of survivors it is conditioned on."""
    reached: dict[int, int] = {}
    accepted: dict[int, int] = {}
    for round_ in rounds:
        path = (0, *round_.verdict.accepted_rows)
        for depth, row in enumerate(path, start=1):
            if round_.tree.children(row) and not (depth == len(path) and _was_cut(round_)):
                reached[depth] = reached.get(depth, 0) + 1
                accepted[depth] = accepted.get(depth, 0) + (depth < len(path))
    return tuple(DepthAcceptance(d, reached[d], accepted[d]) for d in sorted(reached))


def time_split(rounds: Sequence[RoundTrace]) -> TimeSplit:
    return TimeSplit(
        draft_seconds=sum(r.draft_seconds for r in rounds),
        verify_seconds=sum(r.verify_seconds for r in rounds),
        commit_seconds=sum(r.commit_seconds for r in rounds),
    )


def tokens_per_second(rounds: Sequence[RoundTrace]) -> float:
    """Tokens over the lane's own clock: prefill, drawing and other lanes excluded."""
    return num_tokens(rounds) / time_split(rounds).seconds


def speedup(rounds: Sequence[RoundTrace], plain: Sequence[RoundTrace]) -> float:
    """S: tokens per second over those of the plain lane of the same run."""
    return tokens_per_second(rounds) / tokens_per_second(plain)


def rho(rounds: Sequence[RoundTrace], plain: Sequence[RoundTrace]) -> float:
    """Cost of a round in plain steps; S = tau / rho."""
    per_round = time_split(rounds).seconds / len(rounds)
    return per_round * len(plain) / time_split(plain).seconds


def answer_tokens(rounds: Sequence[RoundTrace]) -> tuple[int, ...]:
    return tuple(token for r in rounds for token in r.new_tokens)


def first_difference(
    rounds: Sequence[RoundTrace], plain: Sequence[RoundTrace]
) -> Difference | None:
    """None if one answer is a prefix of the other: identical as far as both have come."""
    ours, theirs = answer_tokens(rounds), answer_tokens(plain)
    for position, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        if a != b:
            gaps = [odds.top_two_gap for r in plain for odds in r.odds]
            return Difference(position, gaps[position])
    return None


def _was_cut(round_: RoundTrace) -> bool:
    """A stop fell on a draft token, so the walk never asked for what comes after it."""
    return round_.verdict.next_token is None
