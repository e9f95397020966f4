"""Work for worker processes: a module that loads quickly in each of them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path


def count_up(job: tuple[Path, int]) -> Iterator[int]:
    """1, 2, ... up to the job's number; then a file that says which process did it."""
    folder, number = job
    yield from range(1, number + 1)
    (folder / f"{number}").write_text(str(os.getpid()))


def never_done(job: int) -> Iterator[int]:
    while True:
        yield job
        time.sleep(0.01)


def refused(job: int) -> Iterator[int]:
    yield 1
    raise ValueError(f"job {job} cannot be done")


def died(job: int) -> Iterator[int]:
    yield 1
    os._exit(9)
