"""Several lanes live on one device, in lane time.

Each lane's clock counts only its own measured work. The lane furthest behind always goes next,
so what is seen is a fair race on one device, though the lanes never run at the same time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from specviz.engine.lane import Lane
from specviz.trace import EndReason, LaneEnd, RoundTrace
from specviz.words import Message, message, recognised, tell

log = logging.getLogger(__name__)


def race(lanes: Sequence[Lane], is_cancelled: Callable[[], bool]) -> Iterator[RoundTrace | LaneEnd]:
    """Rounds of all lanes in the order they ran; each lane ends with a LaneEnd of its own."""
    running = list(lanes)
    while running:
        if is_cancelled():
            for lane in running:
                yield _end(lane, "cancelled")
            return
        lane = min(running, key=lambda lane: lane.clock_seconds)  # the first of equals
        try:
            yield lane.play_round()
        except Exception as error:  # one lane's fault must not end the others
            log.exception("lane %s ended", lane.index)
            lane.end_reason = "error"
            yield _end(lane, "error", tell(failure_message(error)))
            running.remove(lane)
            continue
        if lane.end_reason is not None:
            running.remove(lane)
            yield _end(lane, lane.end_reason)


def failure_message(error: Exception) -> Message | str:
    """What to tell a person. The exception is not kept: its traceback would hold the tensors."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    if isinstance(error, FloatingPointError):
        return recognised(text, "failure.")
    if isinstance(error, MemoryError) or "memory" in text.lower():
        return message("failure.memory")
    return message("failure.engine", kind=type(error).__name__, text=text)


def _end(lane: Lane, reason: EndReason, message: str = "") -> LaneEnd:
    if reason in ("cancelled", "error"):
        lane.parts.stop.decoder.finish()
    return LaneEnd(lane.index, reason, lane.parts.stop.text, message)
