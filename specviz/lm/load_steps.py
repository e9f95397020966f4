"""A model loading in a thread of its own, so that whoever waits can tell how far it is and end it.

transformers counts the tensors it has brought to the device with a progress bar. The bar is
replaced by one that counts for us and raises once nobody waits any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from transformers.utils import logging as library

T = TypeVar("T")
T_Item = TypeVar("T_Item")
POLL_SECONDS = 0.25


class LoadEnded(Exception):  # noqa: N818 - asked for, and met by nobody but the thread it ends
    """Nobody waits for this model any more."""


class LoadSteps(Generic[T]):
    """`run` it to its end, then ask for the `result`."""

    def __init__(self, load: Callable[[], T]) -> None:
        self._load = load
        self._future: Future[T] = Future()
        self._is_left = threading.Event()
        self._done = self._count = 0

    def run(self) -> Generator[tuple[int, int], None, None]:
        """(tensors done, tensors in all) a few times a second. Closing it early ends the loading at
        its next tensor."""
        thread = threading.Thread(target=self._run, name="load")
        thread.start()
        try:
            while thread.is_alive():
                yield self._done, self._count
                thread.join(POLL_SECONDS)
        finally:
            self._is_left.set()
            thread.join()

    def result(self) -> T:
        """What was loaded, or the error that loading ended in."""
        return self._future.result(timeout=0)

    def _run(self) -> None:
        try:
            with self._counting():
                self._future.set_result(self._load())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
            self._future.set_exception(error)

    @contextmanager
    def _counting(self) -> Iterator[None]:
        before = library.set_tqdm_hook(self._bar)
        try:
            yield
        finally:
            library.set_tqdm_hook(before)

    def _bar(self, make: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """In place of a progress bar over the tensors; bars over nothing stay what they are."""
        return self._counted(args[0]) if args and args[0] is not None else make(*args, **kwargs)

    def _counted(self, items: Collection[T_Item]) -> Iterator[T_Item]:
        self._count = len(items)
        for self._done, item in enumerate(items):
            if self._is_left.is_set():
                raise LoadEnded
            yield item
