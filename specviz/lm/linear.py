"""Linear layers for decoding on CPU: the same weights, laid out once for passes of a few rows.

`PackedLinear` hands oneDNN a weight it reordered beforehand and fuses the elementwise step that
follows. A row does not depend on how many others are in the pass (held by a test up to 128
rows), which plain `F.linear` does not promise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.words import word

_OPS = torch.ops.mkldnn
# Laid out for 4 rows: fastest from 1 to 32 rows, and up to 32 a row does not depend on the others.
# From 33 rows on its last bits would, so larger passes are cut into slices. (Laid out for 1 row,
# rows are independent at any size, but 32 of them take a sixth longer.)
_BATCH_HINT = 4
_MAX_ROWS = 32


class Linear(Protocol):
    """y = x W^T + b, alone or followed by one elementwise step. x (n, in) -> (n, out)."""

    def __call__(self, x: Tensor) -> Tensor: ...
    def silu(self, x: Tensor) -> Tensor: ...
    def times(self, x: Tensor, other: Tensor) -> Tensor: ...
    def plus(self, x: Tensor, other: Tensor) -> Tensor: ...


def why_not_packed() -> str | None:
    """None if oneDNN's packed bf16 linears run here; otherwise the reason."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return word("path.no_onednn")
    if not hasattr(_OPS, "_linear_pointwise") or not hasattr(_OPS, "_reorder_linear_weight"):
        return word("path.no_packed_linear")
    if not _OPS._is_mkldnn_bf16_supported():
        return word("path.no_bfloat16")
    return None


def reordered_linear(
    weight: Tensor, bias: Tensor | None, *, batch_hint: int
) -> Callable[[Tensor], Tensor]:
    """x (n, in) -> (n, out), bf16, for passes of about `batch_hint` rows. For batches, not lanes:
    a row's last bits may depend on how many others are in the pass."""
    laid_out = _OPS._reorder_linear_weight(weight.contiguous(), batch_hint)
    return lambda x: _OPS._linear_pointwise(x, laid_out, bias, "none", [], "")


class PackedLinear:
    """bf16, reordered once for oneDNN."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight = _OPS._reorder_linear_weight(weight.contiguous(), _BATCH_HINT)
        self.bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        return self._unary(x, "none")

    def silu(self, x: Tensor) -> Tensor:
        return self._unary(x, "swish")

    def times(self, x: Tensor, other: Tensor) -> Tensor:
        return self._binary(x, other, "mul")

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        return self._binary(x, other, "add")

    def _unary(self, x: Tensor, step: str) -> Tensor:
        if len(x) > _MAX_ROWS:
            return torch.cat([self._unary(rows, step) for rows in torch.split(x, _MAX_ROWS)])
        y: Tensor = _OPS._linear_pointwise(x, self.weight, self.bias, step, [], "")
        return y

    def _binary(self, x: Tensor, other: Tensor, step: str) -> Tensor:
        if len(x) > _MAX_ROWS:
            slices = zip(torch.split(x, _MAX_ROWS), torch.split(other, _MAX_ROWS), strict=True)
            return torch.cat([self._binary(*rows, step) for rows in slices])
        y: Tensor = _OPS._linear_pointwise.binary(x, other, self.weight, self.bias, step)
        return y


class PlainLinear:
    """Any dtype, any device: what stands in where there are no packed layers."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def silu(self, x: Tensor) -> Tensor:
        return F.silu(self(x))

    def times(self, x: Tensor, other: Tensor) -> Tensor:
        return self(x).mul_(other)

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        return self(x).add_(other)


def best_linear(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """Packed where this weight can be: bf16, on a CPU that has the kernels."""
    is_packable = weight.dtype == torch.bfloat16 and weight.device.type == "cpu"
    if is_packable and why_not_packed() is None:
        return PackedLinear(weight, bias)
    return PlainLinear(weight, bias)
