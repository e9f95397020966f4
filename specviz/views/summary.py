"""Plain words about a round and about a run. The page and the command line say the same."""

from __future__ import annotations

from collections.abc import Iterable

from specviz import metrics
from specviz.config import PLAIN_DRAFTER
from specviz.trace import LaneEnd, LaneStart, RoundTrace, RunStart, SessionEvent, rounds_of
from specviz.views.agreement import Comparison, unpaired
from specviz.views.tokens import legible
from specviz.views.told import told
from specviz.words import Message, message, tell, word


def round_message(round_: RoundTrace, *, is_plain: bool) -> Message:
    """What was drafted, what the one pass accepted, what it added, and what that makes."""
    number, new = round_.index + 1, len(round_.new_tokens)
    if is_plain:
        return message("round.plain", round=number, new=new)
    drafted, ahead = round_.tree.num_draft_tokens, _lookahead(round_)
    if not drafted:
        return message("round.no_draft", round=number, ahead=ahead)
    shape = "round.chain" if _is_chain(round_) else "round.tree"
    return message(
        "round.drafted",
        round=number,
        what=message(shape, n=drafted),
        ahead=ahead,
        kept=_how_many(len(round_.verdict.accepted_rows), round_),
        addition=_addition(round_),
        new=new,
    )


def lane_end_message(end: LaneEnd) -> Message:
    return message("lane_end." + end.reason, more=told(end.message, "failure."))


def lane_end_sentence(end: LaneEnd) -> str:
    return tell(lane_end_message(end)).strip()


def run_summary(events: Iterable[SessionEvent]) -> str:
    """A few lines per lane: what a person asks of a run, every number from `metrics`."""
    events = list(events)
    starts = [e for e in events if isinstance(e, LaneStart)]
    run = next((e for e in events if isinstance(e, RunStart)), None)
    if run is None:
        return "The run did not start."
    rounds = {s.lane: rounds_of(events, s.lane) for s in starts}
    ends = {e.lane: e for e in events if isinstance(e, LaneEnd)}
    plains: dict[str, list[RoundTrace]] = {}
    for start in starts:
        if start.drafter == PLAIN_DRAFTER:
            plains.setdefault(start.backbone, rounds[start.lane])
    lines = [f"{run.target.name}, {run.target.device}, {run.target.dtype}; {run.machine}"]
    lines.append(
        f"prompt {_count(len(run.prompt_tokens), 'token')}, prefill {run.prefill_seconds:.3f} s"
    )
    if run.read_costs:
        lines.append(f"{word('run.read_costs')}: {read_curve(run)}")
    for start in starts:
        lines += ["", f"{start.name}: {start.title}"]
        if start.backbone:
            lines.append(f"  {start.description}")  # it says that its text is another model's
        if words := own_prefill(start):
            lines.append(f"  {tell(words)}")
        lines += [f"  {line}" for line in _lane_lines(rounds[start.lane])]
        lines += [f"  {line}" for line in _versus_lines(start, rounds[start.lane], plains, run)]
        if start.lane in ends:
            lines.append(f"  {lane_end_sentence(ends[start.lane])}")
    return legible("\n".join(lines))


def read_curve(run: RunStart) -> str:
    """What a pass over n rows takes, in passes over one."""
    return ", ".join(f"{n}: {ratio:.2f}" for n, ratio in run.read_costs)


def own_prefill(start: LaneStart) -> Message | None:
    """What the drafter took to read the prompt, if it reads it at all; like prefill, on no clock."""
    seconds = start.drafter_prefill_seconds
    return message("lane.own_prefill", seconds=f"{seconds:.2f}") if seconds >= 0.005 else None


def _lane_lines(rounds: list[RoundTrace]) -> list[str]:
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
    return lines


def _versus_lines(
    start: LaneStart, rounds: list[RoundTrace], plains: dict[str, list[RoundTrace]], run: RunStart
) -> list[str]:
    """Beside the plain lane of the same backbone: another model's would be a wrong comparison."""
    if not rounds or start.drafter == PLAIN_DRAFTER:
        return []
    if start.backbone not in plains:
        return [unpaired().sentence] if start.backbone or plains else []
    plain, lines = plains[start.backbone], list[str]()
    if not plain:
        return []
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


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def _how_many(accepted: int, round_: RoundTrace) -> Message:
    if accepted == 0:
        return message("round.kept_none")
    is_all = accepted == round_.tree.num_draft_tokens
    if not _is_chain(round_):
        return message("round.kept_path", n=accepted)
    if is_all and accepted > 1:
        return message("round.kept_both" if accepted == 2 else "round.kept_all", n=accepted)
    return message("round.kept_some", n=accepted)


def _addition(round_: RoundTrace) -> Message:
    if round_.verdict.next_token_kind == "none":
        return message("round.ended")
    if round_.verdict.next_token_kind == "bonus":
        return message("round.bonus")
    return message("round.own" if round_.verdict.accepted_rows else "round.instead")


def _lookahead(round_: RoundTrace) -> Message | str:
    rows = round_.tree.num_lookahead_rows
    return message("round.ahead", n=rows) if rows else ""


def _is_chain(round_: RoundTrace) -> bool:
    end = round_.tree.num_draft_tokens + 1
    return round_.tree.parents[:end] == tuple(range(-1, end - 1))
