"""What a recorded lane would have given with other settings: estimates, each with what it assumes.

Two ways to replay a recording, chosen by what the trace truly holds.

*Set anew.* Some drafters look at the text alone (`TEXT_ALONE`): what they guess at a place depends
on the tokens before it, not on where the round began. For them the trace tells of each token of
the answer whether the guess at it was kept (1), refused (0), or never made (unknown: the target's
own token after a path that survived). Any draft length can be walked over these marks; rounds then
begin where that length makes them begin. Unknown marks count as kept at the rate of those next
behind them, and counting all as refused or all as kept gives bounds, since a kept mark never makes
a round end earlier. Under sampling this is right in distribution: whether a guess is kept depends on
the text before it, and a bonus token is drawn from the same p as any other.

*By position.* All other drafters guess by depth: heads, features of their own, matches found at
the root. Their recorded rounds are taken as they stand, each less the rows that the setting drops:
what was accepted of the kept rows, and one token of the target's own. A shorter draft would begin
its rounds elsewhere: it would cut an easy stretch into more rounds, each of them good. So this
estimate is unbiased if acceptance does not depend on the place, and else somewhat too low for
shorter drafts.

Costs come from the account's medians, scaled so that the setting that was recorded gets the rho
that was measured. Nothing is drawn here, and nothing is estimated that the trace does not hold: a
longer draft by position has to be measured, and so has every temperature but the recorded one and,
for guesses that are chosen and not drawn, temperature 1, and 0 while a drawn text is the greedy one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

from specviz.config import BUDGET_KNOB, WIDTH_KNOB, KnobValue
from specviz.cost import Account
from specviz.replays import (
    Mark,
    Replayed,
    Shape,
    draft_depths,
    filled,
    is_as_greedy,
    is_wholly_read,
    kept_in_budget,
    kept_of_chain,
    kept_to_depth,
    marks_of,
    replayed,
    tokens_at_temperature_one,
    walk,
)
from specviz.theory import Costs, round_cost
from specviz.trace import LaneStart, RoundTrace
from specviz.words import Message, Refusal, message

TEXT_ALONE = {"draft_model"}  # registry names; see above
CHOSEN = {"prompt_lookup", "lookahead", "medusa", "eagle2", "eagle3"}  # never draw their guesses
FEWEST_ROUNDS = 4  # of a drawn text that are a greedy one's, to tell anything of temperature 0
LONGEST = 16  # drafts beyond this are not estimated
DEPTH_KNOBS = ("num_draft_tokens", "depth", "num_heads")  # a lane has one of these, or none


@dataclass(frozen=True, slots=True)
class Estimate:
    """Never measured. `assumes` is part of the number: show it with it."""

    tau: float
    rho: float
    assumes: tuple[Message, ...]
    bounds: tuple[float, float] | None = None  # of tau: whatever the unknown tokens would have done
    measure: tuple[tuple[str, KnobValue], ...] = ()  # knobs that would measure it; (): none does

    @property
    def speedup(self) -> float:
        return self.tau / self.rho


@dataclass(frozen=True)
class Recording:
    """One lane of a finished trace, with its account."""

    start: LaneStart
    rounds: Sequence[RoundTrace]
    account: Account

    @property
    def is_text_alone(self) -> bool:
        return self.start.drafter in TEXT_ALONE and not self.has_branches

    @property
    def is_chosen(self) -> bool:
        """Whether the same guesses are made at every temperature."""
        return self.start.drafter in CHOSEN or self.start.knobs.get(WIDTH_KNOB, 1) != 1

    @cached_property
    def deepest(self) -> int:
        """The longest draft of any round."""
        return max(max(draft_depths(r.tree), default=0) for r in self.rounds)

    @cached_property
    def has_branches(self) -> bool:
        """Whether any draft was more than a chain; lookahead rows are no drafts."""
        trees = (r.tree for r in self.rounds)
        return any(
            t.parents[1 : t.num_draft_tokens + 1] != tuple(range(t.num_draft_tokens)) for t in trees
        )

    @cached_property
    def marks(self) -> tuple[Mark, ...]:
        """One per token of the answer. Says something only if `is_text_alone`."""
        return marks_of(self.rounds)

    @cached_property
    def shapes(self) -> Counter[Shape]:
        """How many rounds had each shape."""
        return Counter(Shape(r.rows_written, len(r.draft_step_seconds)) for r in self.rounds)

    @cached_property
    def scale(self) -> float:
        """Measured rho over the same rounds' cost by medians."""
        total = sum(count * self.cost(shape) for shape, count in self.shapes.items())
        return self.account.rho * len(self.rounds) / total

    @cached_property
    def costs(self) -> Costs:
        return self.account.costs

    def cost(self, shape: Shape) -> float:
        return round_cost(self.costs, num_rows=shape.num_rows, num_steps=shape.num_steps)


