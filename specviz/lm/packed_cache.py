"""Keys and values of a packed model: one buffer, allocated once, compacted in place."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class PackedCache:
    """(layers, 2 K heads, capacity, D + 1) float32: keys in the first K heads, values in the rest.

    The last column is 1: the product of attention weights with the values sums the weights too.
    """

    def __init__(self, num_layers: int, num_kv_heads: int, capacity: int, head_size: int) -> None:
        self.buffer = torch.ones(num_layers, 2 * num_kv_heads, capacity, head_size + 1)
        self.num_kv_heads = num_kv_heads
        self._length = 0
        self._num_pending = 0

    @property
    def length(self) -> int:
        return self._length

    @property
    def capacity(self) -> int:
        return self.buffer.shape[2]

    def open(
        self, num_rows: int
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Per layer: where the pass writes (n, 2K, D), and what it then reads: keys
        (K, D, L + n), values and a column of ones (K, L + n, D + 1)."""
        end = self._length + num_rows
        if end > self.capacity:
            raise ValueError(f"the cache holds {self.capacity} rows; this pass needs {end}")
        self._num_pending = num_rows
        writes = self.buffer[:, :, self._length : end, :-1].transpose(1, 2)
        keys = self.buffer[:, : self.num_kv_heads, :end, :-1].transpose(2, 3)
        values = self.buffer[:, self.num_kv_heads :, :end]
        return writes.unbind(0), keys.unbind(0), values.unbind(0)

    def keep(self, rows: Sequence[int]) -> None:
        assert all(0 <= row < self._num_pending for row in rows), "rows of the last pass only"
        if list(rows) != list(range(len(rows))):  # a prefix of the pass already lies in place
            source = self._length + torch.tensor(rows)
            end = self._length + len(rows)
            self.buffer[:, :, self._length : end] = self.buffer[:, :, source]
        self._length += len(rows)
        self._num_pending = 0

    def crop(self, length: int) -> None:
        assert 0 <= length <= self._length, "a cache is cropped to what it holds"
        self._length = length
        self._num_pending = 0

    def clone(self) -> PackedCache:
        num_layers, _, capacity, width = self.buffer.shape
        other = PackedCache(num_layers, self.num_kv_heads, capacity, width - 1)
        other.buffer[:, :, : self._length] = self.buffer[:, :, : self._length]
        other._length = self._length
        return other
