"""The seam between the engine and everything that watches it.

A session turns a request into a stream of events. LiveSession runs the engine (torch is
imported inside a call); ReplaySession reads a saved trace and needs no torch. Closing the
iterator stops the run within one round.
"""

from __future__ import annotations

import gzip
import logging
import queue
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, TypeVar

from specviz.catalogue import drafters_of
from specviz.config import PRECISIONS, Catalog, Request, TargetSpec, checked
from specviz.fitting import Fit, best_target, fits_on
from specviz.presets import PUBLISHED, SHIPPED_DRAFTERS, TARGETS, local_target
from specviz.trace import Failure, Progress, SessionEvent, TraceEvent
from specviz.trace_io import dump_event, load_events
from specviz.words import Message, Told, message, said, tell

if TYPE_CHECKING:
    from specviz.engine import Engine

log = logging.getLogger(__name__)
T = TypeVar("T")
WAIT_SECONDS = 0.25  # how often a run that cannot start yet looks up; a close is noticed then


class Session(Protocol):
    def catalog(self) -> Catalog:
        """What can be asked for."""

    def events(self, request: Request) -> Iterator[SessionEvent]:
        """Progress while the run cannot start yet, then the trace; or one Failure with the reason."""


class ReplaySession:
    """A recorded run as a session: it can offer nothing but itself."""

    def __init__(self, text: str) -> None:
        self._events = tuple(load_events(text))

    def catalog(self) -> Catalog:
        return Catalog((), ())

    def events(self, request: Request | None = None) -> Iterator[SessionEvent]:
        del request  # the trace already holds one
        return iter(self._events)


