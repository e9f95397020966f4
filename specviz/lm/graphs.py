"""Work of a fixed shape, captured once as a CUDA graph and replayed; on a CPU it is simply called.

A decode step is hundreds of small kernels, and launching them one by one takes the host longer
than a GPU needs to run them. A graph launches them all at once, on the tensors it was captured
with: whoever captures keeps its inputs in place and reads its outputs before the next replay.
What the work computes is not known here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from specviz.words import word

T = TypeVar("T")
WARM_UP_CALLS = 2  # libraries choose kernels and allocate workspaces at their first call
ZERO_GPU = "SPACES_ZERO_GPU"  # set where a GPU is lent for the length of one call


class Recorder(Protocol):
    """Makes replays of work that share one memory pool."""

    def record(self, work: Callable[[], T]) -> Callable[[], T]:
        """Calling the result does `work` again and returns its tensors, the same ones each time.

        RuntimeError: the work cannot be captured, as when it waits for the device.
        """


class EagerRecorder:
    """Every replay is a call: same results, nothing saved. What CPUs and tests use."""

    def record(self, work: Callable[[], T]) -> Callable[[], T]:
        return work


class GraphRecorder:
    """CUDA graphs. They share a pool: the intermediate results of one may lie where another's did."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._pool: Any = torch.cuda.graph_pool_handle()
        # A pool whose last graph is gone takes no other; this one outlives them all.
        self._keeper = self.record(lambda: torch.zeros(1, device=device))

    def record(self, work: Callable[[], T]) -> Callable[[], T]:
        with torch.cuda.device(self.device):
            side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            main = torch.cuda.current_stream()
            side.wait_stream(main)
            with torch.cuda.stream(side):
                for _ in range(WARM_UP_CALLS):
                    work()
            main.wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            # The outer stream is current again even if the capture fails.
            with torch.cuda.stream(main), torch.cuda.graph(graph, pool=self._pool):
                outputs = work()

        def replay() -> T:
            graph.replay()
            return outputs

        return replay


def why_no_graphs(device: torch.device) -> str | None:
    """None if CUDA graphs may be captured on this device; otherwise the reason."""
    if device.type != "cuda" or torch.version.cuda is None:
        return word("path.no_cuda", device=device.type)
    if os.environ.get(ZERO_GPU):
        return word("path.lent_gpu")
    return None


def best_recorder(device: torch.device) -> Recorder | None:
    """None: nothing is captured on this device."""
    return None if why_no_graphs(device) else GraphRecorder(device)


class Staging:
    """Whole numbers on their way to a device, without waiting for it.

    They go through pinned memory, which is not written again before the copy out of it is done.
    """

    def __init__(self, size: int, device: torch.device) -> None:
        is_cuda = device.type == "cuda"
        self._host = torch.zeros(size, dtype=torch.long, pin_memory=is_cuda)
        self._sent: Any = torch.cuda.Event() if is_cuda else None  # type: ignore[no-untyped-call]
        self.tensor = torch.zeros(size, dtype=torch.long, device=device)  # (size,), always the same

    def send(self, numbers: Sequence[int]) -> Tensor:
        """(n,) the first of the device's numbers, once everything queued before has been done."""
        if self._sent is not None:
            self._sent.synchronize()
        count = len(numbers)
        self._host[:count] = torch.tensor(numbers)
        target = self.tensor[:count]
        target.copy_(self._host[:count], non_blocking=True)
        if self._sent is not None:
            self._sent.record()
        return target
