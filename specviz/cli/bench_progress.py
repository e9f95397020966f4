"""How far a benchmark has come: a bar with the time left, and sentences above it."""

from __future__ import annotations

from typing import Any, TextIO

from tqdm import tqdm

from specviz.cli.watch import ProgressLines, printable
from specviz.trace import Progress

SECONDS_BETWEEN_LINES = 30  # where the bar is no picture but a line in a file


class BenchProgress:
    """A `bench.run.Watcher` on a terminal or in a log."""

    def __init__(self, err: TextIO) -> None:
        self._err = err
        self._lines = ProgressLines(err)
        self._bar: Any = None

    def progress(self, event: Progress) -> None:
        self._lines.tell(event)

    def tell(self, sentence: str) -> None:
        tqdm.write(printable(sentence), file=self._err)

    def advance(self, num_done: int, num_runs: int) -> None:
        if self._bar is None:
            # What an earlier sitting measured took no time now, so it starts the bar.
            self._bar = tqdm(
                total=num_runs,
                initial=num_done,
                file=self._err,
                unit="run",
                mininterval=0.1 if self._err.isatty() else SECONDS_BETWEEN_LINES,
            )
        self._bar.update(num_done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
