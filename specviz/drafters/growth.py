"""Draft trees grown level by level, one pass of the drafter's network a level.

Here the drafter's own confidence decides what grows (EAGLE-2, arXiv:2406.16858); trees of a fixed
shape are `static_growth`. What the network is made of, and its cache, are the drafter's business.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.drafters.base import GrownToken, Proposal
from specviz.lm.device import Laps
from specviz.tree import DraftTree
from specviz.words import word

# n = nodes of a level whose children are wanted, Vd = draft vocabulary, k = children of each,
# m = rows of the tree read so far, those n included

BLOCK = 64  # guesses among which `likeliest` first looks for the largest
Work = Callable[[], Tensor]


class LevelReader(Protocol):
    """A drafter's network over one lane, read one level of a tree at a time."""

    ids: Tensor  # (Vd,) the target's ids of the draft vocabulary
    laps: Laps  # started by who asks for a tree; marked behind each level

    def first(self) -> Tensor:
        """(1, Vd) logits of the tokens that may follow the root. What was read of a tree is forgotten."""

    def level(self, tokens: Tensor, parents: Tensor, visible: Tensor) -> Tensor:
        """(n, Vd) logits of what may follow the n `tokens` (target ids).

        parents (n,): each one's row in the call before this. visible (n, m) bool: which rows of
        the tree read so far, in the order they were read, are on its path, itself included.
        """

    def result(self, num_levels: int, work: Work) -> Tensor:
        """What `work` returns, which grows so many levels of this reader's one tree: the work may
        have been captured, and is then done again without Python."""


@dataclass(frozen=True, slots=True)
class DynamicShape:
    top_k: int  # children of a node, and nodes of a level that get children
    depth: int  # levels
    budget: int  # rows the target reads, root included


def nothing(root: int) -> Proposal:
    return Proposal(DraftTree.chain(root), (1.0,))


