"""What this machine can do, measured in about a second: memory, arithmetic, and reads of n rows.

A matrix takes the place of a model's weights: too large for the caches, multiplied by n rows at
once, as one pass of a model does with each of its matrices. Torch is imported inside the call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specviz.roofline import Machine, Pass

if TYPE_CHECKING:
    from torch import Tensor

SIDE = 6144  # of the square matrix: 75 MB in bf16, 151 MB in float32
SQUARE = 1536  # of the product that shows the peak of arithmetic
ROWS = (1, 2, 4, 8, 16, 32, 64)
REPEATS = 3  # the fastest counts: whatever disturbs a repeat only makes it slower


@dataclass(frozen=True, slots=True)
class MeasuredMachine:
    machine: Machine
    device: str
    description: str
    date: str  # ISO 8601, UTC
    reads: tuple[tuple[int, float], ...]  # (rows, seconds) of the bf16 matrix
    num_weights: int

    def least_seconds(self, num_rows: int) -> float:
        """What the roofline allows for the same matrix."""
        weights = Pass(self.num_weights, bytes_per_weight=2, num_rows=num_rows)
        return weights.least_seconds(self.machine)


def measure() -> MeasuredMachine:
    """Bytes and operations per second here: float32 weights times one row for the first, a product
    of square bf16 matrices for the second."""
    from datetime import UTC, datetime

    import torch

    from specviz.lm.device import describe_machine, pick_device

    device = pick_device()
    wide = torch.ones(SIDE, SIDE, device=device)
    bytes_per_second = wide.nbytes / _fastest(wide, torch.ones(SIDE, 1, device=device))
    weights = wide.to(torch.bfloat16)
    del wide
    square = weights[:SQUARE, :SQUARE].contiguous()
    flops_per_second = 2 * SQUARE**3 / _fastest(square, square)
    reads = tuple((n, _fastest(weights, weights[:, :n].contiguous())) for n in ROWS)
    return MeasuredMachine(
        Machine(flops_per_second, bytes_per_second),
        device=str(device),
        description=describe_machine(device),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        reads=reads,
        num_weights=SIDE * SIDE,
    )


def _fastest(weights: Tensor, rows: Tensor) -> float:
    """Seconds of one product, the best of a few after one that is not counted."""
    from specviz.lm.device import Stopwatch

    weights @ rows
    watch, laps = Stopwatch(weights.device), []
    for _ in range(REPEATS):
        watch.lap()
        weights @ rows
        laps.append(watch.lap())
    return min(laps)
