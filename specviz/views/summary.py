"""Plain words about a round and about a run. The page and the command line say the same."""

from __future__ import annotations

from collections.abc import Iterable

from specviz import metrics
from specviz.trace import LaneEnd, LaneStart, RoundTrace, RunStart, SessionEvent
from specviz.views.agreement import Comparison
from specviz.views.tokens import legible

PLAIN_DRAFTER = "autoregressive"
REASONS = {
    "stop": "Finished: the text came to its end.",
    "length": "Finished: as many tokens as were asked for.",
    "context": "Ended: the context of the target is full.",
    "cancelled": "Stopped before the end.",
    "error": "Ended by an error.",
}


def round_sentence(round_: RoundTrace, *, is_plain: bool) -> str:
    """What was drafted, what the one pass accepted, what it added, and what that makes."""
    start = f"Round {round_.index + 1}: "
    num_new = len(round_.new_tokens)
    if is_plain:
        return f"{start}nothing drafted; one pass of the target, {_count(num_new, 'token')}."
    drafted = round_.tree.num_draft_tokens
    extra = _lookahead(round_)
    if not drafted:
        return f"{start}no draft this time{extra}; the pass of the target gave its own token only."
    accepted = len(round_.verdict.accepted_rows)
    what = f"drafted {drafted}" if _is_chain(round_) else f"drafted a tree of {drafted}"
    return (
        f"{start}{what}{extra}, the one pass of the target accepted "
        f"{_how_many(accepted, round_)} {_addition(round_)}: {_count(num_new, 'token')} for one pass."
    )


def lane_end_sentence(end: LaneEnd) -> str:
    return f"{REASONS[end.reason]} {end.message}".strip()


def run_summary(events: Iterable[SessionEvent]) -> str:
    """A few lines per lane: what a person asks of a run, every number from `metrics`."""
    events = list(events)
    starts = [e for e in events if isinstance(e, LaneStart)]
    run = next((e for e in events if isinstance(e, RunStart)), None)
    if run is None:
        return "The run did not start."
    rounds = {s.lane: _rounds_of(events, s.lane) for s in starts}
    ends = {e.lane: e for e in events if isinstance(e, LaneEnd)}
    plain = next((rounds[s.lane] for s in starts if s.drafter == PLAIN_DRAFTER), [])
    lines = [f"{run.target.name}, {run.target.device}, {run.target.dtype}; {run.machine}"]
    lines.append(
        f"prompt {_count(len(run.prompt_tokens), 'token')}, prefill {run.prefill_seconds:.3f} s"
    )
    for start in starts:
        lines += ["", f"{start.name}: {start.title}"]
        if words := own_prefill(start):
            lines.append(f"  {words}")
        lines += [f"  {line}" for line in _lane_lines(start, rounds[start.lane], plain, run)]
        if start.lane in ends:
            lines.append(f"  {lane_end_sentence(ends[start.lane])}")
    return legible("\n".join(lines))


def own_prefill(start: LaneStart) -> str:
    """What the drafter took to read the prompt, if it reads it at all; like prefill, on no clock."""
    seconds = start.drafter_prefill_seconds
    return f"own prefill {seconds:.2f} s, before the clock starts" if seconds >= 0.005 else ""


def _lane_lines(
    start: LaneStart, rounds: list[RoundTrace], plain: list[RoundTrace], run: RunStart
) -> list[str]:
    if not rounds:
        return ["no round was run"]
    split = metrics.time_split(rounds)
    is_timed = split.seconds > 0
    lines = [
        f"{_count(metrics.num_tokens(rounds), 'token')} in {_count(len(rounds), 'pass', 'passes')}"
        f" of the target: tau {metrics.mean_acceptance_length(rounds):.2f}"
        + (f", {metrics.tokens_per_second(rounds):.1f} tokens/s" if is_timed else "")
    ]
    rate = metrics.acceptance_rate(rounds)
    if rate is not None:
        counts = f"{metrics.num_accepted(rounds)}/{metrics.num_drafted(rounds)}"
        lines.append(f"accepted {counts} drafted ({rate:.0%})")
        lines += _depth_lines(rounds)
    if is_timed:
        lines.append(_split_line(split))
    if start.drafter != PLAIN_DRAFTER and plain:
        lines += _versus_lines(start, rounds, plain, run)
    return lines


def _versus_lines(
    start: LaneStart, rounds: list[RoundTrace], plain: list[RoundTrace], run: RunStart
) -> list[str]:
    lines = []
    if metrics.time_split(rounds).seconds > 0 and metrics.time_split(plain).seconds > 0:
        lines.append(
            f"{metrics.speedup(rounds, plain):.2f}x plain: a round costs "
            f"{metrics.rho(rounds, plain):.2f} plain steps (rho) "
            f"and gives {metrics.mean_acceptance_length(rounds):.2f} tokens"
        )
    odds = [o for r in plain for o in r.odds]
    answers = metrics.answer_tokens(rounds), metrics.answer_tokens(plain)
    lines.append(Comparison(start, run.target.dtype).update(*answers, odds).sentence)
    return lines


def _depth_lines(rounds: list[RoundTrace]) -> list[str]:
    depths = metrics.acceptance_by_depth(rounds)
    cells = [f"{d.depth}: {d.num_accepted}/{d.num_reached} ({d.rate:.0%})" for d in depths]
    return [f"accepted by depth, if reached: {', '.join(cells)}"] if cells else []


def _split_line(split: metrics.TimeSplit) -> str:
    parts = {
        "draft": split.draft_seconds,
        "verify": split.verify_seconds,
        "host": split.commit_seconds,
    }
    shares = [f"{name} {seconds / split.seconds:.1%}" for name, seconds in parts.items()]
    return f"time {split.seconds:.3f} s: {', '.join(shares)}"


def _rounds_of(events: Iterable[SessionEvent], lane: int) -> list[RoundTrace]:
    return [e for e in events if isinstance(e, RoundTrace) and e.lane == lane]


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def _how_many(accepted: int, round_: RoundTrace) -> str:
    if accepted == 0:
        return "none"
    is_all = accepted == round_.tree.num_draft_tokens
    if not _is_chain(round_):
        return f"a path of {accepted}"
    if is_all and accepted > 1:
        return "both" if accepted == 2 else f"all {accepted}"
    return str(accepted)


def _addition(round_: RoundTrace) -> str:
    if round_.verdict.next_token_kind == "none":
        return "and the text ended there"
    if round_.verdict.next_token_kind == "bonus":
        return "and added a bonus token"
    if round_.verdict.accepted_rows:
        return "and added its own token"
    return "and gave its own token instead"


def _lookahead(round_: RoundTrace) -> str:
    rows = round_.tree.num_lookahead_rows
    return f" (and read {_count(rows, 'lookahead row')})" if rows else ""


def _is_chain(round_: RoundTrace) -> bool:
    end = round_.tree.num_draft_tokens + 1
    return round_.tree.parents[:end] == tuple(range(-1, end - 1))
