"""Linear layers for decoding on CPU: the same weights, laid out once for passes of a few rows.

`PackedLinear` hands oneDNN a weight it reordered beforehand and fuses the elementwise step that
follows. A row does not depend on how many others are in the pass (held by a test up to 128
rows), which plain `F.linear` does not promise.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

_OPS = torch.ops.mkldnn
# Laid out for 1 row. Laid out for 4, passes of 24 to 64 rows are 5 to 15 % faster, but from 33 rows on
# a row's last bits depend on the others, and a large tree could differ from plain decoding.
_BATCH_HINT = 1


class Linear(Protocol):
    """y = x W^T + b, alone or followed by one elementwise step. x (n, in) -> (n, out)."""

    def __call__(self, x: Tensor) -> Tensor: ...
    def silu(self, x: Tensor) -> Tensor: ...
    def times(self, x: Tensor, other: Tensor) -> Tensor: ...
    def plus(self, x: Tensor, other: Tensor) -> Tensor: ...


def why_not_packed() -> str | None:
    """None if oneDNN's packed bf16 linears run here; otherwise the reason."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return "this build of torch has no oneDNN"
    if not hasattr(_OPS, "_linear_pointwise") or not hasattr(_OPS, "_reorder_linear_weight"):
        return "this build of torch has no packed linear layers (x86 builds do)"
    if not _OPS._is_mkldnn_bf16_supported():
        return "this CPU has no bfloat16 kernels (AVX-512 is needed)"
    return None


class PackedLinear:
    """bf16, reordered once for oneDNN."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight = _OPS._reorder_linear_weight(weight.contiguous(), _BATCH_HINT)
        self.bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = _OPS._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return y

    def silu(self, x: Tensor) -> Tensor:
        y: Tensor = _OPS._linear_pointwise(x, self.weight, self.bias, "swish", [], "")
        return y

    def times(self, x: Tensor, other: Tensor) -> Tensor:
        y: Tensor = _OPS._linear_pointwise.binary(x, other, self.weight, self.bias, "mul")
        return y

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        y: Tensor = _OPS._linear_pointwise.binary(x, other, self.weight, self.bias, "add")
        return y
