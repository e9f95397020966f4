"""From a session's events to what the stage receives: envelopes, live or recorded.

An envelope is one JSON string holding the items of the last moment, never the whole run, so
what is sent does not grow with the run. Live runs are read in a thread of their own, so the
page can stop waiting at any moment; pacing happens here, drawing in the browser.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from specviz.config import Request
from specviz.session import Session
from specviz.trace import Failure, Progress, RunStart, SessionEvent, TraceEvent
from specviz.trace_io import dump_event, load_events, read_trace, without_cut_line
from specviz.ui.kept import KeptTraces
from specviz.ui.open_runs import OpenRuns
from specviz.views.stage import StageFeed
from specviz.views.tokens import legible
from specviz.views.told import told
from specviz.words import Message, message, said, tell

BATCH_SECONDS = 0.3  # between envelopes: a live run is painted no more often
BEAT_SECONDS = 1.0  # an empty envelope at least this often: the server only notices that a
# visitor has gone when it has something to send, and the page that the server has
MAX_IMPORT_CHARACTERS = 20_000_000  # of a trace that a visitor opens
SILENCE_SECONDS = 20  # a page that hears nothing for so long takes the server for lost
Item: TypeAlias = dict[str, Any]
T = TypeVar("T")
Say: TypeAlias = Callable[[Message | str], Message | str]
LIVE = message("page.live")
log = logging.getLogger(__name__)


@dataclass(slots=True)
class Packer:
    """Numbers the envelopes of one run. ASCII JSON without NaN: a lone surrogate from half a
    character would otherwise break the event stream for the rest of the visit."""

    run: str
    source: Literal["live", "recorded"]
    label: Message | str
    seq: int = 0

    def pack(self, items: list[Item], *, is_last: bool = False) -> str:
        return self.pack_text(_dump(items), is_last=is_last)

    def pack_text(self, items: str, *, is_last: bool = False, note: Message | None = None) -> str:
        """The same for items that are JSON already; `note` is what the page says of them."""
        head = {"v": 1, "run": self.run, "seq": self.seq, "source": self.source}
        self.seq += 1
        rest = {"label": self.label, "last": is_last} | ({"note": note} if note else {})
        return f'{_dump({**head, **rest})[:-1]},"items":{items}}}'


def _dump(value: object) -> str:
    """JSON without "<", which stands in texts alone: Gradio takes what looks like a tag for one."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def as_it_is(sentence: Message | str) -> Message | str:
    return sentence


async def live(
    session: Session,
    request: Request,
    run: str,
    kept: KeptTraces | None = None,
    open_runs: OpenRuns | None = None,
    say: Say = as_it_is,
) -> AsyncGenerator[str, None]:
    """Envelopes of a run as it happens. Closing this closes the session's iterator; so does
    leaving `run` by name. `say` makes of progress and failures what a reader understands."""
    packer, feed = Packer(run, "live", LIVE), StageFeed()
    yield packer.pack([])

    def fold(event: SessionEvent) -> list[Item]:
        if isinstance(event, Progress | Failure):
            return feed.feed(replace(event, message=say(event.message)))
        if kept is not None:
            kept.add(run, event)
        return feed.feed(event)

    reader = _Reader(session, request, fold)
    is_over = False
    try:
        with (open_runs or OpenRuns()).holding(run, reader.leave):
            while not is_over:
                items, is_over = await reader.batch()
                yield packer.pack(items, is_last=is_over)
                await asyncio.sleep(0 if is_over else BATCH_SECONDS)
    finally:
        reader.leave()


async def traced(session: Session, request: Request) -> AsyncGenerator[str, None]:
    """ "" while the run goes on, then its whole trace as JSON Lines. ValueError: it failed."""
    reader = _Reader(session, request, lambda event: [event])
    lines: list[str] = []
    is_over = False
    try:
        while not is_over:
            events, is_over = await reader.batch()
            for event in events:
                if isinstance(event, Failure):
                    raise ValueError(tell(event.message))
                if not isinstance(event, Progress):
                    lines.append(dump_event(event))
            yield "".join(lines) if is_over else ""
            await asyncio.sleep(BATCH_SECONDS)
    finally:
        reader.leave()


def refusal(run: str, sentence: Message | str) -> str:
    """The one envelope of a run that never started: the sentence that says why."""
    return Packer(run, "live", LIVE).pack(StageFeed().feed(Failure(sentence)), is_last=True)


def imported(text: str, name: str, run: str) -> str:
    """A trace that a visitor brought, as one envelope; a sentence if it is not one. Of a file that was
    cut short within its last line the rest is shown, and a note says so."""
    name = legible(name[:80])
    if len(text) > MAX_IMPORT_CHARACTERS:
        size = f"{MAX_IMPORT_CHARACTERS // 1_000_000}"
        return refusal(run, message("page.import_too_big", name=name, megabytes=size))
    whole = without_cut_line(text)
    note = None if whole == text else message("page.import_cut", name=name)
    try:
        label, items, _ = _folded(whole, "page.imported", name=name)
    except ValueError as error:
        return refusal(run, message("page.import_refused", name=name, reason=said(error)))
    return Packer(run, "recorded", label).pack_text(items, is_last=True, note=note)


