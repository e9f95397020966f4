"""Keys and values for passes of fixed shape: one slot per model, and caches that take turns in it.

A CUDA graph reads and writes the memory it was captured with. So the passes of a model all work
in its one slot, and a cache whose turn it is moves in: its rows are copied there, and the rows it
gained are copied home when another cache needs the slot. Within a lane nothing is ever copied but
the rows of an accepted path, in place.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.lm.graphs import Staging

# K = key heads, D = head size, C = rows the slot has room for, L = committed rows


@dataclass(frozen=True, slots=True)
class CacheShape:
    num_layers: int
    num_kv_heads: int
    head_size: int
    dtype: torch.dtype
    device: torch.device

    def buffer(self, capacity: int) -> Tensor:
        """(layers, 2 K, C, D) zeros: keys in the first K heads, values in the rest. Zeros, because
        what was never written is read under a mask, and 0 times NaN is no 0."""
        size = (self.num_layers, 2 * self.num_kv_heads, capacity, self.head_size)
        return torch.zeros(size, dtype=self.dtype, device=self.device)


class Slot:
    """Where all passes of one model find keys and values."""

    def __init__(self, shape: CacheShape, max_path: int) -> None:
        """max_path: rows of a pass that may be kept out of their order."""
        self.shape = shape
        self.rows = shape.buffer(0)
        self.num_used = 0  # rows that may hold anything but zeros
        self._sources = Staging(max_path, shape.device)
        self._tenant: weakref.ref[StaticCache] | None = None

    @property
    def capacity(self) -> int:
        return self.rows.shape[2]

    def reserve(self, capacity: int) -> bool:
        """Room for so many rows; True if the buffer is another one now. Its tenant moves out."""
        if capacity <= self.capacity:
            return False
        self.vacate()
        self.rows = self.shape.buffer(capacity)
        self.num_used = 0
        return True

    def is_home_of(self, cache: StaticCache) -> bool:
        return self._tenant is not None and self._tenant() is cache

    def seat(self, cache: StaticCache) -> None:
        """Let a cache in, and whoever else is there out."""
        if self.is_home_of(cache):
            return
        self.vacate()
        count = cache.num_rows
        self.rows[:, :, :count] = cache.home[:, :, :count]
        self.rows[:, :, count : self.num_used] = 0.0  # another lane's NaN must not reach this one
        self.num_used = count
        self._tenant = weakref.ref(cache)

    def vacate(self) -> None:
        tenant = None if self._tenant is None else self._tenant()
        if tenant is not None:
            tenant.save()
        self._tenant = None

    def moved(self, rows: Tensor, start: int, sources: Sequence[int]) -> None:
        """In (layers, 2 K, C, D): rows counted from `start` to `start`, in this order."""
        index = self._sources.send([start + row for row in sources])
        rows[:, :, start : start + len(sources)] = rows.index_select(2, index)


class StaticCache:
    """`lm.base.KVCache` of a model whose passes have fixed shapes."""

    def __init__(self, slot: Slot, capacity: int) -> None:
        self.slot, self.capacity = slot, capacity
        self.home = slot.shape.buffer(capacity)
        self._length = 0
        self._num_pending = 0
        self._num_saved = 0  # rows at home that are the ones in the slot

    @property
    def length(self) -> int:
        return self._length

    @property
    def num_rows(self) -> int:
        """Committed rows and those of a pass that may still be kept."""
        return self._length + self._num_pending

    def begin_pass(self, num_rows: int, num_written: int) -> None:
        """Move in, with room for a pass; rows of an earlier pass that were not kept are lost.

        num_written: rows the pass writes, those that only fill it up included.
        """
        if self._length + num_rows > self.capacity:
            raise ValueError(
                f"The cache has room for {self.capacity} rows and holds {self._length}; a pass of "
                f"{num_rows} more does not fit. Ask for a larger cache or read fewer rows."
            )
        self._num_pending = 0
        self.slot.seat(self)
        self._num_pending = num_rows
        self.slot.num_used = max(self.slot.num_used, self._length + num_written)

    @torch.inference_mode()
    def keep(self, rows: Sequence[int]) -> None:
        if any(not 0 <= row < self._num_pending for row in rows):
            raise ValueError(
                f"rows {tuple(rows)} are not all of the last pass's {self._num_pending}"
            )
        if tuple(rows) != tuple(range(len(rows))):  # a leading run of rows is in place already
            buffer = self.slot.rows if self.slot.is_home_of(self) else self.home
            self.slot.moved(buffer, self._length, rows)
        self._length += len(rows)
        self._num_pending = 0

    def crop(self, length: int) -> None:
        if not 0 <= length <= self._length:
            raise ValueError(f"cannot crop {self._length} cached rows to {length}")
        self._length = length
        self._num_pending = 0
        self._num_saved = min(self._num_saved, length)

    @torch.inference_mode()
    def clone(self) -> StaticCache:
        self.save()
        twin = StaticCache(self.slot, self.capacity)
        twin.home[:, :, : self._length] = self.home[:, :, : self._length]
        twin._length = twin._num_saved = self._length
        return twin

    @torch.inference_mode()
    def save(self) -> None:
        """Bring home what the slot holds of this cache."""
        if not self.slot.is_home_of(self):
            return
        fresh = slice(self._num_saved, self.num_rows)
        self.home[:, :, fresh] = self.slot.rows[:, :, fresh]
        self._num_saved = self._length
