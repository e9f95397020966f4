"""Did speculation pay in this lane, why, and what to do: a sentence a person can act on.

From a finished trace alone. Numbers are those of `cost`, `metrics` and `what_if`, special cases those
of `verdict_rules`; wording stands in `assets/words/verdict.*.json`. What is estimated is said to be.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from specviz.best import BestLength, best_length, best_width
from specviz.cost import Account, account, plain_lane_of
from specviz.trace import LaneStart, RunStart, TraceEvent, rounds_of
from specviz.verdict_rules import EVEN, RULES, Case, too_short
from specviz.what_if import Estimate, Recording
from specviz.words import Language, Message, Refusal, message, tell

Outcome: TypeAlias = Literal["faster", "even", "slower"]
Kind: TypeAlias = Outcome | Literal["too_short", "plain", "no_times", "unpaired"]

WORTH_SAYING = 1.03  # another length is named if it should be this much faster


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule recognised."""

    rule: str  # key of RULES
    message: Message


@dataclass(frozen=True, slots=True)
class LaneVerdict:
    """What there is to say of a lane. Without an account (`plain`, `no_times`, `unpaired`) little."""

    kind: Kind
    headline: Message
    findings: tuple[Finding, ...] = ()
    advice: Message | None = None  # rests on an estimate, and says so
    account: Account | None = None
    best: BestLength | None = None  # what the advice was taken from

    @property
    def messages(self) -> tuple[Message, ...]:
        """Everything, in the order to be read."""
        advice = () if self.advice is None else (self.advice,)
        return (self.headline, *advice, *(f.message for f in self.findings))

    def sentences(self, language: Language = "en") -> str:
        gap = "" if language == "zh" else " "
        return gap.join(tell(m, language) for m in self.messages)


def judged(events: Iterable[TraceEvent], lane: int) -> LaneVerdict:
    """The verdict on one lane of a finished run. Refusal: the run has no such lane."""
    found = list(events)
    run = next((e for e in found if isinstance(e, RunStart)), None)
    starts = [e for e in found if isinstance(e, LaneStart)]
    start = next((s for s in starts if s.lane == lane), None)
    if run is None or start is None:
        numbers = ", ".join(str(s.lane) for s in starts)
        raise Refusal(message("refusal.no_such_lane", numbers=numbers, value=lane))
    plain = plain_lane_of(start, starts)
    if plain == start:
        return LaneVerdict("plain", message("verdict.plain"))
    if plain is None:
        return LaneVerdict("unpaired", message("verdict.unpaired"))
    ours, theirs = (rounds_of(found, number) for number in (lane, plain.lane))
    if not ours or not theirs:
        return LaneVerdict("too_short", message("verdict.no_rounds"))
    if min(sum(r.seconds for r in rounds) for rounds in (ours, theirs)) <= 0:
        return LaneVerdict("no_times", message("verdict.no_times"))
    return judge(Case(run, start, ours, account(ours, theirs)))


def judge(case: Case) -> LaneVerdict:
    """The verdict on a lane that has an account."""
    if (said := too_short(case)) is not None:
        return LaneVerdict("too_short", said, _findings(case), account=case.account)
    recording = Recording(case.start, case.rounds, case.account)
    best = best_length(recording)
    kind = outcome_of(case.account.speedup)
    return LaneVerdict(
        kind,
        _headline(kind, case.account),
        _findings(case),
        _advice(recording, best),
        case.account,
        best,
    )


def outcome_of(speedup: float) -> Outcome:
    if abs(speedup - 1) <= EVEN:
        return "even"
    return "faster" if speedup > 1 else "slower"


def _headline(outcome: Outcome, numbers: Account) -> Message:
    return message(
        "verdict.headline." + outcome,
        rho=f"{numbers.rho:.2f}",
        tau=f"{numbers.tau:.2f}",
        speedup=f"{numbers.speedup:.2f}",
    )


def _findings(case: Case) -> tuple[Finding, ...]:
    said = ((name, rule(case)) for name, rule in RULES.items() if rule is not too_short)
    return tuple(Finding(name, text) for name, text in said if text is not None)


def _advice(recording: Recording, best: BestLength | None) -> Message | None:
    """No draft at all if no length repays; else the setting of the lane that is estimated to be
    fastest, if it is worth saying and there is a knob that sets it."""
    if best is None:
        return None
    now = recording.account.speedup
    if max(best.estimate.speedup, now) < 1 - EVEN:
        return message("verdict.off", **_facts(best.estimate, k=best.num_draft_tokens))
    length, changes = best.num_draft_tokens, list[tuple[Estimate, str, int]]()
    if length != recording.deepest:
        key = "verdict.shorter" if length < recording.deepest else "verdict.longer"
        changes.append((best.estimate, key, length))
    if (width := best_width(recording)) is not None:
        changes.append((width.estimate, "verdict.narrower", width.num_rows))
    able = [c for c in changes if c[0].measure and c[0].speedup >= now * WORTH_SAYING]
    if not able:
        return None
    estimate, key, value = max(able, key=lambda change: change[0].speedup)
    return message(key, **_facts(estimate, k=value))


def _facts(estimate: Estimate, k: int) -> dict[str, int | str]:
    return {
        "k": k,
        "tau": f"{estimate.tau:.2f}",
        "rho": f"{estimate.rho:.2f}",
        "speedup": f"{estimate.speedup:.2f}",
    }