class Recorder:
    """Writes trace events to a JSON Lines file as they pass, gzipped if the name ends in .gz."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def recorded(self, events: Iterator[SessionEvent]) -> Iterator[SessionEvent]:
        """The same events. The file is whole up to the last one even if the run breaks off."""
        with self._open() as stream:
            for event in events:
                if not isinstance(event, Progress | Failure):
                    stream.write(dump_event(event))
                yield event

    def _open(self) -> IO[str]:
        if self.path.suffix == ".gz":
            return gzip.open(self.path, "wt", encoding="utf-8")
        return self.path.open("w", encoding="utf-8")


@dataclass(eq=False, slots=True)
class _Ticket:
    """One run's place in line, and the way its events travel from the engine's thread."""

    request: Request
    events: queue.SimpleQueue[SessionEvent | None] = field(default_factory=queue.SimpleQueue)
    is_cancelled: threading.Event = field(default_factory=threading.Event)


class LiveSession:
    """Runs requests on the engine, one at a time, first come first served.

    The engine lives in one thread of its own: its kernels then keep one team of worker threads,
    however many server threads watch, and the page never runs on the lane's clock.
    """

    def __init__(
        self,
        target: Path | TargetSpec | None = None,
        draft: Path | None = None,
        drafters: Path | None = None,
    ) -> None:
        if isinstance(target, Path):
            target = local_target(str(target))
        # Offered first, whether it fits or not.
        self._own: tuple[TargetSpec, ...] = () if target is None else (target,)
        self._targets: tuple[TargetSpec, ...] = tuple(
            dict.fromkeys((*self._own, *TARGETS, *PUBLISHED))
        )
        self.draft = draft  # a folder given for the draft model, if any
        self.drafters = drafters  # a folder of trained drafters of one's own, if any
        self._engine: Engine | None = None
        self._fits: tuple[Fit, ...] | None = None  # of published pairs, once it is known
        self._best: str | None = None
        self._is_quantising = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="engine")
        self._line: list[_Ticket] = []
        self._lock = threading.Lock()
        self._latest: Progress | None = None  # of whoever is being served, for those who wait

    def catalog(self) -> Catalog:
        from specviz.drafters import DRAFTERS, NEEDS_WEIGHTS, drafter_info

        offered = self._offered()
        untrained = {
            (target.name, drafter)
            for target in offered
            for drafter, method in NEEDS_WEIGHTS.items()
            if not self._has_weights(target.name, method)
        }
        return Catalog(
            offered,
            tuple(map(drafter_info, DRAFTERS)),
            frozenset(untrained),
            self._fits or (),
            PRECISIONS if self._is_quantising else PRECISIONS[:3],
        )

    def _offered(self) -> tuple[TargetSpec, ...]:
        """The owner's own target, then on a GPU the best that fits it, the default one, and the
        published ones for which there is room. The machine is looked at once, while it is idle."""
        if self._fits is None:
            from specviz.lm.room import room_here

            room = room_here()
            self._fits, self._is_quantising = fits_on(room), room.is_quantising
            self._best = best_target(self._fits, room)
        able = {f.pair.target.name for f in self._fits if f.why_not is None}
        best = tuple(spec for spec in PUBLISHED if spec.name == self._best)
        rest = tuple(spec for spec in PUBLISHED if spec.name in able)
        return tuple(dict.fromkeys((*self._own, *best, *TARGETS, *rest)))

    def _has_weights(self, target: str, method: str) -> bool:
        """Whether a folder of them lies where the engine would look; what is in it, it says later."""
        roots = (self.drafters, SHIPPED_DRAFTERS / target)
        is_here = any(root is not None and (root / method).is_dir() for root in roots)
        is_here = is_here or self._brings(self.target(target), method)
        return is_here or method in drafters_of(target)  # else fetched when a lane asks for it

    def _brings(self, target: TargetSpec, method: str) -> bool:
        """Whether a folder of one's own holds such a drafter beside the model itself."""
        from specviz.drafters.inside import is_inside

        return bool(target.path) and is_inside(method, Path(target.path))

    def events(self, request: Request) -> Iterator[SessionEvent]:
        try:
            request = checked(request, self.catalog())
        except ValueError as error:
            yield Failure(said(error), is_refusal=True)
            return
        ticket = _Ticket(request)
        self._enter(ticket)
        try:
            while True:
                try:
                    event = ticket.events.get(timeout=WAIT_SECONDS)
                except queue.Empty:
                    if (waiting := self._waiting(ticket)) is not None:
                        yield waiting
                    continue
                if event is None:
                    return
                yield event
        finally:
            ticket.is_cancelled.set()
            self._leave(ticket)

    def cancel(self) -> None:
        """End the run in progress within one round; its lanes end as cancelled."""
        with self._lock:
            if self._line:
                self._line[0].is_cancelled.set()

    def in_turn(self, job: Callable[[], T]) -> T:
        """What `job` returns, done in the engine's thread behind the runs that wait: neither
        disturbs the other's clock."""
        return self._thread.submit(job).result()

    def close(self) -> None:
        """End all runs and give the engine's thread back."""
        with self._lock:
            for ticket in self._line:
                ticket.is_cancelled.set()
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _enter(self, ticket: _Ticket) -> None:
        with self._lock:
            self._line.append(ticket)
        self._thread.submit(self._serve, ticket)

    def _leave(self, ticket: _Ticket) -> None:
        with self._lock, suppress(ValueError):
            self._line.remove(ticket)

    def _waiting(self, ticket: _Ticket) -> Progress | None:
        with self._lock:
            place = self._line.index(ticket) if ticket in self._line else 0
        if place == 0:
            return None
        if self._latest is not None and place == 1:
            return self._latest  # the run ahead is still loading, most likely what this one needs
        return Progress("queued", message("progress.queued", n=place), done=place)

    def target(self, name: str) -> TargetSpec:
        return next(spec for spec in self._targets if spec.name == name)

    def run_here(
        self, request: Request, is_cancelled: Callable[[], bool]
    ) -> Generator[SessionEvent, None, None]:
        """A checked request in the caller's own thread, without the line; whatever breaks ends it as
        a Failure. For the engine's thread, or a process that serves one run at a time."""
        try:
            yield from self._engine_here().run(request, is_cancelled)
        except Exception as error:  # noqa: BLE001 - the one place where a run's errors end
            yield Failure(_said(error), isinstance(error, ValueError))

    def _serve(self, ticket: _Ticket) -> None:
        """In the engine's thread: one run from start to end, whatever happens to it."""
        try:
            if not ticket.is_cancelled.is_set():
                self._pass_on(ticket)
        finally:
            self._latest = None
            ticket.events.put(None)
            self._leave(ticket)

    def _pass_on(self, ticket: _Ticket) -> None:
        with closing(self.run_here(ticket.request, ticket.is_cancelled.is_set)) as events:
            for event in events:
                self._latest = event if isinstance(event, Progress) else None
                if self._latest is not None and ticket.is_cancelled.is_set():
                    return  # nothing has started, so there is nothing to end in good order
                ticket.events.put(event)

    def _engine_here(self) -> Engine:
        if self._engine is None:
            from specviz.engine import Engine

            self._engine = Engine(self._targets, self.draft, self.drafters)
        return self._engine


def _said(error: Exception) -> Message | str:
    """ValueError and what is `Told` speak for themselves; anything else is our fault."""
    if isinstance(error, ValueError | Told):
        return said(error)
    from specviz.engine.arena import failure_message

    log.error("a run failed", exc_info=error)
    return failure_message(error)


def drain(events: Iterator[SessionEvent]) -> list[TraceEvent]:
    """The trace events of a run, without its progress. ValueError: the run failed."""
    found: list[TraceEvent] = []
    for event in events:
        if isinstance(event, Failure):
            raise ValueError(tell(event.message))
        if not isinstance(event, Progress):
            found.append(event)
    return found
