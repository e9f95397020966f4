"""Long jobs side by side, each in a process of its own, told about while they go on.

No queue of futures: a worker that dies (out of memory, killed) is noticed at once, and whoever
stops listening ends all workers. Nothing here knows what the jobs are.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import TypeVar

Job = TypeVar("Job")
Work = Callable[[Job], Iterator[int]]  # does a job, and yields amounts as it goes on


@dataclass(frozen=True, slots=True)
class Step:
    """What a job told: some more of it is done, or all."""

    job: int  # place in the jobs
    amount: int
    is_done: bool


class WorkerDiedError(Exception):
    """A worker ended before its job; the sentence says what may help."""


def worked(work: Work[Job], jobs: Sequence[Job], num_workers: int) -> Iterator[Step]:
    """Do all jobs. One worker: in this process; more: `work` and the jobs must pickle.

    Closing the iterator ends the workers. WorkerDiedError: one ended by itself; what `work` raises
    comes out here.
    """
    if num_workers <= 1:
        for place, job in enumerate(jobs):
            for amount in work(job):
                yield Step(place, amount, is_done=False)
            yield Step(place, 0, is_done=True)
    elif jobs:
        yield from _side_by_side(work, jobs, min(num_workers, len(jobs)))


def _side_by_side(work: Work[Job], jobs: Sequence[Job], num_workers: int) -> Iterator[Step]:
    context = get_context("spawn")  # torch's threads do not survive a fork
    waiting = list(enumerate(jobs))[::-1]
    held: dict[Connection, int] = {}  # the job each worker is at
    processes = []
    try:
        for _ in range(num_workers):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(work, there), daemon=True)
            process.start()
            there.close()  # so that the end of the worker is the end of the pipe
            processes.append(process)
            held[here], job = waiting.pop()
            here.send(job)
        while held:
            for pipe in wait(list(held)):
                assert isinstance(pipe, Connection), "only pipes are waited for"
                step = _told(pipe, held[pipe])
                yield step
                if not step.is_done:
                    continue
                del held[pipe]
                if waiting:
                    held[pipe], job = waiting.pop()
                    pipe.send(job)
                else:
                    pipe.close()
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def _told(pipe: Connection, job: int) -> Step:
    try:
        message = pipe.recv()
    except (EOFError, OSError) as error:
        raise WorkerDiedError(
            "A worker ended before its work was done, perhaps for want of memory. The same command "
            "goes on from here; try it with fewer --workers."
        ) from error
    if isinstance(message, Exception):
        raise message
    return Step(job, 0 if message is None else message, is_done=message is None)


def _serve(work: Work[Job], pipe: Connection) -> None:
    """A worker's life: jobs come through the pipe until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        try:
            for amount in work(job):
                pipe.send(amount)
            pipe.send(None)
        except (ValueError, OSError, RuntimeError) as error:
            pipe.send(error)
