"""Numbers about a run, from its trace alone. Page, command line and benchmark share them.

Every definition stands here once. `rounds` are those of one lane, in order; a `Tally` is what they
add up to, and tallies of several prompts add up too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from statistics import median, quantiles

from specviz.trace import RoundTrace, RowOdds

MANTISSA_BITS = {"bfloat16": 7, "float16": 10, "float32": 23, "float64": 52}
NEAR_TIE_STEPS = 2
CONFIDENCE_Z = 1.959964  # two-sided 95 % of the normal distribution


@dataclass(frozen=True, slots=True)
class DepthAcceptance:
    """How often a draft token at `depth` survives, given that its parent did."""

    depth: int
    num_reached: int  # rounds in which the walk asked for a child at this depth
    num_accepted: int

    @property
    def rate(self) -> float:
        return self.num_accepted / self.num_reached

    def __add__(self, other: DepthAcceptance) -> DepthAcceptance:
        assert self.depth == other.depth
        return DepthAcceptance(
            self.depth,
            self.num_reached + other.num_reached,
            self.num_accepted + other.num_accepted,
        )


@dataclass(frozen=True, slots=True)
class TimeSplit:
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    commit_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        return self.draft_seconds + self.verify_seconds + self.commit_seconds

    def __add__(self, other: TimeSplit) -> TimeSplit:
        return TimeSplit(
            self.draft_seconds + other.draft_seconds,
            self.verify_seconds + other.verify_seconds,
            self.commit_seconds + other.commit_seconds,
        )


@dataclass(frozen=True, slots=True)
class Tally:
    """What rounds add up to. Ratios need at least one round, and clocks that moved."""

    num_rounds: int = 0
    num_tokens: int = 0
    num_drafted: int = 0
    num_accepted: int = 0
    num_rows: int = 0  # read by the target: roots, drafts and lookahead rows
    depths: tuple[DepthAcceptance, ...] = ()  # from depth 1 on, none left out
    time: TimeSplit = field(default_factory=TimeSplit)

    def __add__(self, other: Tally) -> Tally:
        pairs = zip_longest(self.depths, other.depths)
        return Tally(
            num_rounds=self.num_rounds + other.num_rounds,
            num_tokens=self.num_tokens + other.num_tokens,
            num_drafted=self.num_drafted + other.num_drafted,
            num_accepted=self.num_accepted + other.num_accepted,
            num_rows=self.num_rows + other.num_rows,
            depths=tuple(a + b if a and b else a or b for a, b in pairs),
            time=self.time + other.time,
        )

    @property
    def tau(self) -> float:
        """Tokens committed per target pass, the target's own included; a cut round counts as one."""
        return self.num_tokens / self.num_rounds

    @property
    def accepted_per_round(self) -> float:
        """tau without the target's own token."""
        return self.num_accepted / self.num_rounds

    @property
    def acceptance_rate(self) -> float | None:
        """accepted / drafted; in a tree at most one path can be accepted. None: nothing drafted."""
        return self.num_accepted / self.num_drafted if self.num_drafted else None

    @property
    def tokens_per_second(self) -> float:
        """Tokens over the lane's own clock: prefill, drawing and other lanes excluded."""
        return self.num_tokens / self.time.seconds

    @property
    def seconds_per_round(self) -> float:
        """What a round costs on the lane's own clock; of a plain lane, a plain step."""
        return self.time.seconds / self.num_rounds

    def speedup(self, plain: Tally) -> float:
        """S: plain's seconds per token over ours."""
        return self.tokens_per_second / plain.tokens_per_second

    def rho(self, plain: Tally) -> float:
        """Cost of a round in plain steps; S = tau / rho."""
        return self.seconds_per_round / plain.seconds_per_round


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles of one number over prompts."""

    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two lanes part: the first token that differs, and how near to a tie it was."""

    position: int  # 0-based index into the answer
    odds: RowOdds  # the baseline's there

    @property
    def top_two_gap(self) -> float:
        return self.odds.top_two_gap

    def is_near_tie(self, dtype: str) -> bool:
        return self.top_two_gap <= near_tie_gap(self.odds, dtype)


@dataclass(frozen=True, slots=True)
class Loop:
    """A stretch of text that says the same over and over."""

    start: int  # 0-based index of its first token
    period: int  # tokens until it says itself again
    num_tokens: int


def tally(rounds: Sequence[RoundTrace]) -> Tally:
    return Tally(
        num_rounds=len(rounds),
        num_tokens=num_tokens(rounds),
        num_drafted=num_drafted(rounds),
        num_accepted=num_accepted(rounds),
        num_rows=sum(r.rows_written for r in rounds),
        depths=acceptance_by_depth(rounds),
        time=time_split(rounds),
    )


