"""The rows of a draft tree in a language model of its own, which reads them one level at a time.

A model keeps rows of committed text alone, so each level reads the tree so far once more behind
it: few rows of a small model, which cost little more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from specviz.drafters.growth import Work
from specviz.lm.base import KVCache, LanguageModel
from specviz.lm.device import Laps
from specviz.tree import DraftTree

# n = nodes of a level whose children are wanted, Vd = draft vocabulary

Readable = Callable[[Sequence[int]], list[int]]  # target ids to those that the model has rows for


class LmRows:
    """`growth.LevelReader` of one round."""

    def __init__(
        self,
        lm: LanguageModel,
        cache: KVCache,
        ids: Tensor,
        unread: Sequence[int],
        readable: Readable,
    ) -> None:
        """ids (Vd,): the target's, of the first Vd logits. unread: committed tokens behind the
        cache, the root last."""
        self.ids, self.laps = ids.to(lm.device), Laps(lm.device)
        self._lm, self._cache, self._unread, self._readable = lm, cache, unread, readable
        self._tokens, self._parents = [unread[-1]], [-1]
        self._num_above = 0  # rows before those of the last level

    def first(self) -> Tensor:
        """(1, Vd). Committed tokens but the root join the cache."""
        tokens = self._readable(self._unread)
        logits = self._lm.read(DraftTree.chain(tokens[0], tokens[1:]), self._cache).logits[-1:]
        self._cache.keep(range(len(tokens) - 1))
        self._tokens, self._parents, self._num_above = self._tokens[:1], [-1], 0
        return logits[:, : len(self.ids)]

    def level(self, tokens: Tensor, parents: Tensor, visible: Tensor) -> Tensor:
        del visible  # the tree's parents tell it
        start, above = len(self._tokens), self._num_above
        self._tokens += tokens.tolist()
        self._parents += [above + parent for parent in parents.tolist()]
        self._num_above = start
        tree = DraftTree(tuple(self._readable(self._tokens)), tuple(self._parents))
        return self._lm.read(tree, self._cache).logits[start:, : len(self.ids)]

    def result(self, num_levels: int, work: Work) -> Tensor:
        del num_levels
        return work()
