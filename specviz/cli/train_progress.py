"""How far a corpus or a training has come: a bar with the time left, and sentences above it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

from tqdm import tqdm

if TYPE_CHECKING:
    from specviz.train.simulate import Simulated

SECONDS_BETWEEN_LINES = 30  # where the bar is no picture but a line in a file
STEPS_PER_LINE = 20  # whose mean losses are told


class TokenBar:
    """Tokens written or read: how fast, and how long it will still take."""

    def __init__(self, err: TextIO) -> None:
        self._err = err
        self._bar: Any = None
        self._started = time.perf_counter()

    def show(self, stage: str, done: int, total: int, num_tokens: int) -> None:
        """`done` of `total` is how far it is; `num_tokens` were really written in this sitting."""
        if self._bar is None:
            # What an earlier sitting made took no time now, so it starts the bar.
            self._bar = _bar(
                self._err,
                total=total,
                initial=done,
                bar_format="{desc}: {percentage:3.1f}% |{bar}| {elapsed}, {remaining} left{postfix}",
            )
        self._bar.set_description_str(stage, refresh=False)
        seconds = max(time.perf_counter() - self._started, 1e-9)
        self._bar.set_postfix_str(f"{num_tokens / seconds:,.0f} tokens/s", refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


class LossLines:
    """Mean losses every few steps, acceptance when it was evaluated, a bar below them."""

    def __init__(self, err: TextIO) -> None:
        self._err = err
        self._bar: Any = None
        self._sums: dict[str, float] = {}
        self._count = 0

    def step(self, step: int, num_steps: int, losses: Mapping[str, float], rate: float) -> None:
        if self._bar is None:
            self._bar = _bar(self._err, total=num_steps, initial=step - 1, unit="step")
        self._bar.update(step - self._bar.n)
        for name, value in losses.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        self._count += 1
        if step % STEPS_PER_LINE == 0 or step == num_steps:
            means = ", ".join(f"{n} {s / self._count:.3f}" for n, s in self._sums.items())
            self._write(f"step {step}: {means}; learning rate {rate:.1e}")
            self._sums, self._count = {}, 0

    def tell(self, step: int, simulated: Simulated) -> None:
        rates = " ".join(f"{rate:.3f}" for rate in simulated.chain.conditional)
        self._write(
            f"step {step}, held out (simulated): by depth {rates}; tau of the chain "
            f"{simulated.chain.tau:.2f}, of a tree of {simulated.tree_rows} rows "
            f"{simulated.tree.tau:.2f}; {simulated.num_starts:,} places"
        )

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def _write(self, line: str) -> None:
        tqdm.write(line, file=self._err)
        self._err.flush()


def _bar(err: TextIO, **settings: Any) -> Any:
    interval = 0.1 if err.isatty() else SECONDS_BETWEEN_LINES
    return tqdm(file=err, mininterval=interval, **settings)