def spread(values: Sequence[float]) -> Spread:
    """Quartiles by linear interpolation; of one value, that value."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, _, high = quantiles(values, n=4, method="inclusive")
    return Spread(low, median(values), high)


def interval(num_hits: int, num_tries: int) -> tuple[float, float]:
    """The 95 % interval of a rate that gave `num_hits` of `num_tries` (Wilson 1927)."""
    rate, z2 = num_hits / num_tries, CONFIDENCE_Z**2
    centre = rate + z2 / (2 * num_tries)
    half = CONFIDENCE_Z * math.sqrt(rate * (1 - rate) / num_tries + z2 / (4 * num_tries**2))
    scale = 1 + z2 / num_tries
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def num_tokens(rounds: Sequence[RoundTrace]) -> int:
    """Tokens committed, the target's own included."""
    return sum(len(r.new_tokens) for r in rounds)


def mean_acceptance_length(rounds: Sequence[RoundTrace]) -> float:
    """Tokens per target pass; see `Tally.tau`."""
    return tally(rounds).tau


def num_drafted(rounds: Sequence[RoundTrace]) -> int:
    """Tokens drafted and read; neither roots nor lookahead rows are."""
    return sum(r.tree.num_draft_tokens for r in rounds)


def num_accepted(rounds: Sequence[RoundTrace]) -> int:
    """Draft tokens that were kept."""
    return sum(len(r.verdict.accepted_rows) for r in rounds)


def acceptance_rate(rounds: Sequence[RoundTrace]) -> float | None:
    """accepted / drafted; see `Tally.acceptance_rate`."""
    return tally(rounds).acceptance_rate


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
    """Seconds of the lane's own clock, by phase."""
    return TimeSplit(
        draft_seconds=sum(r.draft_seconds for r in rounds),
        verify_seconds=sum(r.verify_seconds for r in rounds),
        commit_seconds=sum(r.commit_seconds for r in rounds),
    )


def tokens_per_second(rounds: Sequence[RoundTrace]) -> float:
    """Tokens over the lane's own clock; see `Tally.tokens_per_second`."""
    return tally(rounds).tokens_per_second


def speedup(rounds: Sequence[RoundTrace], plain: Sequence[RoundTrace]) -> float:
    """S over a plain lane; see `Tally.speedup`."""
    return tally(rounds).speedup(tally(plain))


def rho(rounds: Sequence[RoundTrace], plain: Sequence[RoundTrace]) -> float:
    """Cost of a round in plain steps; see `Tally.rho`."""
    return tally(rounds).rho(tally(plain))


def answer_tokens(rounds: Sequence[RoundTrace]) -> tuple[int, ...]:
    """The answer's token ids, in order."""
    return tuple(token for r in rounds for token in r.new_tokens)


def first_difference(
    rounds: Sequence[RoundTrace], plain: Sequence[RoundTrace]
) -> Difference | None:
    """None if one answer is a prefix of the other: identical as far as both have come."""
    ours, theirs = answer_tokens(rounds), answer_tokens(plain)
    for position, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        if a != b:
            return Difference(position, [odds for r in plain for odds in r.odds][position])
    return None


def copied_share(prompt: Sequence[int], answer: Sequence[int], size: int) -> float | None:
    """Share of the answer's runs of `size` tokens that stand in the prompt. None: it has no run."""
    known = {tuple(prompt[i : i + size]) for i in range(len(prompt) - size + 1)}
    runs = [tuple(answer[i : i + size]) for i in range(len(answer) - size + 1)]
    return sum(run in known for run in runs) / len(runs) if runs else None


def longest_loop(tokens: Sequence[int], min_turns: int) -> Loop | None:
    """The longest stretch that repeats one phrase at least `min_turns` times; the shortest phrase.

    Each period is tried once over the text: tokens x tokens / min_turns comparisons.
    """
    best: Loop | None = None
    for period in range(1, len(tokens) // min_turns + 1):
        run = 0
        for end in range(period, len(tokens)):
            run = run + 1 if tokens[end] == tokens[end - period] else 0
            size = run + period
            if size >= min_turns * period and (best is None or size > best.num_tokens):
                best = Loop(end + 1 - size, period, size)
    return best


def near_tie_gap(odds: RowOdds, dtype: str) -> float:
    """The largest gap of two logits that still is a near-tie: two steps of the dtype up there."""
    top = max(abs(o.logit) for o in odds.odds)
    if top == 0 or not math.isfinite(top):
        return 0.0
    exponent = math.frexp(top)[1] - 1
    bits = MANTISSA_BITS.get(dtype.removeprefix("torch."), MANTISSA_BITS["float32"])
    return NEAR_TIE_STEPS * math.ldexp(1.0, exponent - bits)


def _was_cut(round_: RoundTrace) -> bool:
    """A stop fell on a draft token, so the walk never asked for what comes after it."""
    return round_.verdict.next_token is None
