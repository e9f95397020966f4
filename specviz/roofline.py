"""Bounds that a machine sets on one pass of a model: bytes moved, operations done, time at least.

Pure functions of given sizes and speeds; nothing is measured here. Williams et al. 2009, "Roofline".
A decode step moves all weights to multiply them with one row, so memory bounds it; reading n rows
moves the same weights once, and is free until arithmetic takes longer than moving them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    flops_per_second: float  # peak of the arithmetic the weights are multiplied in
    bytes_per_second: float  # memory bandwidth, read

    @property
    def ridge(self) -> float:
        """FLOP per byte above which arithmetic, not memory, is the bound."""
        return self.flops_per_second / self.bytes_per_second


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass over `num_rows` rows behind `context_length` cached tokens."""

    num_parameters: int  # that are multiplied: not an embedding table that is only looked up
    bytes_per_weight: float  # 2 in bf16, 0.5 in 4 bit (scales aside)
    num_rows: int = 1
    context_length: int = 0
    num_layers: int = 0
    num_heads: int = 0
    num_kv_heads: int = 0
    head_size: int = 0
    bytes_per_cached_number: float = 2.0

    @property
    def weight_bytes(self) -> float:
        """W: every weight, once, however many rows."""
        return self.num_parameters * self.bytes_per_weight

    @property
    def cache_bytes(self) -> float:
        """Keys and values of the context, of all layers, once for all rows."""
        numbers = 2 * self.num_layers * self.num_kv_heads * self.head_size * self.context_length
        return numbers * self.bytes_per_cached_number

    @property
    def bytes_moved(self) -> float:
        return self.weight_bytes + self.cache_bytes

    @property
    def flops(self) -> float:
        """2 per weight and row, and 4 per query number and cached token: scores, then values."""
        width = self.num_layers * self.num_heads * self.head_size
        return self.num_rows * (2 * self.num_parameters + 4 * width * self.context_length)

    @property
    def intensity(self) -> float:
        """FLOP per byte: about 2 / bytes_per_weight per row while the context is short."""
        return self.flops / self.bytes_moved

    def least_seconds(self, machine: Machine) -> float:
        """The larger of moving the bytes and doing the arithmetic; launches and host come on top."""
        return max(
            self.bytes_moved / machine.bytes_per_second, self.flops / machine.flops_per_second
        )

    def is_memory_bound(self, machine: Machine) -> bool:
        return self.intensity < machine.ridge


def free_rows(machine: Machine, bytes_per_weight: float) -> float:
    """n* = F b / (2 B): rows until a read stops costing what one row costs (short context)."""
    return machine.flops_per_second * bytes_per_weight / (2 * machine.bytes_per_second)


def most_tokens_per_second(
    machine: Machine, target: Pass, *, tau: float, num_draft_steps: int = 0, draft_bytes: float = 0
) -> float:
    """tau B / (W + K + d W_d): the ceiling of a memory-bound round. tau 1, no draft: of plain."""
    moved = target.bytes_moved + num_draft_steps * draft_bytes
    return tau * machine.bytes_per_second / moved


def distinct_experts(num_experts: int, num_chosen: int, num_rows: int) -> float:
    """Experts that n rows touch if each chooses evenly: E (1 - (1 - k/E)^n). Why MoE reads cost more."""
    return num_experts * (1 - (1 - num_chosen / num_experts) ** num_rows)
