"""The cost account of a lane: what each part of a round cost, in plain steps of the same run.

Read from a finished trace; nothing is assumed and nothing is timed here. Two numbers stand side by
side on purpose. `rho` is what the rounds took in all over what plain steps took in all: the number
that makes S = tau / rho true. Medians of single passes say what a pass costs when nothing disturbs
it; put together as delta(n) + d c + eta they give `rho_of_medians`. Where the two differ much, the
clock was disturbed. Estimates of other settings are `what_if`, words about all this `verdict`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from specviz.config import PLAIN_DRAFTER
from specviz.metrics import Spread, Tally, spread, tally
from specviz.theory import Alpha, Choice, Costs, alpha_of, predicted, round_cost
from specviz.trace import LaneStart, RoundTrace

MOSTLY = 0.9  # of the rounds drafted as many tokens: near an answer's end there are fewer
ENOUGH_READS = 3  # of a size, for its median to stand in a curve beside sizes read more often


@dataclass(frozen=True, slots=True)
class ReadCost:
    """Passes of the target over `num_rows` rows."""

    num_rows: int
    num_reads: int
    seconds: Spread


@dataclass(frozen=True, slots=True)
class Parts:
    """A mean round, or what it costs beyond a plain step, in plain steps. The parts add up."""

    read: float
    draft: float  # passes of the drafter
    host: float  # accept walk, cache, stop rule, and drafting outside of passes

    @property
    def total(self) -> float:
        return self.read + self.draft + self.host

    @property
    def largest(self) -> str:
        """The name of the field that is largest; of equals the first."""
        parts = {"read": self.read, "draft": self.draft, "host": self.host}
        return max(parts, key=lambda name: parts[name])


@dataclass(frozen=True, slots=True)
class Account:
    """Built by `account`. Spreads are in seconds, over passes or rounds; ratios in plain steps."""

    tally: Tally
    plain: Tally
    plain_step: Spread  # a whole round of the plain lane, its host time included
    plain_read: ReadCost  # the pass within it
    draft_step: Spread | None  # None: the drafter makes no passes of a model
    host: Spread  # per round
    reads: tuple[ReadCost, ...]  # of this lane, by number of rows
    num_draft_steps: int
    draft_step_seconds: float  # of all of them
    chain_length: int | None  # K, where nearly every round drafted a chain of K

    @property
    def tau(self) -> float:
        return self.tally.tau

    @property
    def rho(self) -> float:
        return self.tally.rho(self.plain)

    @property
    def speedup(self) -> float:
        return self.tally.speedup(self.plain)

    @property
    def alpha(self) -> Alpha | None:
        """Over all depths. None: nothing was drafted."""
        return alpha_of(self.tally.depths)

    @property
    def plain_seconds(self) -> float:
        """The mean plain step."""
        return self.plain.time.seconds / self.plain.num_rounds

    @property
    def draft_steps_per_round(self) -> float:
        """d."""
        return self.num_draft_steps / self.tally.num_rounds

    @property
    def parts(self) -> Parts:
        """rho in its parts, from totals: they add up to rho exactly."""
        unit = self.tally.num_rounds * self.plain_seconds
        read = self.tally.time.verify_seconds
        rest = self.tally.time.seconds - read - self.draft_step_seconds
        return Parts(read / unit, self.draft_step_seconds / unit, rest / unit)

    @property
    def plain_parts(self) -> Parts:
        """A plain step in its parts; they add up to 1."""
        read = self.plain.time.verify_seconds / self.plain.time.seconds
        return Parts(read, 0.0, 1 - read)

    def of_round(self, round_: RoundTrace) -> Parts:
        """One round in plain steps; the mean over all rounds is `parts`."""
        unit, draft = self.plain_seconds, sum(round_.draft_step_seconds)
        return Parts(round_.verify_seconds / unit, draft / unit, host_seconds(round_) / unit)

    @property
    def excess(self) -> Parts:
        """What each part costs beyond the same part of a plain step; adds up to rho - 1."""
        mine, plain = self.parts, self.plain_parts
        return Parts(mine.read - plain.read, mine.draft, mine.host - plain.host)

    @property
    def costs(self) -> Costs:
        """c, eta and delta(n) by medians, in median plain steps.

        One row is the plain lane's pass. Sizes read fewer than ENOUGH_READS times are left out, if
        any size was read as often; a curve through single passes would be a curve of noise.
        """
        unit = self.plain_step.median
        often = [r for r in self.reads if r.num_reads >= ENOUGH_READS] or list(self.reads)
        curve = {r.num_rows: r.seconds.median / unit for r in often}
        curve[1] = self.plain_read.seconds.median / unit
        step = 0.0 if self.draft_step is None else self.draft_step.median / unit
        return Costs(step, self.host.median / unit, tuple(sorted(curve.items())))

    @property
    def mean_read(self) -> float:
        """delta(n) of the mean round, by medians."""
        costs = self.costs
        reads = sum(r.num_reads * costs.delta(r.num_rows) for r in self.reads)
        return reads / self.tally.num_rounds

    @property
    def rho_of_medians(self) -> float:
        """delta(n) + d c + eta of the mean round."""
        flat = Costs(self.costs.draft_step, self.costs.host, ((1, self.mean_read),))
        return round_cost(flat, num_rows=1, num_steps=self.draft_steps_per_round)

    @property
    def predicted(self) -> Choice | None:
        """What the formulas make of this lane's own alpha, K and costs by medians; None: they are
        about chains of one length."""
        if self.alpha is None or self.chain_length is None:
            return None
        steps = self.draft_steps_per_round
        return predicted(self.alpha.rate, self.chain_length, self.costs, num_steps=steps)

    @property
    def usual_read(self) -> ReadCost:
        """Of reads that checked something the size read most often; of equals the larger."""
        checked = [r for r in self.reads if r.num_rows > 1] or list(self.reads)
        return max(checked, key=lambda r: (r.num_reads, r.num_rows))

    @property
    def read_growth(self) -> float:
        """The usual read over a one-row read, both medians: what checking so many rows costs."""
        return self.usual_read.seconds.median / self.plain_read.seconds.median


def account(rounds: Sequence[RoundTrace], plain: Sequence[RoundTrace]) -> Account:
    """The account of one lane beside the plain lane of its backbone.

    ValueError: a lane without rounds, or a clock that did not move.
    """
    if not rounds or not plain:
        raise ValueError("A cost account needs a round of the lane and a round of its plain lane.")
    ours, theirs = tally(rounds), tally(plain)
    if min(ours.time.seconds, theirs.time.seconds) <= 0:
        raise ValueError("This trace has no times, so there is nothing to account for.")
    steps = [seconds for r in rounds for seconds in r.draft_step_seconds]
    return Account(
        tally=ours,
        plain=theirs,
        plain_step=spread([r.seconds for r in plain]),
        plain_read=ReadCost(1, len(plain), spread([r.verify_seconds for r in plain])),
        draft_step=spread(steps) if steps else None,
        host=spread([host_seconds(r) for r in rounds]),
        reads=_reads(rounds),
        num_draft_steps=len(steps),
        draft_step_seconds=sum(steps),
        chain_length=_chain_length(rounds),
    )


def host_seconds(round_: RoundTrace) -> float:
    """All of a round that is no pass of a model, the target's or the drafter's."""
    return round_.seconds - round_.verify_seconds - sum(round_.draft_step_seconds)


def plain_lane_of(start: LaneStart, starts: Sequence[LaneStart]) -> LaneStart | None:
    """The first lane that decodes plainly with the same backbone: what `start` is compared with."""
    same = (s for s in starts if s.drafter == PLAIN_DRAFTER and s.backbone == start.backbone)
    return next(same, None)


def _chain_length(rounds: Sequence[RoundTrace]) -> int | None:
    if not all(r.tree.is_chain for r in rounds):
        return None
    length, count = Counter(r.tree.num_draft_tokens for r in rounds).most_common(1)[0]
    return length if length > 0 and count >= MOSTLY * len(rounds) else None


def _reads(rounds: Sequence[RoundTrace]) -> tuple[ReadCost, ...]:
    seconds: dict[int, list[float]] = {}
    for round_ in rounds:
        seconds.setdefault(round_.rows_written, []).append(round_.verify_seconds)
    return tuple(ReadCost(n, len(s), spread(s)) for n, s in sorted(seconds.items()))
