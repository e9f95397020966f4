"""Keys and values of the plain path: one buffer of fixed size per layer, written in place.

transformers' own growing cache copies itself whole at every pass, and its fixed one has no way
to keep a path of a tree. This one adds a layer type to its documented cache container.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

# C = capacity in rows, L = committed rows, N = rows of the pass in flight.


class SlotLayer(CacheLayerMixin):  # type: ignore[misc]  # transformers is untyped here
    """One layer's buffers, (1, heads, C, head size) each; made when the first rows arrive."""

    is_sliding = False

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self.num_rows = 0  # rows written, those of a pass in flight included

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        def buffer(states: Tensor) -> Tensor:
            batch, heads, _, size = states.shape
            return states.new_empty(batch, heads, self.capacity, size)

        self.keys, self.values = buffer(key_states), buffer(value_states)
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append rows; (1, heads, L + N, head size) views of everything written so far."""
        del args, kwargs
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start, end = self.num_rows, self.num_rows + key_states.shape[-2]
        self.keys[..., start:end, :] = key_states
        self.values[..., start:end, :] = value_states
        self.num_rows = end
        return self.keys[..., :end, :], self.values[..., :end, :]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.num_rows + query_length, 0

    def get_seq_length(self) -> int:
        return self.num_rows

    def get_max_length(self) -> int:
        return self.capacity

    def gather(self, start: int, rows: Tensor) -> None:
        """Move the rows (counted from `start`) to `start`, in this order."""
        if self.is_initialized:
            for buffer in (self.keys, self.values):
                kept = buffer.index_select(-2, rows.to(buffer.device) + start)
                buffer[..., start : start + len(rows), :] = kept

    def copied(self, num_rows: int) -> SlotLayer:
        """An independent layer of the same capacity with the first rows of this one."""
        twin = SlotLayer(self.capacity)
        if self.is_initialized:
            twin.update(self.keys[..., :num_rows, :], self.values[..., :num_rows, :])
        return twin


class PlainCache:
    """`lm.base.KVCache` for `PlainLM`."""

    def __init__(self, num_layers: int, capacity: int) -> None:
        self.capacity = capacity
        self.layers = [SlotLayer(capacity) for _ in range(num_layers)]
        self.states = Cache(layers=self.layers)
        self._length = 0
        self._num_pending = 0

    @property
    def length(self) -> int:
        return self._length

    def begin_pass(self, num_rows: int) -> None:
        """Make room for the rows of a pass; rows of an earlier pass that were not kept are lost."""
        if self._length + num_rows > self.capacity:
            raise ValueError(
                f"The cache has room for {self.capacity} rows and holds {self._length}; a pass of "
                f"{num_rows} more does not fit. Ask for a larger cache or read fewer rows."
            )
        self._set_rows(self._length)
        self._num_pending = num_rows

    def keep(self, rows: Sequence[int]) -> None:
        if any(not 0 <= row < self._num_pending for row in rows):
            raise ValueError(
                f"rows {tuple(rows)} are not all of the last pass's {self._num_pending}"
            )
        if tuple(rows) != tuple(range(len(rows))):  # a leading run of rows is in place already
            index = torch.tensor(rows)
            for layer in self.layers:
                layer.gather(self._length, index)
        self._length += len(rows)
        self._num_pending = 0
        self._set_rows(self._length)

    def crop(self, length: int) -> None:
        if not 0 <= length <= self._length:
            raise ValueError(f"cannot crop {self._length} cached rows to {length}")
        self._length = length
        self._num_pending = 0
        self._set_rows(length)

    def clone(self) -> PlainCache:
        twin = PlainCache(len(self.layers), self.capacity)
        twin.layers[:] = [layer.copied(self._length) for layer in self.layers]
        twin.states = Cache(layers=twin.layers)
        twin._length = self._length
        return twin

    def _set_rows(self, num_rows: int) -> None:
        for layer in self.layers:
            layer.num_rows = num_rows
