"""Where the rows of a drafter's layer keep their keys and values, and how they attend to them.

`GrowingCache` is made for a CPU. `FixedCache` stays where it is and counts its committed rows in a
tensor, so that work over it can be captured (`graphs`) and done again behind more of them.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from specviz.lm.attention import additive_mask, hidden_score
from specviz.lm.device import placed_on
from specviz.lm.packed_attention import Attention, HeadShape, Rotation
from specviz.lm.packed_cache import PackedCache
from specviz.lm.split_attention import PART_KEYS, attend

# n = rows of a pass, m = keys that `visible` speaks of, C = rows there is room for, D = head size,
# Q and K = query and key heads


class DraftCache(Protocol):
    @property
    def length(self) -> int: ...

    def crop(self, length: int) -> None:
        """Forget all rows behind the first so many."""

    def positions(self, depths: Tensor, visible: Tensor) -> Tensor:
        """(n,) in the text, of rows that are about to be read."""

    def attend(self, fused: Tensor, depths: Tensor, visible: Tensor) -> Tensor:
        """(n, Q D) of fused queries, keys and values (n, (Q + 2K) D); the rows join the cache.

        visible (n, m) bool speaks of the last m keys: the n new rows, and before them the m - n
        cached rows that not every row may see, as those of a tree's earlier levels. All other
        cached rows are seen. depths (n,) counts positions from the first of those m keys.
        ValueError: there is no room for them.
        """


class GrowingCache:
    """Reads just the rows there are, in float32."""

    def __init__(
        self,
        shape: HeadShape,
        rope: Rotation,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.shape, self.rope, self.dtype, self.device = shape, rope, dtype, device
        with placed_on(device):
            self._rows = PackedCache(1, shape.num_kv_heads, capacity, shape.head_size)

    @property
    def length(self) -> int:
        return self._rows.length

    def crop(self, length: int) -> None:
        self._rows.crop(length)

    def positions(self, depths: Tensor, visible: Tensor) -> Tensor:
        return depths + (self.length + len(depths) - visible.shape[1])

    def attend(self, fused: Tensor, depths: Tensor, visible: Tensor) -> Tensor:
        num_rows, num_seen = len(fused), self.length + len(fused) - visible.shape[1]
        writes, keys, values = self._rows.open(num_rows)
        with placed_on(self.device):
            mask = additive_mask(visible, num_seen, dtype=torch.float32, device=self.device)
            factors = self.rope.at(self.positions(depths, visible), self.length + num_rows)
            attention = Attention(self.shape, factors, mask[0, 0], dtype=self.dtype)
        attended = attention.attend(fused, writes[0], keys[0], values[0])
        self._rows.keep(range(num_rows))
        return attended


class FixedCache:
    """Reads all the rows it has room for, most of them under a mask.

    `crop` says in a tensor where the next pass goes: work that was captured over this cache goes
    there too when it is done again, although what Python counts of it stands still then.
    """

    def __init__(
        self,
        shape: HeadShape,
        rope: Rotation,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.shape, self.dtype, self.device = shape, dtype, device
        # Keys that can be cut into parts of equal size are read in parallel.
        self.capacity = -(-capacity // (4 * PART_KEYS)) * 4 * PART_KEYS
        size = (2 * shape.num_kv_heads, self.capacity, shape.head_size)
        # Zeros, because what was never written is read under a mask, and 0 times NaN is no 0.
        self._rows = torch.zeros(size, dtype=dtype, device=device)  # keys first, then values
        self._speeds, self._scaling = rope.inverse_frequencies.to(device), rope.scaling
        self._places = torch.arange(self.capacity, device=device)
        self._committed = torch.zeros(1, dtype=torch.long, device=device)
        self._num_committed = 0  # the same, here
        self._num_behind = 0

    @property
    def length(self) -> int:
        return self._num_committed + self._num_behind

    def crop(self, length: int) -> None:
        assert 0 <= length <= self.capacity, "there is room for that"
        self._num_behind = 0
        if length != self._num_committed:  # captured work crops to what was committed then
            self._num_committed = length
            self._committed.fill_(length)

    def positions(self, depths: Tensor, visible: Tensor) -> Tensor:
        del visible  # it speaks of all rows behind the committed ones
        return depths + self._committed

    def attend(self, fused: Tensor, depths: Tensor, visible: Tensor) -> Tensor:
        num_rows, num_told = visible.shape
        assert self._num_behind + num_rows == num_told, "`visible` speaks of all uncommitted rows"
        if self.length + num_rows > self.capacity:
            raise ValueError(
                f"the cache holds {self.capacity} rows; this pass needs {self.length + num_rows}"
            )
        num_turned, size = (
            self.shape.num_query_heads + self.shape.num_kv_heads,
            self.shape.head_size,
        )
        heads = fused.view(num_rows, self.shape.num_heads, size)
        turned = self._turned(heads[:, :num_turned], self.positions(depths, visible))
        new = torch.cat((turned[:, self.shape.num_query_heads :], heads[:, num_turned:]), dim=1)
        places = self._committed + self._places[self._num_behind : num_told]
        self._rows.index_copy_(1, places, new.transpose(0, 1).to(self.dtype))
        keys, values = self._rows.chunk(2)
        queries = turned[:, : self.shape.num_query_heads].to(self.dtype)
        self._num_behind = num_told
        return attend(queries, keys, values, self._mask(visible).repeat(self.shape.group, 1))

    def _turned(self, heads: Tensor, positions: Tensor) -> Tensor:
        """(n, heads, D) float32, by rotary position embedding (arXiv:2104.09864); dimensions come
        interleaved (see `Rotation`)."""
        angles = positions[:, None].float() * self._speeds
        factors = torch.polar(torch.full_like(angles, self._scaling), angles)
        pairs = torch.view_as_complex(heads.float().reshape(*heads.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * factors[:, None]).flatten(-2)

    def _mask(self, visible: Tensor) -> Tensor:
        """(n, C) additive."""
        behind = self._places - self._committed
        is_told = (behind >= 0) & (behind < visible.shape[1])
        is_seen = visible[:, behind.clamp(0, visible.shape[1] - 1)]
        mask = torch.zeros(is_seen.shape, dtype=self.dtype, device=self.device)
        return mask.masked_fill_(~((behind < 0) | (is_told & is_seen)), hidden_score(self.dtype))
