"""4-bit weight-only linear layers on CPU, for cheap copies that draft. Never for a target's lane.

Each group of 32 weights of a row is stored as 4-bit steps between its extremes, with a scale and
a zero point in bfloat16. One row reads a quarter of the bytes; several rows soon cost more than
packed bf16, which is why such a copy drafts well and verifies badly.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.words import word

GROUP = 32
ROW_TILE = 16  # the kernel wants output rows in whole tiles
_OPS = torch.ops.aten


def why_not_int4(widths: Iterable[int] = ()) -> str | None:
    """None if 4-bit layers with so many inputs run on this build of torch; otherwise the reason."""
    if not hasattr(_OPS, "_weight_int4pack_mm_for_cpu"):
        return word("path.no_int4")
    for width in widths:
        if width % GROUP:
            return word("path.int4_widths", group=GROUP, width=width)
    return None


class Int4Linear:
    """`lm.linear.Linear` with weights (out, in) rounded to 4 bits, asymmetric, per group."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.num_out = len(weight)
        missing = -self.num_out % ROW_TILE
        steps, self.scales_and_zeros = quantise(F.pad(weight, (0, 0, 0, missing)))
        self.weight = _OPS._convert_weight_to_int4pack_for_cpu(steps, 1)
        self.bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = _OPS._weight_int4pack_mm_for_cpu(
            x.contiguous(), self.weight, GROUP, self.scales_and_zeros
        )[:, : self.num_out]
        return y if self.bias is None else y + self.bias

    def silu(self, x: Tensor) -> Tensor:
        return F.silu(self(x))

    def times(self, x: Tensor, other: Tensor) -> Tensor:
        return self(x) * other

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        return self(x) + other


def quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Steps (out, in) int32 in 0..15 and (in / GROUP, out, 2) bf16 scales and zero points.

    A weight is (step - 8) * scale + zero. ValueError: the width is no multiple of GROUP.
    """
    num_out, num_in = weight.shape
    if num_in % GROUP:
        raise ValueError(f"4-bit layers need a width that is a multiple of {GROUP}; got {num_in}.")
    groups = weight.float().view(num_out, -1, GROUP)
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    scale = ((high - low) / 15).clamp_min(1e-8).bfloat16().float()
    zero = (low + 8 * scale).bfloat16().float()
    steps = ((groups - zero) / scale + 8).round().clamp(0, 15)
    facts = torch.cat((scale, zero), dim=-1).bfloat16().transpose(0, 1).contiguous()
    return steps.view(num_out, num_in).int(), facts