def likeliest(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """(n, k) log-probabilities and places of the `count` likeliest of (n, Vd) `logits`, best first.

    k is less than `count` if there are fewer. float32, and never above 0: a rounded-up child
    would outdo its parent.
    """
    scores = logits.float()
    total = scores.logsumexp(-1, keepdim=True)
    values, places = _top(scores, min(count, scores.shape[-1]))
    return (values - total).clamp_max_(0.0), places


def grow_dynamic(reader: LevelReader, shape: DynamicShape, root: int, max_depth: int) -> Proposal:
    """The `budget` - 1 likeliest of all nodes grown, where each level's `top_k` best got children.

    A node's score is the sum of log-probabilities along its path. FloatingPointError: the
    network's scores are no numbers.
    """
    num_levels = min(shape.depth, max_depth)
    if num_levels < 1:
        return nothing(root)
    pool = reader.result(num_levels, lambda: _pool(reader, shape.top_k, num_levels))
    grown = _Pool.of(pool)  # here the device is waited for
    return _reranked(grown, shape.budget - 1, root, reader.laps.seconds(num_levels))


def _pool(reader: LevelReader, top_k: int, num_levels: int) -> Tensor:
    """(4, nodes) float64: token, parent among the nodes (-1 under the root), log-probability and
    score of all nodes, level by level, siblings together, best first."""
    reader.laps.resume()
    log_probs, places = likeliest(reader.first(), top_k)
    parents = torch.full_like(places[0], -1)
    pool = [_Level(reader.ids[places[0]], parents, log_probs[0], log_probs[0])]
    reader.laps.mark()
    visible, start = torch.zeros(1, 0, dtype=torch.bool, device=places.device), 0
    for _ in range(1, num_levels):
        level, width = pool[-1], places.shape[1]
        frontier = _best(level.scores, top_k)
        rows = frontier // width  # of the parents, in the pass that grew this level
        own = torch.eye(len(frontier), dtype=torch.bool, device=places.device)
        visible = torch.cat((visible[rows], own), dim=1)
        logits = reader.level(level.tokens[frontier], rows, visible)
        log_probs, places = likeliest(logits, top_k)
        parents = (start + frontier).repeat_interleave(places.shape[1])
        scores = level.scores[frontier, None] + log_probs
        start += len(level.tokens)
        pool.append(
            _Level(reader.ids[places.flatten()], parents, log_probs.flatten(), scores.flatten())
        )
        reader.laps.mark()
    return torch.cat([level.numbers for level in pool], dim=1)


@dataclass(frozen=True, slots=True)
class _Level:
    """Nodes grown by one pass, on the device."""

    tokens: Tensor
    parents: Tensor
    log_probs: Tensor
    scores: Tensor

    @property
    def numbers(self) -> Tensor:
        """(4, nodes) float64, which holds ids and places as they are: one tensor to wait for."""
        columns = (self.tokens, self.parents, self.log_probs, self.scores)
        return torch.stack([column.double() for column in columns])


@dataclass(frozen=True, slots=True)
class _Pool:
    """Nodes of all levels, here."""

    tokens: list[int]
    parents: list[int]
    log_probs: list[float]
    scores: list[float]

    @classmethod
    def of(cls, numbers: Tensor) -> _Pool:
        tokens, parents, log_probs, scores = numbers.tolist()
        return cls(list(map(int, tokens)), list(map(int, parents)), log_probs, scores)


def _reranked(pool: _Pool, count: int, root: int, seconds: tuple[float, ...]) -> Proposal:
    """Keep the `count` best. Equal scores: the earlier node, so that no child comes without its
    parent."""
    check_numbers(pool.scores)
    order = sorted(range(len(pool.scores)), key=lambda node: -pool.scores[node])[:count]
    kept, grown, depths = sorted(order), list[GrownToken](), list[int]()
    rows = {-1: 0} | {node: row for row, node in enumerate(kept, start=1)}
    for node, (token, parent) in enumerate(zip(pool.tokens, pool.parents, strict=True)):
        depths.append(1 if parent < 0 else depths[parent] + 1)
        score = pool.scores[node]
        grown.append(GrownToken(token, parent, depths[node], score, depths[node] - 1, node in rows))
    tree = DraftTree(
        (root, *(pool.tokens[node] for node in kept)),
        (-1, *(rows[pool.parents[node]] for node in kept)),
    )
    probs = (1.0, *(prob_of(pool.log_probs[node]) for node in kept))
    return Proposal(tree, probs, candidates=tuple(grown), step_seconds=seconds)


def check_numbers(scores: Iterable[float]) -> None:
    """FloatingPointError unless all are finite."""
    if not math.isfinite(sum(scores)):
        raise FloatingPointError(word("failure.draft_scores"))


def _best(scores: Tensor, count: int) -> Tensor:
    """Places of the `count` largest, best first; the earlier of equals first."""
    return scores.sort(descending=True, stable=True).indices[:count]


def prob_of(log_prob: float) -> float:
    """e^x, never 0: a token that was drafted had a chance."""
    return max(math.exp(log_prob), sys.float_info.min)


def _top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """topk over (n, Vd). The `count` largest lie in the `count` blocks with the largest maxima, and
    a maximum is much cheaper than a rank."""
    num_rows, width = scores.shape
    if width <= 2 * count * BLOCK:
        best = scores.topk(count)
        return best.values, best.indices
    if width % BLOCK:
        scores = F.pad(scores, (0, -width % BLOCK), value=-torch.inf)
    blocks = scores.view(num_rows, -1, BLOCK)
    likely = blocks.amax(-1).topk(count).indices
    inside = blocks.gather(1, likely[:, :, None].expand(-1, -1, BLOCK)).flatten(1).topk(count)
    block, offset = inside.indices // BLOCK, inside.indices % BLOCK
    return inside.values, likely.gather(1, block) * BLOCK + offset
