"""Runs on ZeroGPU, where a Space is lent a GPU for one call at a time, in a process of its own.

One run is one call: all its lanes share one claim, whose length follows from what was asked. This
process never touches CUDA. What crosses between the two is the request and the trace's events, plain
data both; the weights are fetched out here, before any GPU's time is spent. The `spaces` package is
the Hub's and is there on its machines only. This is not the engine, and holds no state of a run.
"""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from specviz.config import Catalog, Request, checked
from specviz.session import LiveSession
from specviz.trace import Failure, Progress, SessionEvent
from specviz.words import Refusal, Told, message, said

log = logging.getLogger(__name__)

# What a claim is made of. Generous: a claim that is too short cuts the run off, and one that is too
# long is only held against what the visitor has left of the day.
START_SECONDS = 20  # a new process reads the weights, and CUDA's first passes are slow
TOKEN_SECONDS = 0.03  # of one lane
MAX_SECONDS = 120
TAG = re.compile(r"<[^>]*>")

_Task: TypeAlias = Callable[[Request, str], Generator[SessionEvent, None, None]]


def is_zero_gpu() -> bool:
    """Whether this is a Space on ZeroGPU: its machines say so themselves."""
    return os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")


def gpu_seconds(request: Request, stop: str = "") -> int:
    """How long a GPU is asked for. Called with the arguments of the run itself."""
    del stop
    tokens = request.max_new_tokens * len(request.lanes)
    return math.ceil(START_SECONDS + TOKEN_SECONDS * tokens)


class FetchingSession:
    """Gets a target's weights onto this machine, and runs nothing."""

    def __init__(self, live: LiveSession) -> None:
        self._live = live

    def catalog(self) -> Catalog:
        return self._live.catalog()

    def events(self, request: Request) -> Iterator[SessionEvent]:
        from specviz.lm.weights import fetch

        try:
            yield from fetch(self._live.target(request.target))
        except (ValueError, Told) as error:
            yield Failure(said(error), isinstance(error, ValueError))


class ZeroSession:
    """A session whose runs each have a GPU for as long as they take.

    Made before the page is served, because ZeroGPU looks for decorated functions then; `live` is
    used in the process with the GPU alone, which a fork gives it. There the engine is made once for
    all runs of that process.
    """

    def __init__(self, live: LiveSession) -> None:
        def run_on_gpu(request: Request, stop: str) -> Generator[SessionEvent, None, None]:
            yield from live.run_here(request, Path(stop).exists)

        decorate: Callable[..., Callable[[_Task], _Task]] = import_module("spaces").GPU
        self._run = decorate(duration=gpu_seconds)(run_on_gpu)
        self._live = live
        self.fetching = FetchingSession(live)

    def catalog(self) -> Catalog:
        return self._live.catalog()

    def events(self, request: Request) -> Iterator[SessionEvent]:
        try:
            request = checked(request, self.catalog())
            if (seconds := gpu_seconds(request)) > MAX_SECONDS:
                raise Refusal(message("refusal.gpu_time", seconds=seconds, limit=MAX_SECONDS))
        except ValueError as error:
            yield Failure(said(error), is_refusal=True)
            return
        for event in self.fetching.events(request):
            yield event
            if isinstance(event, Failure):
                return
        yield Progress("queued", message("progress.gpu", seconds=seconds))
        yield from self._lanes(request)

    def _lanes(self, request: Request) -> Iterator[SessionEvent]:
        """All lanes on one claim. A file says stop: it is all that both processes can see."""
        with TemporaryDirectory(prefix="specviz-run-") as folder:
            stop = Path(folder) / "stop"
            try:
                with closing(self._run(request, str(stop))) as events:
                    try:
                        for event in events:  # noqa: UP028 - would close them before we say stop
                            yield event
                    finally:
                        stop.touch()  # whoever closes us would otherwise wait for all lanes
            except Exception as error:  # refused or cut off; our own errors come as events
                log.warning("No GPU for a run, or no longer", exc_info=error)
                yield Failure(message("failure.gpu", reason=_reason(error)))


def _reason(error: Exception) -> str:
    """What ZeroGPU says, without the links in it: HTML, which the page shows as it stands."""
    return TAG.sub("", str(error.args[0])) if error.args else type(error).__name__