def truncated(recording: Recording, length: int) -> Estimate:
    """Drafts at most `length` deep. Longer than recorded only where rounds can be set anew.

    Refusal: the recording holds nothing about such drafts.
    """
    if recording.deepest == 0:
        raise Refusal(message("refusal.drafted_nothing"))
    longest = LONGEST if recording.is_text_alone else recording.deepest
    if not 1 <= length <= longest:
        raise Refusal(message("refusal.draft_length", limit=longest, value=length))
    measure = _knob_change(recording.start, DEPTH_KNOBS, length)
    if not recording.is_text_alone:
        kept = [replayed(r, kept_to_depth(r.tree, length), length) for r in recording.rounds]
        estimate = _by_position(recording, kept)
        # With a budget the drafter would read other rows instead of those that were too deep.
        is_sized = BUDGET_KNOB in recording.start.knobs and recording.has_branches
        is_refilled = is_sized and length < recording.deepest
        said = (message("verdict.assume.refill"),) if is_refilled else ()
        return replace(estimate, assumes=(*said, *estimate.assumes), measure=measure)
    shape = Shape(length + 1, length)
    taus = [
        len(recording.marks) / walk(chances, (length,), lambda _: 0.0).num_rounds
        for chances in filled(recording.marks)
    ]
    return Estimate(
        tau=taus[0],
        rho=recording.cost(shape) * recording.scale,
        assumes=(_set_anew(recording), *_cost_assumptions(recording, [shape])),
        bounds=(taus[1], taus[2]),
        measure=measure,
    )


def budgeted(recording: Recording, num_rows: int) -> Estimate:
    """At most `num_rows` rows read in a round, root and lookahead rows included.

    Kept are the rows whose path the drafter thought likeliest; equal ones in their order.
    Refusal: not even the root has room.
    """
    ahead = max(r.tree.num_lookahead_rows for r in recording.rounds)
    if num_rows < 1 + ahead:
        raise Refusal(message("refusal.budget_rows", ahead=ahead, least=1 + ahead, value=num_rows))
    kept = [replayed(r, kept_in_budget(r, num_rows)) for r in recording.rounds]
    said = (message("verdict.assume.likeliest"), *_siblings(recording))
    estimate = _by_position(recording, kept)
    measure = _knob_change(recording.start, (BUDGET_KNOB,), num_rows)
    return replace(estimate, assumes=(*said, *estimate.assumes), measure=measure)


def unbranched(recording: Recording) -> Estimate:
    """The first child of every row alone: the chain that the drafter liked best."""
    kept = [replayed(r, kept_of_chain(r.tree)) for r in recording.rounds]
    estimate = _by_position(recording, kept)
    said = (message("verdict.assume.same_passes"), *_siblings(recording))
    measure = _knob_change(recording.start, (WIDTH_KNOB,), 1)
    return replace(estimate, assumes=(*said, *estimate.assumes), measure=measure)


def oracle(recording: Recording) -> Estimate:
    """Each round's draft exactly as long as pays, as if its outcome were known beforehand.

    From no draft at all up to what was recorded. An upper bound of what choosing lengths can give
    with this drafter at these costs; no method reaches it.
    """
    lengths = range(recording.deepest + 1)
    known = message("verdict.assume.oracle")
    if recording.is_text_alone:
        chances, *_ = filled(recording.marks)
        played = walk(chances, lengths, lambda k: recording.cost(Shape(k + 1, k)))
        shapes = [Shape(k + 1, k) for k in lengths]
        return Estimate(
            tau=len(recording.marks) / played.num_rounds,
            rho=recording.scale * played.cost / played.num_rounds,
            assumes=(known, _set_anew(recording), *_cost_assumptions(recording, shapes)),
        )
    options = [
        [replayed(r, kept_to_depth(r.tree, k), k) for k in lengths] for r in recording.rounds
    ]
    estimate = _by_position(recording, _best_of_each(recording, options))
    return replace(estimate, assumes=(known, *estimate.assumes))


def at_costs(recording: Recording, costs: Costs) -> Estimate:
    """The recorded rounds where passes cost something else: another machine, another drafter.

    What was accepted stays; costs are taken as given, and nothing is scaled.
    """
    shapes = recording.shapes
    rho = sum(
        count * round_cost(costs, num_rows=shape.num_rows, num_steps=shape.num_steps)
        for shape, count in shapes.items()
    ) / len(recording.rounds)
    largest = max(shape.num_rows for shape in shapes)
    beyond = () if costs.covers(largest) else (message("verdict.assume.beyond", n=largest),)
    said = (message("verdict.assume.given_costs"), *beyond)
    return Estimate(recording.account.tau, rho, said)


