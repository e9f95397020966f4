"""Sessions for tests of the page: hand-made runs at a pace of our choice. No model is run."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from specviz.config import Catalog, DrafterInfo, Knob, Request, TargetSpec
from specviz.trace import (
    Failure,
    LaneEnd,
    Progress,
    RoundTrace,
    RunEnd,
    RunStart,
    SessionEvent,
)
from tests.traces import HOSTILE, decode, demo_run, ids, lane_start, plain_trees, run_start

CATALOG = Catalog(
    targets=(
        TargetSpec("smollm2-135m-instruct", "SmolLM2 135M", "Apache-2.0", "a test"),
        TargetSpec("other", "Another target", "MIT", "a test"),
    ),
    drafters=(
        DrafterInfo("autoregressive", "Plain decoding", "One pass, one token.", "the baseline"),
        DrafterInfo(
            "draft_model",
            "Draft model",
            "A smaller model guesses.",
            "Leviathan et al. 2023",
            (
                Knob("num_draft_tokens", "How many tokens it guesses.", 4, 1, 16),
                Knob("threshold", "Stop guessing below this.", 0.0, 0.0, 1.0),
                Knob("copy", "What drafts.", "truncated", choices=("truncated", "quantised")),
                Knob("is_adaptive", "Let the length follow.", False),
            ),
        ),
        DrafterInfo("prompt_lookup", "Prompt lookup", "Copies from the text.", "Saxena 2023"),
        DrafterInfo("lookahead", "Lookahead", "Jacobi iteration.", "Fu et al. 2024"),
    ),
)


@dataclass
class SlowSession:
    """Plays the four-lane demo, one event per `seconds`. One run at a time; others wait in line.

    Like the engine's own session it yields while it waits, so a visitor who leaves is noticed.
    """

    seconds: float = 0.02
    failure: str = ""  # instead of a run
    crash: Exception | None = None  # raised after the first round
    is_hostile: bool = False  # the tokens try to break out of the page
    requests: list[Request] = field(default_factory=list)
    num_rounds: int = 0  # yielded so far, over all runs
    num_closed: int = 0  # iterators that ended, whichever way
    _line: list[object] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def catalog(self) -> Catalog:
        return CATALOG

    def events(self, request: Request) -> Iterator[SessionEvent]:
        ticket = object()
        with self._lock:
            self.requests.append(request)
            self._line.append(ticket)
        try:
            while place := self._line.index(ticket):
                yield Progress("queued", f"You are number {place} in line.", done=place)
                time.sleep(0.1)
            yield from self._run(request)
        finally:
            with self._lock:
                self._line.remove(ticket)
                self.num_closed += 1

    def _run(self, request: Request) -> Iterator[SessionEvent]:
        if self.failure:
            yield Failure(self.failure)
            return
        for event in hostile_run() if self.is_hostile else demo_run():
            time.sleep(self.seconds)
            if isinstance(event, RunStart):
                event = replace(event, request=request, prompt_texts=(request.prompt,))
            if isinstance(event, RoundTrace):
                self.num_rounds += 1
            yield event
            if self.crash and self.num_rounds:
                raise self.crash


def hostile_run() -> list[SessionEvent]:
    """One plain lane that writes every text known to break templates, markup or encodings."""
    rounds = list(decode(0, plain_trees(), answer=ids(*HOSTILE)))
    end = LaneEnd(0, "length", "".join(HOSTILE))
    return [run_start(), lane_start(0), *rounds, end, RunEnd(1.0)]