class _Reader(Generic[T]):
    """Reads a session in a thread of its own and hands what `fold` makes of each event to the
    event loop that started it. A run can then be left at once, whatever its thread waits for."""

    def __init__(
        self, session: Session, request: Request, fold: Callable[[SessionEvent], list[T]]
    ) -> None:
        self._session, self._request, self._fold = session, request, fold
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[list[T] | None] = asyncio.Queue()  # None: the run is over
        self._has_left = threading.Event()
        # In the visitor's context: ZeroGPU finds there whose share of a GPU the run is to take.
        context = contextvars.copy_context()
        threading.Thread(
            target=context.run, args=(self._read,), name="specviz-reader", daemon=True
        ).start()

    def leave(self) -> None:
        """Returns at once, from any thread. Whoever waits for a batch gets the last one; the
        session's iterator is closed when its current step ends."""
        self._has_left.set()
        self._put(None)

    async def batch(self) -> tuple[list[T], bool]:
        """All that is there, waiting at most BEAT_SECONDS for the first; and whether it is the
        last."""
        try:
            waiting = [await asyncio.wait_for(self._queue.get(), BEAT_SECONDS)]
        except TimeoutError:
            return [], False
        while not self._queue.empty():
            waiting.append(self._queue.get_nowait())
        return [item for made in waiting for item in made or ()], waiting[-1] is None

    def _read(self) -> None:
        try:
            self._read_all()
        except ValueError as error:
            self._send(self._fold(Failure(said(error))))
        except Exception as error:  # whatever broke, the page gets a sentence and the log the rest
            log.exception("A run ended with an internal error")
            crashed = message("page.crashed", kind=type(error).__name__)
            self._send(self._fold(Failure(crashed)))
        self._send(None)

    def _read_all(self) -> None:
        events = self._session.events(self._request)
        try:
            for event in events:
                if self._has_left.is_set():
                    return
                self._send(self._fold(event))
        finally:
            if isinstance(events, Generator):
                events.close()

    def _send(self, made: list[T] | None) -> None:
        if not self._has_left.is_set():
            self._put(made)

    def _put(self, made: list[T] | None) -> None:
        with contextlib.suppress(RuntimeError):  # the server is shutting down: nobody listens
            self._loop.call_soon_threadsafe(self._queue.put_nowait, made)


class Recordings:
    """Saved runs by name. Each is folded when first asked for; what is kept is text."""

    def __init__(self, files: Iterable[Path]) -> None:
        self.files = {path.name.split(".")[0]: path for path in files}
        self._shown = cache(_shown)
        self.has_shown = threading.Event()  # somebody was given a run

    def prepare(self) -> None:
        """Folds the run that a page opens with, which its first visitor would wait for."""
        with contextlib.suppress(OSError, ValueError):  # `envelope` says what is wrong with it
            for path in islice(self.files.values(), 1):
                self._shown(path)

    def envelope(self, name: str, run: str) -> str:
        """The run of that name as one envelope; a sentence if there is none or it is damaged."""
        if name not in self.files:
            return refusal(run, message("page.no_such_recording"))
        try:
            label, items, _ = self._shown(self.files[name])
        except (OSError, ValueError) as error:
            return refusal(run, message("page.unreadable", name=name, reason=said(error)))
        self.has_shown.set()
        return Packer(run, "recorded", label).pack_text(items, is_last=True)

    def prompt(self, name: str) -> str:
        """What the run of that name was asked; "" if there is none or it is damaged."""
        try:
            return self._shown(self.files[name])[2] if name in self.files else ""
        except (OSError, ValueError):
            return ""

    def trace(self, name: str) -> str | None:
        """The file's text; None if there is none of that name or it cannot be read."""
        try:
            return read_trace(self.files[name]) if name in self.files else None
        except (OSError, ValueError):
            return None


def _shown(path: Path) -> tuple[Message, str, str]:
    """(label, items as JSON, prompt) of a trace file. OSError or ValueError if it cannot be read."""
    return _folded(read_trace(path), "page.recorded_on")


def _folded(text: str, key: str, **more: str) -> tuple[Message, str, str]:
    """(label, items as JSON, prompt) of a trace. ValueError: it is not one, or it contradicts itself."""
    feed, events = StageFeed(), tuple[TraceEvent, ...](load_events(text))
    start = events[0]
    assert isinstance(start, RunStart)  # load_events begins with one or refuses
    label = message(key, date=start.created[:10], machine=told(start.machine, "machine."), **more)
    items = _dump([item for event in events for item in feed.feed(event)])
    return label, items, start.request.prompt
