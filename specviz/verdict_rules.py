"""What can be recognised about one lane, a small function per rule. Each says one thing or nothing.

A rule looks at a `Case` and answers with a sentence, or None if it does not apply or too little was
seen to know. Thresholds stand at the top with their reason; none is tuned to a machine. Which of
the sentences comes first, and whether the lane won at all, is `verdict`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from specviz.cost import Account
from specviz.metrics import Loop, answer_tokens, copied_share, interval, longest_loop, tally
from specviz.trace import LaneStart, RoundTrace, RunStart
from specviz.words import Message, message

EVEN = 0.03  # a speed-up this near to 1 is none
FEW_ROUNDS = 10  # fewer: alpha's interval is wider than 0.4 and one slow pass moves rho by a tenth
FEW_TOKENS = 32
DISTURBED = 1.25  # recorded runs of a machine left alone stay within 1.1
TOO_CHEAP = 0.9  # plain steps: a round reads all that a plain step reads, and more
FEW_TRIES = 20
NO_AGREEMENT = 0.15  # a table of word pairs already reaches 0.2 (Leviathan et al. 2023, section 4)
GROWING_READ = 1.5  # a dense 16-bit read of 16 rows costs 1.2 to 1.3 one-row reads
HEAVY_HOST = 0.15  # plain steps a round, beyond what a plain step spends itself
SLOW_DRAFT = 0.5  # share of the tokens it wins that drafting may cost, before it eats most of them
COPY_RUN = 4  # tokens
COPY_SHARE = 0.6  # copying pays from this overlap in such runs on (arXiv:2601.11580)
FEW_RUNS = 12
LOOP_TURNS, LOOP_TOKENS, LOOP_SHARE = 3, 24, 0.25
CHEAP_ROUND = 1.35  # plain steps
GOOD_ALPHA = 0.6
COPIERS = {"prompt_lookup", "lookahead"}  # find their guesses in the text, know no language


@dataclass(frozen=True, slots=True)
class Case:
    """One lane of a finished run, beside the plain lane of its backbone."""

    run: RunStart
    start: LaneStart
    rounds: Sequence[RoundTrace]
    account: Account

    @property
    def answer(self) -> tuple[int, ...]:
        return answer_tokens(self.rounds)


Rule = Callable[[Case], Message | None]


def too_short(case: Case) -> Message | None:
    """Too few rounds or tokens for any ratio to hold."""
    sums = case.account.tally
    if sums.num_rounds >= FEW_ROUNDS and sums.num_tokens >= FEW_TOKENS:
        return None
    return message("verdict.too_short", tokens=sums.num_tokens, rounds=sums.num_rounds)


def disturbed_clock(case: Case) -> Message | None:
    """Totals and medians tell different stories, as some passes took far longer than their like; or
    plain decoding ran while the machine was slower than it was for this lane."""
    rho, medians = case.account.rho, case.account.rho_of_medians
    if rho < TOO_CHEAP:
        return message("verdict.too_cheap", rho=_number(rho))
    if max(rho / medians, medians / rho) < DISTURBED:
        return None
    return message("verdict.disturbed", rho=_number(rho), medians=_number(medians))


def no_agreement(case: Case) -> Message | None:
    """A drafter with a model of its own is surely refused nearly always: it does not fit."""
    first = case.account.tally.depths[:1]
    if case.start.drafter in COPIERS or not first or first[0].num_reached < FEW_TRIES:
        return None
    hits, tries = first[0].num_accepted, first[0].num_reached
    if interval(hits, tries)[1] >= NO_AGREEMENT:
        return None
    template = "" if case.run.request.is_chat else message("verdict.no_template")
    return message("verdict.no_agreement", hits=hits, tries=tries, template=template)


def nothing_to_copy(case: Case) -> Message | None:
    """A drafter that copies found little that came again, and gained nothing."""
    if case.start.drafter not in COPIERS or len(case.rounds) < FEW_TRIES:
        return None
    if case.account.speedup > 1 + EVEN:
        return None
    helped = sum(bool(r.verdict.accepted_rows) for r in case.rounds)
    if interval(helped, len(case.rounds))[1] >= 2 * NO_AGREEMENT:
        return None
    return message("verdict.nothing_to_copy", helped=helped, rounds=len(case.rounds))


def quantised_read(case: Case) -> Message | None:
    """Reading several rows of a quantised target costs far more than one: its kernels are for one."""
    if not _is_quantised(case.run) or not _read_weighs_most(case):
        return None
    library = case.run.versions.get("bitsandbytes")
    return message(
        "verdict.quantised_read",
        **_growth(case),
        form=case.run.target.quantisation,
        library=message("verdict.library", version=library) if library else "",
    )


def growing_read(case: Case) -> Message | None:
    """The same of a target that is not quantised: arithmetic, not memory, is the bound here."""
    if _is_quantised(case.run) or not _read_weighs_most(case):
        return None
    return message("verdict.growing_read", **_growth(case), dtype=case.run.target.dtype)


def host_bound(case: Case) -> Message | None:
    """What surrounds the passes costs most: bookkeeping, launches, transfers."""
    excess = case.account.excess
    if excess.host < HEAVY_HOST or excess.largest != "host":
        return None
    parts = case.account.parts
    return message(
        "verdict.host_bound", host=_number(parts.host), share=_percent(parts.host / parts.total)
    )


def slow_drafter(case: Case) -> Message | None:
    """Drafting costs more than half of what it wins, and more than anything else."""
    account = case.account
    won, paid = account.tally.accepted_per_round, account.parts.draft
    if account.excess.largest != "draft" or paid <= SLOW_DRAFT * won:
        return None
    return message(
        "verdict.slow_drafter",
        c=_number(paid / account.draft_steps_per_round),
        steps=f"{account.draft_steps_per_round:.1f}",
        paid=_number(paid),
        won=_number(won),
    )


def copied_prompt(case: Case) -> Message | None:
    """The answer repeats the prompt, so whatever was won is won on an easy text."""
    if len(case.answer) < FEW_RUNS + COPY_RUN - 1 or case.account.tau <= 1:
        return None
    share = copied_share(case.run.prompt_tokens, case.answer, COPY_RUN)
    if share is None or share < COPY_SHARE:
        return None
    return message("verdict.copied_prompt", share=_percent(share), n=COPY_RUN)


def repetition_loop(case: Case) -> Message | None:
    """The answer goes round in a circle, and guesses in a circle are always right."""
    loop = longest_loop(case.answer, LOOP_TURNS)
    if loop is None or loop.num_tokens < max(LOOP_TOKENS, LOOP_SHARE * len(case.answer)):
        return None
    inside, outside = _split(case.rounds, loop)
    facts = {"tokens": loop.num_tokens, "of": len(case.answer), "period": loop.period}
    if min(len(inside), len(outside)) < FEW_ROUNDS // 2:
        return message("verdict.loop", **facts)
    taus = {"inside": _number(tally(inside).tau), "outside": _number(tally(outside).tau)}
    return message("verdict.loop_inflates", **facts, **taus)


def lossy_rule(case: Case) -> Message | None:
    """The lane accepts what plain decoding would not say: its speed is bought with text."""
    return message("verdict.lossy") if case.start.exactness == "lossy" else None


def reason_for_speed(case: Case) -> Message | None:
    """Why it is faster: cheap rounds, guesses that are mostly right, or both."""
    alpha = case.account.alpha
    if case.account.speedup <= 1 + EVEN or alpha is None or too_short(case):
        return None
    low, high = alpha.interval
    facts = {
        "alpha": _number(alpha.rate), "low": _number(low), "high": _number(high),
        "rho": _number(case.account.rho), "extra": _number(case.account.rho - 1),
    }  # fmt: skip
    is_cheap, is_good = case.account.rho <= CHEAP_ROUND, alpha.rate >= GOOD_ALPHA
    if is_cheap and is_good:
        return message("verdict.why_both", **facts)
    return message("verdict.why_cheap" if is_cheap else "verdict.why_right", **facts)


RULES: Mapping[str, Rule] = {  # in the order they are told
    "too_short": too_short,
    "disturbed_clock": disturbed_clock,
    "no_agreement": no_agreement,
    "nothing_to_copy": nothing_to_copy,
    "quantised_read": quantised_read,
    "growing_read": growing_read,
    "host_bound": host_bound,
    "slow_drafter": slow_drafter,
    "copied_prompt": copied_prompt,
    "repetition_loop": repetition_loop,
    "lossy_rule": lossy_rule,
    "reason_for_speed": reason_for_speed,
}


def _is_quantised(run: RunStart) -> bool:
    return run.target.quantisation not in ("", "none")


def _read_weighs_most(case: Case) -> bool:
    """A read of the usual size costs much more than one row, and that is the largest extra cost."""
    account = case.account
    return account.read_growth >= GROWING_READ and account.excess.largest == "read"


def _growth(case: Case) -> dict[str, object]:
    return {
        "n": case.account.usual_read.num_rows,
        "growth": _number(case.account.read_growth),
    }


def _split(rounds: Sequence[RoundTrace], loop: Loop) -> tuple[list[RoundTrace], list[RoundTrace]]:
    """Rounds that begin in the loop's repetitions, and all others."""
    inside, outside, done = list[RoundTrace](), list[RoundTrace](), 0
    first, end = loop.start + loop.period, loop.start + loop.num_tokens
    for round_ in rounds:
        (inside if first <= done < end else outside).append(round_)
        done += len(round_.new_tokens)
    return inside, outside


def _number(value: float) -> str:
    return f"{value:.2f}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