def at_temperature_one(recording: Recording) -> Estimate:
    """The recorded drafts against a target that samples at temperature 1, no token cut off.

    Exact for each recorded round; the text would be another one. Refusal: guesses that would be
    drawn as well, with chances the trace does not hold; or rows without the target's own.
    """
    if not recording.is_chosen:
        raise Refusal(message("refusal.other_guesses", drafter=recording.start.drafter))
    if not all(map(is_wholly_read, recording.rounds)):
        raise Refusal(message("refusal.no_softmax"))
    return Estimate(
        tau=_mean(map(tokens_at_temperature_one, recording.rounds)),
        rho=recording.account.rho,
        assumes=(message("verdict.assume.temperature_one"),),
    )


def at_temperature_zero(recording: Recording) -> Estimate:
    """The first rounds of a drawn text, as far as a greedy run would write and draft the same.

    Those rounds are the greedy run's own; that the rest would be like them is what is estimated.
    Refusal: guesses that would be others, or a text that parts from the greedy one too soon.
    """
    if not recording.is_chosen:
        raise Refusal(message("refusal.other_guesses", drafter=recording.start.drafter))
    kept = list(takewhile(is_as_greedy, recording.rounds))
    tokens = sum(len(r.new_tokens) for r in kept)
    if len(kept) < FEWEST_ROUNDS:
        raise Refusal(message("refusal.parts_early", tokens=tokens, least=FEWEST_ROUNDS))
    shapes = [Shape(r.rows_written, len(r.draft_step_seconds)) for r in kept]
    told = message(
        "verdict.assume.temperature_zero",
        rounds=len(kept),
        all=len(recording.rounds),
        tokens=tokens,
    )
    return Estimate(
        tau=tokens / len(kept),
        rho=recording.scale * _mean(recording.cost(shape) for shape in shapes),
        assumes=(told, *_cost_assumptions(recording, shapes)),
    )


def _by_position(recording: Recording, rounds: Sequence[Replayed]) -> Estimate:
    shapes = [r.shape for r in rounds]
    return Estimate(
        tau=_mean(r.num_tokens for r in rounds),
        rho=recording.scale * _mean(recording.cost(shape) for shape in shapes),
        assumes=(message("verdict.assume.position"), *_cost_assumptions(recording, shapes)),
    )


def _best_of_each(recording: Recording, options: Sequence[Sequence[Replayed]]) -> list[Replayed]:
    """One option per round, so that all tokens over all costs are most (Dinkelbach 1967)."""
    speed = 0.0
    while True:
        chosen = [
            max(of_round, key=lambda r: r.num_tokens - speed * recording.cost(r.shape))
            for of_round in options
        ]
        total = sum(r.num_tokens for r in chosen)
        faster = total / sum(recording.cost(r.shape) for r in chosen)
        if faster <= speed * (1 + 1e-12):
            return chosen
        speed = faster


def _set_anew(recording: Recording) -> Message:
    unknown = sum(mark is None for mark in recording.marks)
    return message("verdict.assume.set_anew", unknown=unknown, tokens=len(recording.marks))


def _siblings(recording: Recording) -> tuple[Message, ...]:
    """Refused siblings use up a part of p; dropping one would have left it to the next."""
    trials = (trial for r in recording.rounds for trial in r.verdict.trials)
    is_drawn = any(t.draw is not None and 0 < t.threshold < 1 for t in trials)
    return (message("verdict.assume.siblings"),) if is_drawn else ()


def _cost_assumptions(recording: Recording, shapes: Sequence[Shape]) -> tuple[Message, ...]:
    said = [message("verdict.assume.costs")]
    largest = max(shape.num_rows for shape in shapes)
    if not recording.costs.covers(largest):
        said.append(message("verdict.assume.beyond", n=largest))
    return tuple(said)


def _knob_change(
    start: LaneStart, names: Sequence[str], value: int
) -> tuple[tuple[str, KnobValue], ...]:
    """Knobs of the lane to be changed. A length that adapts would not stay what is asked for."""
    name = next((name for name in names if name in start.knobs), None)
    if name is None:
        return ()
    adapts = name in DEPTH_KNOBS and start.knobs.get("is_adaptive")
    return ((name, value), ("is_adaptive", False)) if adapts else ((name, value),)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
