"""Attention of a packed pass: buffers and every view of them made once, used by all layers.

On a CPU a pass of a few rows is bound by memory traffic and by the number of operator calls, so
nothing is allocated or reshaped per layer. It is also where rows stay independent: a masked key
adds an exact zero at its place in every sum, and a row's result is the same, bit for bit, whatever
other rows and masked keys are in the pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# n = rows of the pass, L = cached tokens, D = head size, Q and K = number of query and of
# key-value heads, G = query heads that share a key head

LOWEST_SCORE = -87.0  # its exponential is the least that float32 holds in full precision
LOWEST_WEIGHT = 1.7e-38  # a little above that
KEYS_PER_PRODUCT = 256  # a longer sum is split by the library at a place that depends on its length


@dataclass(frozen=True, slots=True)
class HeadShape:
    num_query_heads: int
    num_kv_heads: int
    head_size: int

    @property
    def num_heads(self) -> int:
        """Query, key and value heads, as they leave the fused product."""
        return self.num_query_heads + 2 * self.num_kv_heads

    @property
    def group(self) -> int:
        return self.num_query_heads // self.num_kv_heads


class Attention:
    """One pass of n rows over L cached tokens; `attend` is called once per layer."""

    def __init__(
        self, shape: HeadShape, factors: Tensor, mask: Tensor, *, dtype: torch.dtype
    ) -> None:
        """factors (n, Q + 2K, D / 2) complex; mask (n, L + n) additive float32."""
        num_rows, num_keys = mask.shape
        kv_heads, group, size = shape.num_kv_heads, shape.group, shape.head_size
        self._scale = size**-0.5
        self._has_hidden_keys = num_rows > 1
        self._factors = factors
        self._fused = torch.empty(num_rows, shape.num_heads * size)
        heads = self._fused.view(num_rows, shape.num_heads, size)
        self._pairs = torch.view_as_complex(self._fused.view(*factors.shape, 2))
        self._new_keys_values = heads[:, shape.num_query_heads :]
        # Query heads that share a key head are stacked as further rows, so keys are not repeated.
        grouped = heads[:, : shape.num_query_heads].view(num_rows, kv_heads, group, size)
        self._loose_queries = grouped.permute(1, 2, 0, 3)
        self._queries = torch.empty(kv_heads, group * num_rows, size)
        self._stacked_queries = self._queries.view(kv_heads, group, num_rows, size)
        self._mask = mask.repeat(group, 1).expand(kv_heads, -1, -1)
        self._scores = torch.empty(kv_heads, group * num_rows, num_keys)
        self._sums = torch.empty(kv_heads, group * num_rows, size + 1)
        by_row = self._sums.view(kv_heads, group, num_rows, size + 1).permute(2, 0, 1, 3)
        self._mixed, self._total = by_row[..., :-1], by_row[..., -1:]
        self._attended = torch.empty(num_rows, shape.num_query_heads * size, dtype=dtype)
        self._attended_heads = self._attended.view(num_rows, kv_heads, group, size)

    def attend(self, fused: Tensor, writes: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """(n, Q D) compute dtype, valid until the next call.

        fused (n, (Q + 2K) D): queries, keys and values of the rows, dimensions interleaved.
        writes (n, 2K, D): where the cache wants the new keys and values, among the keys
        (K, D, L + n) and values (K, L + n, D + 1) that are then read.

        The sum of weights is the last column of the product with the values, whose own last
        column is 1: both run over the keys one after the other, so that a masked key, weight 0,
        changes neither. A softmax would add the weights in blocks of its own, and round differently.
        """
        self._fused.copy_(fused)
        self._pairs.mul_(self._factors)  # rotary position embedding (arXiv:2104.09864)
        writes.copy_(self._new_keys_values)
        self._stacked_queries.copy_(self._loose_queries)
        torch.baddbmm(self._mask, self._queries, keys, alpha=self._scale, out=self._scores)
        self._weigh()
        self._add_up(values)
        torch.div(self._mixed, self._total, out=self._attended_heads)
        return self._attended

    def _weigh(self) -> None:
        """Scores to weights, unnormalised: e^(score - highest), exactly 0 for a hidden key."""
        scores = self._scores.sub_(self._scores.amax(-1, keepdim=True))
        if self._has_hidden_keys:
            # exp takes ten times as long over an underflow, and hidden scores are all underflows.
            torch.threshold_(scores.clamp_min_(LOWEST_SCORE).exp_(), LOWEST_WEIGHT, 0.0)
        else:
            scores.exp_()

    def _add_up(self, values: Tensor) -> None:
        """The weights times the values, in pieces that begin at the same keys in every pass."""
        torch.bmm(
            self._scores[..., :KEYS_PER_PRODUCT], values[:, :KEYS_PER_PRODUCT], out=self._sums
        )
        for start in range(KEYS_PER_PRODUCT, self._scores.shape[-1], KEYS_PER_PRODUCT):
            end = start + KEYS_PER_PRODUCT
            self._sums.baddbmm_(self._scores[..., start:end], values[:, start:end])


class Rotation:
    """Rotary position embedding as one complex factor per pair of dimensions.

    Dimensions come interleaved, (d0, d_half, d1, d_half+1, ...): the packed query and key weights
    are permuted so. Value heads are multiplied by 1, so that one product serves all heads.
    """

    def __init__(self, inverse_frequencies: Tensor, scaling: float, shape: HeadShape) -> None:
        self.inverse_frequencies = inverse_frequencies.float()
        self.scaling = scaling
        self.shape = shape
        empty = (0, shape.num_heads, len(inverse_frequencies))
        self.table = torch.empty(empty, dtype=torch.complex64)

    def at(self, positions: Tensor, end: int) -> Tensor:
        """(n, Q + 2K, D / 2) complex factors of positions below `end`; the table grows to it."""
        if end > len(self.table):
            self.table = self._make_table(max(end, 2 * len(self.table), 512))
        return self.table[positions]

    def _make_table(self, length: int) -> Tensor:
        angles = torch.outer(torch.arange(length).float(), self.inverse_frequencies)
        turned = torch.polar(torch.full_like(angles, self.scaling), angles).unsqueeze(1)
        still = torch.ones_like(turned)
        num_values = self.shape.num_kv_heads
        num_turned = self.shape.num_heads - num_values
        parts = [turned.expand(-1, num_turned, -1), still.expand(-1, num_values, -1)]
        return torch.cat(parts, dim=1).contiguous()
