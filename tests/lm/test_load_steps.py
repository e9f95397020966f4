"""Loading in steps: counted as the library counts, and ended when nobody waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from transformers.utils import logging as library

from specviz.lm.load_steps import LoadSteps


def loading(seen: list[int], wait: Callable[[int], object], count: int = 5) -> Callable[[], str]:
    """What a library does that shows a bar over its tensors."""

    def load() -> str:
        for item in library.tqdm({n: n for n in range(count)}.items(), desc="Loading weights"):
            seen.append(item[0])
            wait(item[0])
        return "model"

    return load


def test_steps_are_counted_and_the_result_comes_last() -> None:
    seen: list[int] = []
    gate = threading.Event()
    steps = LoadSteps(loading(seen, lambda n: gate.wait(10) if n == 3 else None))
    told = []
    for tick in steps.run():
        told.append(tick)
        if tick == (3, 5):
            gate.set()
    assert (3, 5) in told
    assert steps.result() == "model"
    assert seen == [0, 1, 2, 3, 4]


def test_leaving_ends_the_loading_at_its_next_tensor() -> None:
    seen: list[int] = []
    running = LoadSteps(loading(seen, lambda n: time.sleep(0.02), count=10_000)).run()
    next(running)
    running.close()
    assert len(seen) < 5000
    before = len(seen)
    time.sleep(0.1)
    assert len(seen) == before


def test_an_error_comes_to_whoever_asks_for_the_result() -> None:
    def broken() -> str:
        raise ValueError("a file is cut short")

    steps = LoadSteps(broken)
    list(steps.run())
    with pytest.raises(ValueError, match="cut short"):
        steps.result()


def test_the_librarys_own_bars_are_back_afterwards() -> None:
    list(LoadSteps(lambda: "model").run())
    assert library.set_tqdm_hook(None) is None
