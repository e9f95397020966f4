"""Real rows for the labs: what recorded runs hold of acceptance, of p and q, of trees and of times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from specviz.config import PLAIN_DRAFTER
from specviz.labs.exact import MAX_SIBLINGS, Odds
from specviz.metrics import mean_acceptance_length, rho, speedup
from specviz.theory import Alpha, expected_tokens, fit_alpha
from specviz.trace import LaneStart, RoundTrace, RowOdds, RunStart, TraceEvent, rounds_of
from specviz.tree import DraftTree

MAX_SHOWN = 7  # tokens of a row that a lab takes; all others together are one more
MAX_ROWS_OFFERED = 24


@dataclass(frozen=True, slots=True)
class ChainLane:
    """A recorded lane that drafted chains, against the formula."""

    title: str
    drafter: str
    alpha: Alpha
    max_drafted: int
    num_rounds: int
    formula: float  # mean over its rounds of E at each round's own K
    counted: float  # tau


@dataclass(frozen=True, slots=True)
class RealRow:
    """One row of a recorded round, with what was decided there."""

    label: str  # the text before it, and its siblings
    odds: Odds


@dataclass(frozen=True, slots=True)
class Reading:
    """Reading and writing in one recorded run."""

    num_prompt_tokens: int
    prefill_seconds: float
    step_seconds: float  # median of the plain lane's passes: one token each
    num_steps: int
    dtype: str
    machine: str

    @property
    def seconds_per_prompt_token(self) -> float:
        return self.prefill_seconds / self.num_prompt_tokens


@dataclass(frozen=True, slots=True)
class LaneSpeed:
    """A recorded lane beside the plain lane of its model."""

    drafter: str
    tau: float
    rho: float
    speedup: float


def starts(events: Sequence[TraceEvent]) -> list[LaneStart]:
    return [event for event in events if isinstance(event, LaneStart)]


def chain_lanes(events: Sequence[TraceEvent]) -> list[ChainLane]:
    """The lanes whose rounds are chains, as far as they drafted. A round that a stop cut short
    counts as one that drafted what was kept."""
    found = []
    for start in starts(events):
        rounds = [r for r in rounds_of(events, start.lane) if r.tree.num_draft_tokens]
        if not rounds or not all(r.tree.is_chain for r in rounds):
            continue
        kept = [len(r.verdict.accepted_rows) for r in rounds]
        asked = [
            k if r.verdict.next_token_kind == "none" else r.tree.num_draft_tokens
            for k, r in zip(kept, rounds, strict=True)
        ]
        alpha = fit_alpha(kept, asked)
        if alpha is not None:
            formula = sum(expected_tokens(alpha.rate, k) for k in asked) / len(asked)
            counted = sum(
                k + (r.verdict.next_token is not None) for k, r in zip(kept, rounds, strict=True)
            )
            found.append(
                ChainLane(
                    start.title,
                    start.drafter,
                    alpha,
                    max(asked),
                    len(rounds),
                    formula,
                    counted / len(rounds),
                )
            )
    return found


def real_rows(events: Sequence[TraceEvent]) -> list[RealRow]:
    """Rows at which something was drafted and the target was in doubt, the most doubtful first.

    p is the target's own softmax. q is the drafter's where it kept one; where it chose its tokens
    without chance (a greedy run, an n-gram) its guesses are point masses, and the lab tries them in
    the order in which they stood.
    """
    found = [
        (max(o.softmax_prob for o in row.odds), made)
        for round_ in events
        if isinstance(round_, RoundTrace)
        for row in round_.odds
        if (made := _real_row(round_, row)) is not None
    ]
    ranked = sorted(found, key=lambda pair: pair[0])
    return [made for _, made in ranked[:MAX_ROWS_OFFERED]]


def _real_row(round_: RoundTrace, row: RowOdds) -> RealRow | None:
    children = round_.tree.children(row.row)[:MAX_SIBLINGS]
    guesses = [round_.tree.tokens[child] for child in children]
    known = {odds.token: odds for odds in row.odds}
    if not children or any(token not in known for token in guesses):
        return None
    rest = [o for o in row.odds if o.token not in guesses]
    shown = [
        (o.text, o.softmax_prob, o.draft_prob)
        for o in (*(known[token] for token in guesses), *rest)
    ]
    before = "".join(round_.texts[i] for i in round_.tree.path(row.row))[-24:]
    label = f"{before!r} → {', '.join(repr(text) for text, _, _ in shown[: len(guesses)])}"
    return RealRow(label, odds_of(shown, len(guesses)))


def odds_of(tokens: Sequence[tuple[str, float, float | None]], num_guesses: int) -> Odds:
    """Of a real row's best tokens, (text, p, q) each, those that were guessed first. All tokens that
    are not shown are one more. Without q for each of them the guesses are point masses."""
    shown = tokens[:MAX_SHOWN]
    p, q = [p for _, p, _ in shown], [q for _, _, q in shown]
    is_sampled = all(v is not None for v in q) and max(v or 0.0 for v in q) < 1.0
    if not is_sampled:
        q = [1 / num_guesses if i < num_guesses else 0.0 for i in range(len(shown))]
    sides = [[v or 0.0 for v in side] for side in (p, q)]
    for side in sides:
        side.append(max(0.0, 1 - sum(side)))
    labels = (*(text for text, _, _ in shown), "…")
    return Odds(tuple(sides[0]), tuple(sides[1]), labels, num_guesses, is_sampled)


def real_trees(events: Sequence[TraceEvent]) -> list[tuple[str, DraftTree]]:
    """(lane, its largest tree): one for each lane that branched."""
    found = []
    for start in starts(events):
        trees = [r.tree for r in rounds_of(events, start.lane) if not r.tree.is_chain]
        if trees:
            found.append((start.title, max(trees, key=len)))
    return found


def reading(events: Sequence[TraceEvent]) -> Reading | None:
    """None if the run has no plain lane."""
    start = next(event for event in events if isinstance(event, RunStart))
    plain = [s.lane for s in starts(events) if s.drafter == PLAIN_DRAFTER and not s.backbone]
    steps = [r.verify_seconds for r in rounds_of(events, plain[0])] if plain else []
    num_read = len(start.prompt_tokens) - 1  # the last one is the first round's root
    if not steps or num_read < 1 or start.prefill_seconds <= 0:
        return None
    return Reading(
        num_read,
        start.prefill_seconds,
        median(steps),
        len(steps),
        start.target.dtype,
        start.machine,
    )


def lane_speeds(events: Sequence[TraceEvent]) -> list[LaneSpeed]:
    """Each lane that has a plain lane of the same backbone, against it."""
    by_backbone = {s.backbone: s for s in starts(events) if s.drafter == PLAIN_DRAFTER}
    found = []
    for start in starts(events):
        plain = by_backbone.get(start.backbone)
        rounds = rounds_of(events, start.lane)
        if start.drafter == PLAIN_DRAFTER or plain is None or not rounds:
            continue
        base = rounds_of(events, plain.lane)
        if base:
            tau = mean_acceptance_length(rounds)
            found.append(LaneSpeed(start.drafter, tau, rho(rounds, base), speedup(rounds, base)))
    return found
