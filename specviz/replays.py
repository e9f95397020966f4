"""Recorded rounds played again with other drafts: which guesses were right, and what is left of a
round without some of its rows. Facts of a trace and arithmetic; what they may be used for, and what
that assumes, is `what_if`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from specviz.trace import RoundTrace
from specviz.tree import DraftTree

ENOUGH_NEIGHBOURS = 8
Mark: TypeAlias = bool | None  # of one token of the answer: guessed right, wrong, or not guessed


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a round costs time: rows read, passes of the drafter."""

    num_rows: int
    num_steps: int


@dataclass(frozen=True, slots=True)
class Played:
    """The answer walked over its marks, in expectation."""

    num_rounds: float
    cost: float  # of all rounds


@dataclass(frozen=True, slots=True)
class Replayed:
    """A recorded round, less the rows a setting drops."""

    num_tokens: int
    shape: Shape


def marks_of(rounds: Iterable[RoundTrace]) -> tuple[Mark, ...]:
    """For each token of the answer: was the guess at it, made behind true text, right?"""
    marks: list[Mark] = []
    for round_ in rounds:
        accepted = round_.verdict.accepted_rows
        marks += [True] * len(accepted)
        if round_.verdict.next_token is not None:
            last = accepted[-1] if accepted else 0
            marks.append(False if round_.tree.children(last) else None)
    return tuple(marks)


def draft_depths(tree: DraftTree) -> tuple[int, ...]:
    """Of the draft rows, from row 1 on."""
    return tree.depths[1 : tree.num_draft_tokens + 1]


def kept_to_depth(tree: DraftTree, length: int) -> frozenset[int]:
    """Draft rows at most `length` deep."""
    return frozenset(r for r, depth in enumerate(draft_depths(tree), start=1) if depth <= length)


def kept_in_budget(round_: RoundTrace, num_rows: int) -> frozenset[int]:
    """The likeliest draft rows by the product of q along their path; closed under parents."""
    tree = round_.tree
    scores = [1.0]
    for row in range(1, tree.num_draft_tokens + 1):
        scores.append(scores[tree.parents[row]] * round_.draft_probs[row])
    order = sorted(range(1, len(scores)), key=lambda row: (-scores[row], row))
    return frozenset(order[: max(0, num_rows - 1 - tree.num_lookahead_rows)])


def kept_of_chain(tree: DraftTree) -> frozenset[int]:
    kept: list[int] = []
    while children := tree.children(kept[-1] if kept else 0):
        kept.append(children[0])
    return frozenset(kept)


def replayed(round_: RoundTrace, kept: frozenset[int], max_steps: int | None = None) -> Replayed:
    """What the round gives and costs with the draft rows `kept` alone.

    `max_steps`: passes the drafter makes at most; None: as many as it made.
    """
    accepted = round_.verdict.accepted_rows
    num_kept = next((i for i, row in enumerate(accepted) if row not in kept), len(accepted))
    # Where an accepted row was dropped the target adds a token of its own in its place.
    own = num_kept < len(accepted) or round_.verdict.next_token is not None
    num_steps = len(round_.draft_step_seconds)
    if max_steps is not None:
        num_steps = min(num_steps, max_steps)
    num_rows = 1 + len(kept) + round_.tree.num_lookahead_rows
    return Replayed(num_kept + own, Shape(num_rows, num_steps))


def is_wholly_read(round_: RoundTrace) -> bool:
    """Whether the trace holds the target's own chance of every draft row; some programs keep none."""
    return None not in round_.softmax_probs[1 : round_.tree.num_draft_tokens + 1]


def is_as_greedy(round_: RoundTrace) -> bool:
    """Whether the target's likeliest token was taken at every visited row, as at temperature 0."""
    likeliest = [
        max(row.odds, key=lambda o: o.target_prob).token for row in round_.odds if row.odds
    ]
    told = round_.new_tokens
    return bool(told) and tuple(likeliest[: len(told)]) == told


def tokens_at_temperature_one(round_: RoundTrace) -> float:
    """E[tokens] of the round's own tree if the target samples at temperature 1, nothing cut off.

    For guesses that were chosen, not drawn: such a guess is kept with exactly the target's chance
    of that token, whatever its siblings, so a row is kept with the product along its path. The
    target's chances are those of plain softmax, of a round that `is_wholly_read`.
    """
    reached = [1.0]
    for row in range(1, round_.tree.num_draft_tokens + 1):
        chance = round_.softmax_probs[row]
        assert chance is not None, "see is_wholly_read"
        reached.append(reached[round_.tree.parents[row]] * chance)
    return sum(reached)


def filled(marks: Sequence[Mark]) -> tuple[list[float], list[float], list[float]]:
    """Chances to be kept, with the unknown at a rate, all refused, all kept.

    The rate is that of the guesses next behind unknown tokens, if they are ENOUGH_NEIGHBOURS: an
    unknown token stands behind a whole path that was right, so where guessing is easy. Else it is
    the rate of all known marks.
    """
    behind = [after for mark, after in pairwise(marks) if mark is None and after is not None]
    known = [mark for mark in marks if mark is not None]
    sample = behind if len(behind) >= ENOUGH_NEIGHBOURS else known
    rate = sum(sample) / len(sample) if sample else 0.0
    expected, low, high = (
        [fill if mark is None else float(mark) for mark in marks] for fill in (rate, 0.0, 1.0)
    )
    return expected, low, high


def walk(chances: Sequence[float], lengths: Sequence[int], cost: Callable[[int], float]) -> Played:
    """Rounds and costs in expectation, from the first token; each round takes the cheapest length.

    Worked backwards: what is left after a round is known before the round is looked at.
    """
    num_tokens = len(chances)
    left = [Played(0.0, 0.0)] * (num_tokens + 1)
    for start in reversed(range(num_tokens)):
        left[start] = min(
            (_one_round(chances, left, start, k, cost(k)) for k in lengths),
            key=lambda played: (played.cost, played.num_rounds),
        )
    return left[0]


def _one_round(
    chances: Sequence[float], left: Sequence[Played], start: int, length: int, cost: float
) -> Played:
    """A draft of `length` at `start`, and all that follows it."""
    num_rounds, total, reached = 1.0, cost, 1.0
    for place in range(start, min(start + length, len(chances))):
        refused = reached * (1 - chances[place])
        num_rounds += refused * left[place + 1].num_rounds
        total += refused * left[place + 1].cost
        reached *= chances[place]
    end = min(start + length + 1, len(chances))
    return Played(num_rounds + reached * left[end].num_rounds, total + reached * left[end].cost)
