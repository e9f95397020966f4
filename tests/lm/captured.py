"""What a CUDA graph does, on a CPU: the operations of one run, done again on the same tensors.

Everything Python decided while the work was recorded is frozen, as it is in a graph: a length that
was a number instead of a tensor, or a buffer that moved, gives wrong answers here too. Waiting for a
value raises. Outputs lie in the same memory at every replay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx


class CallingRecorder:
    """`lm.graphs.Recorder` that calls the work again, and counts what it was given."""

    def __init__(self) -> None:
        self.num_recorded = 0

    def record(self, work: Callable[[], Any]) -> Callable[[], Any]:
        self.num_recorded += 1
        work()  # as a graph's warm-up does
        read = work()
        held = _tensors(read)

        is_alone = isinstance(read, Tensor)

        def replay() -> Any:
            for old, new in zip(held, self.again(work), strict=True):
                old.copy_(new)
            return held[0] if is_alone else (held[0], held[1] if len(held) > 1 else None)

        return replay

    def again(self, work: Callable[[], Any]) -> list[Tensor]:
        return _tensors(work())


class TracingRecorder(CallingRecorder):
    """Records the operations instead: slow, a second for each pass."""

    def __init__(self) -> None:
        super().__init__()
        self._traces: dict[int, Any] = {}

    def again(self, work: Callable[[], Any]) -> list[Tensor]:
        if id(work) not in self._traces:
            with torch.inference_mode(False), torch.no_grad():
                self._traces[id(work)] = make_fx(lambda: _tensors(work()))()
        fresh: list[Tensor] = self._traces[id(work)]()
        return fresh


class RefusingRecorder:
    """Captures nothing."""

    def record(self, work: Callable[[], Any]) -> Callable[[], Any]:
        raise RuntimeError("operation not permitted when stream is capturing\nmore lines")


def _tensors(read: Tensor | tuple[Tensor, Tensor | None]) -> list[Tensor]:
    if isinstance(read, Tensor):
        return [read]
    return [tensor for tensor in read if tensor is not None]
