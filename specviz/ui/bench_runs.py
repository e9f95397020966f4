"""Benchmarks that visitors started: each in a thread of its own, followed second by second.

It measures with `bench` as the command does and makes no number. What was measured is kept in a file
per visitor and plan, so a stop, a reload or a restart loses no whole prompt: the same plan goes on.
A benchmark that nobody follows any more stops by itself.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from specviz.bench import CannotMeasureError
from specviz.bench.csv_report import report_csv
from specviz.bench.lane_run import StoppedError
from specviz.bench.records import PartialFile, Record
from specviz.bench.report import report_json, report_text
from specviz.bench.results import Results
from specviz.bench.run import Benchmark, Plan, Setup
from specviz.bench.sitting import MakePeers, sit
from specviz.session import Session
from specviz.trace import Progress
from specviz.words import Message, Refusal, message, said

log = logging.getLogger(__name__)
POLL_SECONDS = 1.0
BEAT_SECONDS = 5.0
LEASE_SECONDS = 30.0  # a page that has not looked for so long has been left
MAX_FILES = 200  # of all visitors; the oldest go first


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured so far, as the files a visitor can save. No text: nothing yet."""

    document: str = ""  # JSON
    markdown: str = ""
    csv: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """A benchmark as its page sees it."""

    state: Message
    num_done: int = 0
    num_runs: int = 0
    report: Report = Report()
    is_over: bool = False


class _WatchedFile(PartialFile):
    """Tells of the records that are kept, too."""

    def __init__(self, path: Path, note: Callable[[Sequence[Record]], None]) -> None:
        super().__init__(path)
        self._note = note

    def load(self, settings: Mapping[str, Any]) -> list[Record]:
        try:
            return super().load(settings)
        except ValueError as error:  # the plan is the same, so the place is not
            raise Refusal(message("bench.other_place")) from error

    def begin(self, settings: Mapping[str, Any], records: Sequence[Record]) -> None:
        super().begin(settings, records)
        self._note(records)

    def add(self, records: Sequence[Record]) -> None:
        super().add(records)
        self._note(records)


@dataclass(slots=True)
class Sitting:
    """A `bench.run.Watcher` whose benchmark runs in a thread, and what there is to see of it."""

    session: Session
    plan: Plan
    path: Path
    make_peers: MakePeers | None = None
    _seen: Seen = Seen(("bench.preparing", {}))
    _setup: Setup | None = None
    _records: list[Record] = field(default_factory=list)
    _trouble: Exception | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _looked: float = field(default_factory=time.monotonic)
    _began: tuple[float, int] | None = None  # when the first run began, and how many were done

    def stop(self) -> None:
        """Within a round; whole prompts stay."""
        self._stop.set()

    def follow(self) -> Iterator[Seen]:
        """What there is to see whenever it changed, the end last. Refusal: why it cannot be measured."""
        thread = threading.Thread(target=self._run, name="specviz-benchmark", daemon=True)
        thread.start()
        shown = None
        try:
            while thread.is_alive():
                # Now and then although nothing changed: only so the server notices who has gone.
                if self._seen != shown or time.monotonic() - self._looked > BEAT_SECONDS:
                    shown = self._seen
                    yield shown
                    self._looked = time.monotonic()
                thread.join(POLL_SECONDS)
        finally:
            self.stop()
        if self._trouble is not None:
            raise Refusal(said(self._trouble))
        yield self._seen

    def progress(self, event: Progress) -> None:
        self._show(("bench.waiting", {"what": event.message}))

    def tell(self, sentence: str) -> None:
        """The report and `advance` say the same, in any language."""

    def advance(self, num_done: int, num_runs: int) -> None:
        now = time.monotonic()
        if self._began is None:
            self._began = now, num_done
        since, before = self._began
        self._seen = Seen(
            _left(now - since, num_done - before, num_runs - num_done),
            num_done,
            num_runs,
            self._seen.report,
        )

    def _run(self) -> None:
        try:
            self._measure()
        except StoppedError:
            self._show(message("bench.stopped_early"))
        except (ValueError, CannotMeasureError) as error:
            self._trouble = error
        except Exception as error:  # whatever broke, the page gets a sentence and the log the rest
            log.exception("A benchmark ended with an internal error")
            self._trouble = Refusal(message("page.crashed", kind=type(error).__name__))

    def _measure(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        benchmark = Benchmark(self.session, self.plan, self, self._is_stopped)
        kept = _WatchedFile(self.path, self._note)
        results = sit(benchmark, kept, self.make_peers, self._warm)
        key = "bench.done" if results.is_complete else "bench.stopped"
        state = message(key, prompts=results.num_prompts, of=len(self.plan.prompts))
        count = self._seen.num_runs
        done = count if results.is_complete else self._seen.num_done
        self._seen = Seen(state, done, count, _report(results), is_over=True)

    def _warm(self, setup: Setup) -> None:
        self._setup = setup

    def _note(self, records: Sequence[Record]) -> None:
        self._records += records
        if self._setup is None or not any(not r.failure for r in self._records):
            return
        load = None  # told in the end, when it is known that nothing more comes
        results = Results(self.plan, self._setup, tuple(self._records), False, load)
        now = self._seen
        self._seen = Seen(now.state, now.num_done, now.num_runs, _report(results))

    def _show(self, state: Message) -> None:
        now = self._seen
        self._seen = Seen(state, now.num_done, now.num_runs, now.report)

    def _is_stopped(self) -> bool:
        return self._stop.is_set() or time.monotonic() - self._looked > LEASE_SECONDS


class Benches:
    """The latest sitting of each visitor, and the folder of what all of them measured."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder
        self._sittings: dict[str, Sitting] = {}
        self._lock = threading.Lock()

    def measured(
        self,
        visitor: str,
        session: Session,
        plan: Plan,
        make_peers: MakePeers | None,
        *,
        is_anew: bool,
    ) -> Iterator[Seen]:
        """Goes on where the visitor's same plan stopped, or, if `is_anew`, from the beginning."""
        path = self._path(visitor, plan)
        if is_anew:
            path.unlink(missing_ok=True)
        sitting = Sitting(session, plan, path, make_peers)
        with self._lock:
            before = self._sittings.pop(visitor, None)
            self._sittings[visitor] = sitting
        if before is not None:
            before.stop()
        try:
            yield from sitting.follow()
        finally:
            with self._lock:
                if self._sittings.get(visitor) is sitting:
                    del self._sittings[visitor]

    def stop(self, visitor: str) -> None:
        with self._lock:
            sitting = self._sittings.get(visitor)
        if sitting is not None:
            sitting.stop()

    def _path(self, visitor: str, plan: Plan) -> Path:
        folder = self._folder()
        with contextlib.suppress(OSError):
            files = sorted(folder.glob("*.partial.jsonl"), key=lambda p: p.stat().st_mtime)
            for old in files[:-MAX_FILES]:
                old.unlink(missing_ok=True)
        name = sha256(f"{visitor}\n{sorted(plan.settings().items())}".encode()).hexdigest()
        return folder / f"{name[:40]}.partial.jsonl"


def _left(seconds: float, num_done: int, num_left: int) -> Message:
    """How long it will take, from what the runs of this sitting took."""
    if not num_done:
        return message("bench.measuring")
    left = seconds / num_done * num_left
    if left < 90:
        return message("bench.seconds_left", n=max(1, round(left)))
    return message("bench.minutes_left", n=round(left / 60))


def _report(results: Results) -> Report:
    return Report(report_json(results), report_text(results, is_markdown=True), report_csv(results))
