"""Jobs side by side: all are done, what goes wrong is said, and nothing is left running."""

from __future__ import annotations

import os
from collections import Counter
from multiprocessing import active_children
from pathlib import Path

import pytest

from specviz.train.workers import Step, WorkerDiedError, worked
from tests.train import jobs


@pytest.mark.parametrize("num_workers", [1, 2])
def test_every_job_is_done_once_and_told_of(tmp_path: Path, num_workers: int) -> None:
    given = [(tmp_path, number) for number in (3, 1, 4, 2)]
    steps = list(worked(jobs.count_up, given, num_workers))
    assert Counter(step.job for step in steps if step.is_done) == {0: 1, 1: 1, 2: 1, 3: 1}
    for job, (_, number) in enumerate(given):
        told = [step.amount for step in steps if step.job == job and not step.is_done]
        assert told == list(range(1, number + 1))
        assert (tmp_path / f"{number}").exists()
    processes = {path.read_text() for path in tmp_path.iterdir()}
    assert (str(os.getpid()) in processes) == (num_workers == 1)
    assert active_children() == []


def test_one_worker_does_the_jobs_in_their_order(tmp_path: Path) -> None:
    steps = worked(jobs.count_up, [(tmp_path, 1), (tmp_path, 2)], 1)
    assert next(steps) == Step(0, 1, is_done=False)
    assert next(steps) == Step(0, 0, is_done=True)
    assert next(steps) == Step(1, 1, is_done=False)


def test_whoever_stops_listening_ends_the_workers() -> None:
    steps = worked(jobs.never_done, [1, 2, 3], 2)
    next(steps)
    assert len(active_children()) == 2
    steps.close()  # type: ignore[attr-defined]
    assert active_children() == []


@pytest.mark.parametrize("num_workers", [1, 2])
def test_what_a_job_cannot_do_is_said(num_workers: int) -> None:
    with pytest.raises(ValueError, match="job 7 cannot be done"):
        list(worked(jobs.refused, [7, 7], num_workers))
    assert active_children() == []


def test_a_worker_that_dies_is_noticed() -> None:
    """A pool of multiprocessing would wait for its job for ever."""
    with pytest.raises(WorkerDiedError, match="fewer --workers"):
        list(worked(jobs.died, [1, 2, 3], 2))
    assert active_children() == []


def test_no_jobs_need_no_workers() -> None:
    assert list(worked(jobs.died, [], 2)) == []
