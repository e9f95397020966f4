"""The rows of a lane in a network that goes on from the target's features (EAGLE, MTP): true ones
for all committed tokens, and behind them those of the tree in the making.

On a GPU a round's work is captured once and done again (`CapturedRows`): the rows of newly
committed tokens, and the growing of a whole tree, are one launch each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from specviz.drafters.growth import Work
from specviz.lm.attention import causal_rows
from specviz.lm.checkpoint_files import first_line
from specviz.lm.device import Laps, placed_on
from specviz.lm.draft_cache import FixedCache
from specviz.lm.graphs import Recorder, Staging

# T = committed tokens, n = rows of a pass, F = width of the target's features, H = hidden size,
# Vd = draft vocabulary

PREFILL_CHUNK = 256  # rows of a pass over the prompt
ROW_SIZES = (1, 2, 4, 8, 16)  # of a captured pass over newly committed tokens


class DraftNetwork(Protocol):
    """A trained network that reads (feature, next token) pairs."""

    layer: Any  # has `device`, `new_cache`; to be captured `fixed_cache`, `width` (H) and `dtype`
    ids: Tensor  # (Vd,) the target's ids of the draft vocabulary
    description: str

    def fused(self, features: Tensor) -> Tensor:
        """(n, H) the target's true features (n, F) in the form that `read` takes."""

    def read(
        self, tokens: Tensor, features: Tensor, depths: Tensor, visible: Tensor, cache: Any
    ) -> Tensor:
        """(n, H) guesses of the next features; the rows join the cache (see `DraftCache.attend`)."""

    def logits(self, hidden: Tensor) -> Tensor:
        """(n, Vd)"""


def rows_of(
    network: DraftNetwork, capacity: int, num_features: int, recorder: Recorder | None
) -> DraftRows:
    """num_features: F. recorder: what captures; None: nothing does."""
    if recorder is None or not hasattr(network.layer, "fixed_cache"):
        return DraftRows(network, network.layer.new_cache(capacity))
    # A pass over new tokens that just fits is filled up with rows behind them.
    cache = network.layer.fixed_cache(capacity + ROW_SIZES[-1])
    return CapturedRows(network, cache, num_features, recorder)


def called_rows(network: DraftNetwork, capacity: int, error: RuntimeError) -> DraftRows:
    """Instead of rows that a device has no kernels for: it said so in `error`."""
    rows = DraftRows(network, network.layer.new_cache(capacity))
    rows.why_called = first_line(error)
    return rows


class DraftRows:
    """`growth.LevelReader` of one lane."""

    why_called: str | None = None  # why what could have been captured is called instead

    def __init__(self, network: DraftNetwork, cache: Any) -> None:
        self.network, self.ids, self.cache = network, network.ids, cache
        self.device = network.layer.device
        self.laps = Laps(self.device)
        self.num_true = 0
        self.last = torch.empty(0)  # (1, H) output of the last true row
        self._outputs = torch.empty(0)
        self._depth = 0

    def catch_up(self, tokens: Sequence[int], features: Tensor) -> None:
        """Read the pairs not read so far: row i is feature i with token i + 1."""
        for start in range(self.num_true, len(tokens) - 1, PREFILL_CHUNK):
            end = min(start + PREFILL_CHUNK, len(tokens) - 1)
            self._read_true(tokens[start + 1 : end + 1], features[start:end])
            self.num_true = end
            self.forget()

    def first(self) -> Tensor:
        assert self.num_true, "there is a true row to go on from"
        self.forget()
        self._outputs, self._depth = self.last, 0
        return self.network.logits(self.last)

    def level(self, tokens: Tensor, parents: Tensor, visible: Tensor) -> Tensor:
        depths = torch.full_like(tokens, self._depth)
        self._outputs = self.network.read(
            tokens, self._outputs[parents], depths, visible, self.cache
        )
        self._depth += 1
        return self.network.logits(self._outputs)

    def result(self, num_levels: int, work: Work) -> Tensor:
        del num_levels
        return work()

    def forget(self) -> None:
        """All rows but the true ones."""
        self.cache.crop(self.num_true)

    def rehearse(self, grow: Callable[[], object]) -> None:
        """Do beforehand what would otherwise be a part of the first rounds."""

    def _read_true(self, tokens: Sequence[int], features: Tensor) -> None:
        self.last = self._true_rows(tokens, features)[-1:]

    def _true_rows(self, tokens: Sequence[int], features: Tensor) -> Tensor:
        return self._hidden(torch.tensor(tokens, device=self.device), features)

    def _hidden(self, tokens: Tensor, features: Tensor) -> Tensor:
        """(n, H) of (n,) tokens and (n, F) features that follow one another."""
        with placed_on(self.device):
            depths, visible = torch.arange(len(tokens)), causal_rows(len(tokens))
        fused = self.network.fused(features)
        return self.network.read(tokens, fused, depths, visible, self.cache)


class CapturedRows(DraftRows):
    """Rows in memory that stays where it is, read by work that is captured in `rehearse`."""

    def __init__(
        self, network: DraftNetwork, cache: FixedCache, num_features: int, recorder: Recorder
    ) -> None:
        super().__init__(network, cache)
        kind: dict[str, Any] = {"dtype": network.layer.dtype, "device": self.device}
        self.last = torch.zeros(1, network.layer.width, **kind)
        self._features = torch.zeros(ROW_SIZES[-1], num_features, **kind)
        self._numbers = Staging(ROW_SIZES[-1] + 1, self.device)  # tokens, and how many are true
        self._recorder = recorder
        self._is_rehearsal = False
        self._passes: dict[int, Callable[[], Tensor]] = {}  # over new tokens, by number of rows
        self._trees: dict[int, Callable[[], Tensor]] = {}  # by number of levels

    def result(self, num_levels: int, work: Work) -> Tensor:
        if self._is_rehearsal:
            self._trees[num_levels] = self._recorder.record(work)
        return self._trees.get(num_levels, work)()

    def rehearse(self, grow: Callable[[], object]) -> None:
        """Capture passes over the new tokens of a round, however many, and a whole tree."""
        last = self.last.clone()  # which passes overwrite
        self.laps.start()
        self._is_rehearsal = True
        try:
            for size in ROW_SIZES:
                self._send((0,), size)
                self._passes[size] = self._recorder.record(partial(self._new_rows, size))
                self.forget()
            self.last.copy_(last)
            grow()
        except RuntimeError as error:  # what cannot be captured says so in many ways
            self.why_called = first_line(error)
            self._passes.clear()
            self._trees.clear()
        except FloatingPointError:
            pass  # the first round will say so
        self._is_rehearsal = False
        self.last.copy_(last)
        self.forget()

    def _read_true(self, tokens: Sequence[int], features: Tensor) -> None:
        size = next((size for size in self._passes if size >= len(tokens)), None)
        if size is None:
            self.last.copy_(self._true_rows(tokens, features)[-1:])
        else:
            self._send(tokens, size)
            self._features[: len(tokens)].copy_(features)
            self._passes[size]()

    def _send(self, tokens: Sequence[int], size: int) -> None:
        spare = [0] * (size - len(tokens))
        self._numbers.send([*tokens, *spare, len(tokens)])

    def _new_rows(self, size: int) -> Tensor:
        """(1, H) `last`, after a pass of so many rows, spare ones behind the true."""
        self.forget()  # who captures calls this more than once
        tokens, count = self._numbers.tensor[:size], self._numbers.tensor[size : size + 1]
        hidden = self._hidden(tokens, self._features[:size])
        return self.last.copy_(hidden.index_select(0, count - 1))
