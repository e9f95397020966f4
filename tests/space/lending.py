"""What `spaces.GPU` does on ZeroGPU, on a machine without a GPU.

Of its own making, with what can be seen of the real one from outside: each call of a decorated
generator in a forked process, arguments and results pickled, its length asked for beforehand; leaving
early waits for that process. What was asked for goes to STANDIN_LOG.
"""

from __future__ import annotations

import inspect
import json
import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

from gradio.context import LocalContext

FORK = multiprocessing.get_context("fork")


def GPU(duration: Callable[..., float]) -> Callable[..., Any]:
    def decorate(task: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        assert inspect.isgeneratorfunction(task)

        @wraps(task)
        def lent(*args: Any) -> Iterator[Any]:
            results: Any = FORK.SimpleQueue()
            worker = FORK.Process(target=_work, args=(task, pickle.dumps(args), results))
            request = LocalContext.request.get(None)
            _note(seconds=duration(*args), has_visitor=request is not None)
            worker.start()
            result: Any = b""
            try:
                while (result := results.get()) is not None:
                    if isinstance(result, Exception):
                        raise result
                    yield pickle.loads(result)
            finally:
                while result is not None:  # it could not end with its pipe full
                    result = results.get()
                worker.join()

        return lent

    return decorate


def _work(task: Callable[..., Iterator[Any]], args: bytes, results: Any) -> None:
    num_results = 0
    try:
        for result in task(*pickle.loads(args)):
            results.put(pickle.dumps(result))
            num_results += 1
    except Exception as error:  # noqa: BLE001 - raised again where the results are read
        results.put(error)
    _note(num_results=num_results)
    results.put(None)


def _note(**facts: object) -> None:
    with Path(os.environ["STANDIN_LOG"]).open("a") as log:
        log.write(json.dumps({"process": os.getpid(), **facts}) + "\n")
