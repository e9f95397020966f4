"""Reads of fixed shape: rows and keys are filled up to a few sizes, so that a pass can be captured.

The third implementation behind `lm.base.LanguageModel`, made for CUDA graphs; `plain` is what it is
built on and compared with. A pass over n rows is the next larger pass of `ROW_SIZES`, whose spare
rows see only what all rows see and are never kept, over the next larger number of keys, most of them
masked. All passes work in the model's one slot (`static_cache`). On a CPU the same passes are called
instead of captured, which is how they are tested.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specviz.lm.attention import (
    additive_mask,
    causal_rows,
    mask_of_sights,
    sights,
    visible_rows,
)
from specviz.lm.base import FeatureTap, KVCache, LMOutput
from specviz.lm.graphs import Recorder, Staging
from specviz.lm.lean import Step
from specviz.lm.plain import PREFILL_ROWS, PlainLM
from specviz.lm.static_cache import CacheShape, Slot, StaticCache
from specviz.tree import DraftTree

# N = rows of a tree, B = rows of the pass that reads it, M = keys of the pass, F = tapped width

ROW_SIZES = (1, 2, 4, 8, 16, 32, 64)
LEAST_KEYS = 256
MAX_ROWS = ROW_SIZES[-1]  # a larger tree is read by a pass of its own size, not captured
Taps = tuple[FeatureTap, ...]
Read = tuple[Tensor, Tensor | None]  # states after the final norm (B, H), features (B, F)


class Body(Protocol):
    """A decoder from tokens to the states after its final norm."""

    def hidden(self, step: Step, taps: Sequence[FeatureTap]) -> Read: ...


@dataclass(frozen=True, slots=True)
class _Size:
    num_rows: int  # B
    num_keys: int  # M
    taps: Taps


class StaticLM:
    """`LanguageModel` over the weights of a plain one."""

    def __init__(
        self, plain: PlainLM, body: Body, shape: CacheShape, recorder: Recorder, path: str
    ) -> None:
        self.plain, self.body, self.path = plain, body, path
        self.vocab_size, self.hidden_size = plain.vocab_size, plain.hidden_size
        self.num_layers, self.num_parameters = plain.num_layers, plain.num_parameters
        self.max_context = plain.max_context
        self.device, self.dtype = plain.device, plain.dtype
        self.embed, self.head = plain.embed, plain.head
        self._slot = Slot(shape, PREFILL_ROWS)
        self._recorder = recorder
        # tokens, depths and sights of the rows, and the number of cached rows
        self._numbers = Staging(3 * MAX_ROWS + 1, self.device)
        self._passes: dict[_Size, Callable[[], Read]] = {}

    def new_cache(self, capacity: int) -> StaticCache:
        # A tree that just fits is filled up with rows behind it.
        if self._slot.reserve(keys_for(capacity + MAX_ROWS)):
            self._passes.clear()  # they know the old buffer
        return StaticCache(self._slot, capacity)

    @torch.inference_mode()
    def settle(self, cache: KVCache, taps: Sequence[FeatureTap] = ()) -> None:
        assert isinstance(cache, StaticCache), "a cache made by this model's new_cache"
        for num_rows in ROW_SIZES:
            cache.begin_pass(0, num_rows)
            self._pass(num_rows, cache.length, tuple(taps))

    @torch.inference_mode()
    def prefill(
        self, tokens: Sequence[int], cache: KVCache, taps: Sequence[FeatureTap] = ()
    ) -> Tensor | None:
        parts = []
        for start in range(0, len(tokens), PREFILL_ROWS):
            chunk = tokens[start : start + PREFILL_ROWS]
            parts.append(
                self._loose(chunk, range(len(chunk)), causal_rows(len(chunk)), cache, taps)
            )
            cache.keep(range(len(chunk)))
        if not taps:
            return None
        nothing = torch.empty(0, self.hidden_size * len(taps), dtype=self.dtype, device=self.device)
        return torch.cat([nothing, *(features for _, features in parts if features is not None)])

    @torch.inference_mode()
    def read(self, tree: DraftTree, cache: KVCache, taps: Sequence[FeatureTap] = ()) -> LMOutput:
        if len(tree) > MAX_ROWS:
            rows = visible_rows(tree)
            hidden, features = self._loose(tree.tokens, tree.depths, rows, cache, taps)
            return LMOutput(self.head(hidden), features)
        assert isinstance(cache, StaticCache), "a cache made by this model's new_cache"
        num_rows = next(size for size in ROW_SIZES if size >= len(tree))
        cache.begin_pass(len(tree), num_rows)
        replay = self._pass(num_rows, cache.length, tuple(taps))
        self._numbers.send(numbers_of(tree, num_rows, cache.length))
        hidden, features = replay()
        # The next replay overwrites what this one returned.
        kept = None if features is None else features[: len(tree)].clone()
        return LMOutput(self.head(hidden[: len(tree)]), kept)

    def _pass(self, num_rows: int, length: int, taps: Taps) -> Callable[[], Read]:
        """The pass of this size, captured now if it is new."""
        size = _Size(num_rows, keys_for(length + num_rows), taps)
        if size not in self._passes:
            check_taps(taps, self.num_layers)
            self._write_harmlessly(num_rows, length)
            self._passes[size] = self._recorder.record(lambda: self._work(size))
        return self._passes[size]

    def _write_harmlessly(self, num_rows: int, length: int) -> None:
        """Capturing runs the pass: let it write behind what is cached, where nothing is kept."""
        alone = DraftTree.chain(0)
        self._numbers.send(numbers_of(alone, num_rows, length))

    def _work(self, size: _Size) -> Read:
        count = size.num_rows
        tokens, depths, bits = self._numbers.tensor[: 3 * count].view(3, count)
        length = self._numbers.tensor[3 * count]
        step = Step(
            tokens=tokens,
            positions=depths + length,
            places=torch.arange(count, device=self.device) + length,
            mask=mask_of_sights(bits, length, size.num_keys, self.dtype),
            slot=self._slot.rows,
        )
        return self.body.hidden(step, size.taps)

    def _loose(
        self,
        tokens: Sequence[int],
        depths: Sequence[int],
        visible: Tensor,
        cache: KVCache,
        taps: Sequence[FeatureTap],
    ) -> Read:
        """A pass of just this size, called and not captured."""
        assert isinstance(cache, StaticCache), "a cache made by this model's new_cache"
        check_taps(taps, self.num_layers)
        count, length = len(tokens), cache.length
        cache.begin_pass(count, count)
        mask = additive_mask(visible, length, dtype=self.dtype, device=self.device)
        step = Step(
            tokens=torch.tensor(tokens, dtype=torch.long, device=self.device),
            positions=torch.tensor(depths, dtype=torch.long, device=self.device) + length,
            places=torch.arange(length, length + count, device=self.device),
            mask=mask[0, 0],
            slot=self._slot.rows,
        )
        return self.body.hidden(step, taps)


def keys_for(count: int) -> int:
    """M: so many keys, or as many as the next larger captured pass reads: 256, 384, 512, 768, ..."""
    size = LEAST_KEYS
    while size < count:
        size *= 2
    return size * 3 // 4 if LEAST_KEYS < count <= size * 3 // 4 else size


def numbers_of(tree: DraftTree, num_rows: int, length: int) -> list[int]:
    """What a pass of `num_rows` rows is sent for a tree of as many or fewer. Spare rows repeat the
    root's place and see what it sees; their token is any, for nobody looks at them."""
    num_spare = num_rows - len(tree)
    nothing, root = [0] * num_spare, [1] * num_spare
    return [*tree.tokens, *nothing, *tree.depths, *nothing, *sights(tree), *root, length]


def check_taps(taps: Sequence[FeatureTap], num_layers: int) -> None:
    """ValueError: there is no such layer."""
    for tap in taps:
        if tap.side != "normed" and not 0 <= tap.layer < num_layers:
            raise ValueError(
                f"This model has layers 0 to {num_layers - 1}; layer {tap.layer} was asked for."
            )
