"""A served run in plain words: what was seen, what the server says of itself, what nobody here knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce

from specviz.metrics import Tally, TimeSplit
from specviz.served.events import ServedEnd, ServedStart, ServedStep, ServerCounts
from specviz.words import Message, message


def report(start: ServedStart, steps: Sequence[ServedStep], end: ServedEnd) -> list[Message]:
    """Sentences, in the order they are read."""
    kind = message("served.kind." + start.kind)
    who = message("served.who", model=start.model, kind=kind, address=start.address)
    sentences = [who, *_arrival(steps, end), *_counted(end.counts)]
    return [*sentences, message("served.unseen")]


def _arrival(steps: Sequence[ServedStep], end: ServedEnd) -> list[Message]:
    sizes = [step.num_tokens for step in steps if step.num_tokens]
    if len(sizes) < len(steps) or not sizes:
        return [message("served.pieces_uncounted", n=len(steps))] if steps else []
    total = Tally(num_rounds=len(sizes), num_tokens=sum(sizes))
    by_size = sorted(Counter(sizes).items())
    listed = [message("served.size", size=size, times=times) for size, times in by_size]
    said = [
        message(
            "served.pieces",
            n=total.num_tokens,
            count=total.num_rounds,
            mean=f"{total.tau:.2f}",
            list=_listed(listed),
        )
    ]
    if len(sizes) > 1 and end.first_seconds is not None and end.seconds > end.first_seconds:
        # What came first had waited for the prompt to be read; its tokens are on no clock.
        spent = TimeSplit(verify_seconds=end.seconds - end.first_seconds)
        rest = Tally(len(sizes) - 1, total.num_tokens - sizes[0], time=spent)
        speed = {"rate": f"{rest.tokens_per_second:.1f}", "first": f"{end.first_seconds:.2f}"}
        said.append(message("served.speed", **speed))
    return said


def _counted(counts: ServerCounts) -> list[Message]:
    if counts.missing is not None:
        return [counts.missing]
    if counts.tally is None:
        length = f"{counts.mean_length:.2f}"
        if counts.mean_rate is None:
            return [message("served.average", length=length)]
        return [message("served.average_rate", length=length, rate=f"{counts.mean_rate:.0%}")]
    tally = counts.tally
    rate = tally.acceptance_rate
    said = [
        message(
            "served.counts",
            accepted=tally.num_accepted,
            drafted=tally.num_drafted,
            rate="-" if rate is None else f"{rate:.0%}",
            n=tally.num_rounds,
            tau=f"{tally.tau:.2f}",
        )
    ]
    if counts.by_position:
        said.append(message("served.depths", list=_listed(list(map(str, counts.by_position)))))
    if counts.is_shared:
        said.append(message("served.shared"))
    return said


def _listed(parts: Sequence[Message | str]) -> Message | str:
    return reduce(lambda first, rest: message("served.list", first=first, rest=rest), parts)
