"""Draft trees grown level by level, one pass of the drafter's network a level.

Static: rank paths fixed beforehand, likely ones first (Medusa, arXiv:2401.10774; EAGLE-1,
arXiv:2401.15077). Dynamic: the drafter's own confidence decides (EAGLE-2, arXiv:2406.16858).
What the network is made of, and its cache, are the drafter's own business.
"""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.drafters.base import GrownToken, Proposal
from specviz.lm.device import Stopwatch
from specviz.tree import DraftTree
from specviz.words import word

# n = nodes of a level whose children are wanted, Vd = draft vocabulary, k = children of each,
# m = rows of the tree read so far, those n included

BLOCK = 64  # guesses among which `likeliest` first looks for the largest
RankPath = tuple[int, ...]  # (0, 2): the third-best child of the best child of the root


class LevelReader(Protocol):
    """A drafter's network over one lane, read one level of a tree at a time."""

    ids: Tensor  # (Vd,) the target's ids of the draft vocabulary

    def first(self) -> Tensor:
        """(1, Vd) logits of the tokens that may follow the root."""

    def level(self, tokens: Tensor, parents: Tensor, visible: Tensor) -> Tensor:
        """(n, Vd) logits of what may follow the n `tokens` (target ids).

        parents (n,): each one's row in the call before this. visible (n, m) bool: which rows of
        the tree read so far, in the order they were read, are on its path, itself included.
        """


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


def grow_dynamic(
    reader: LevelReader, shape: DynamicShape, root: int, max_depth: int, watch: Stopwatch
) -> Proposal:
    """The `budget` - 1 likeliest of all nodes grown, where each level's `top_k` best got children.

    A node's score is the sum of log-probabilities along its path. FloatingPointError: the
    network's scores are no numbers.
    """
    num_levels = min(shape.depth, max_depth)
    if num_levels < 1:
        return nothing(root)
    log_probs, places = likeliest(reader.first(), shape.top_k)
    parents = torch.full_like(places[0], -1)
    pool = [_Level(reader.ids[places[0]], parents, log_probs[0], log_probs[0])]
    seconds = [watch.lap()]
    visible, start = torch.zeros(1, 0, dtype=torch.bool, device=places.device), 0
    for _ in range(1, num_levels):
        level, width = pool[-1], places.shape[1]
        frontier = _best(level.scores, shape.top_k)
        rows = frontier // width  # of the parents, in the pass that grew this level
        own = torch.eye(len(frontier), dtype=torch.bool, device=places.device)
        visible = torch.cat((visible[rows], own), dim=1)
        logits = reader.level(level.tokens[frontier], rows, visible)
        log_probs, places = likeliest(logits, shape.top_k)
        parents = (start + frontier).repeat_interleave(places.shape[1])
        scores = level.scores[frontier, None] + log_probs
        start += len(level.tokens)
        pool.append(
            _Level(reader.ids[places.flatten()], parents, log_probs.flatten(), scores.flatten())
        )
        seconds.append(watch.lap())
    return _reranked(pool, shape.budget - 1, root, seconds)


@dataclass(frozen=True, slots=True)
class _Level:
    """Nodes grown by one pass, siblings together, best first."""

    tokens: Tensor
    parents: Tensor  # among the nodes of all levels, in order; -1 under the root
    log_probs: Tensor
    scores: Tensor


def _reranked(pool: Sequence[_Level], count: int, root: int, seconds: Sequence[float]) -> Proposal:
    """Keep the `count` best. Equal scores: the earlier node, so that no child comes without its
    parent."""
    scores = torch.cat([level.scores for level in pool])
    kept: set[int] = set(_best(scores, count).tolist())
    tokens: list[int] = torch.cat([level.tokens for level in pool]).tolist()
    parents: list[int] = torch.cat([level.parents for level in pool]).tolist()
    log_probs: list[float] = torch.cat([level.log_probs for level in pool]).tolist()
    grown, rows = list[GrownToken](), {-1: 0}
    steps = [step for step, level in enumerate(pool) for _ in level.tokens]
    for node, (token, parent, score) in enumerate(
        zip(tokens, parents, scores.tolist(), strict=True)
    ):
        if node in kept:
            rows[node] = len(rows)
        grown.append(GrownToken(token, parent, steps[node] + 1, score, steps[node], node in kept))
    check_numbers(node.score for node in grown)
    order = sorted(kept)
    tree = DraftTree(
        (root, *(tokens[node] for node in order)),
        (-1, *(rows[parents[node]] for node in order)),
    )
    probs = (1.0, *(_prob(log_probs[node]) for node in order))
    return Proposal(tree, probs, candidates=tuple(grown), step_seconds=tuple(seconds))


@dataclass(frozen=True, slots=True)
class Node:
    """A row of a tree that gets children."""

    row: int
    ranks: RankPath
    tokens: tuple[int, ...]  # from below the root to itself
    score: float = 0.0  # log-probability of its path


class StaticTree:
    """Which ranks get children, decided before anything is read."""

    def __init__(self, paths: Iterable[RankPath]) -> None:
        """paths: closed under prefixes; siblings have the ranks 0, 1, 2, ... in any order."""
        found = set(paths)
        self.num_children: dict[RankPath, int] = {}
        for path in found:
            assert len(path) == 1 or path[:-1] in found, "a node comes with its parent"
            assert path[-1] == 0 or (*path[:-1], path[-1] - 1) in found, "ranks leave no gap"
            self.num_children[path[:-1]] = self.num_children.get(path[:-1], 0) + 1
        self.depth = max(map(len, found), default=0)

    def inner(self, depth: int) -> int:
        """Nodes at `depth` that get children."""
        return sum(len(path) == depth for path in self.num_children)


# (n, Vd) logits, the nodes they belong to, how many children each gets -> token and probability
# of each child, or of as many as there are
Choose = Callable[[Tensor, Sequence[Node], Sequence[int]], list[list[tuple[int, float]]]]


def best_ranked(ids: Tensor) -> Choose:
    """The likeliest tokens, by rank."""

    def choose(
        logits: Tensor, nodes: Sequence[Node], counts: Sequence[int]
    ) -> list[list[tuple[int, float]]]:
        del nodes
        log_probs, places = likeliest(logits, max(counts))
        found = zip(ids[places].tolist(), log_probs.tolist(), counts, strict=True)
        return [
            [(token, _prob(p)) for token, p in zip(tokens[:count], own[:count], strict=True)]
            for tokens, own, count in found
        ]

    return choose


@dataclass(frozen=True, slots=True)
class StaticGrowth:
    tree: DraftTree
    probs: tuple[float, ...]
    candidates: tuple[GrownToken, ...]
    seconds: tuple[float, ...]


def grow_static(
    reader: LevelReader,
    shape: StaticTree,
    choose: Choose,
    root: int,
    max_depth: int,
    watch: Stopwatch,
) -> StaticGrowth:
    """The nodes of `shape` down to `max_depth`, less those for which there was no token."""
    tokens, parents, probs = [root], [-1], [1.0]
    grown, seconds = list[GrownToken](), list[float]()
    level, parent_rows = [Node(0, (), ())], list[int]()
    visible = torch.zeros(1, 0, dtype=torch.bool)
    for step in range(min(shape.depth, max_depth)):
        if not level:
            break
        if step == 0:
            logits = reader.first()
        else:
            visible = torch.cat((visible[parent_rows], torch.eye(len(level)).bool()), dim=1)
            logits = _read(reader, level, parent_rows, visible)
        counts = [shape.num_children[node.ranks] for node in level]
        below, parent_rows = list[Node](), list[int]()
        for place, (node, chosen) in enumerate(
            zip(level, choose(logits, level, counts), strict=True)
        ):
            for rank, (token, prob) in enumerate(chosen):
                score = node.score + math.log(prob)
                child = Node(len(tokens), (*node.ranks, rank), (*node.tokens, token), score)
                grown.append(GrownToken(token, node.row - 1, step + 1, score, step, is_kept=True))
                tokens.append(token)
                parents.append(node.row)
                probs.append(prob)
                if child.ranks in shape.num_children:
                    below.append(child)
                    parent_rows.append(place)
        level = below
        seconds.append(watch.lap())
    check_numbers(node.score for node in grown)
    tree = DraftTree(tuple(tokens), tuple(parents))
    return StaticGrowth(tree, tuple(probs), tuple(grown), tuple(seconds))


def likeliest_paths(hit_rates: Sequence[Sequence[float]], count: int) -> list[RankPath]:
    """The `count` rank paths most likely to be right, best first: those of a static tree.

    hit_rates[depth][rank]: how often that guess is the target's token, no rank above the one
    before it. A path's chance is the product; none outdoes its own beginning or a better rank.
    """
    waiting: list[tuple[float, RankPath, float]] = [(-hit_rates[0][0], (0,), 1.0)]
    found = list[RankPath]()
    while waiting and len(found) < count:
        negative, path, before = heapq.heappop(waiting)  # before: the chance of its beginning
        found.append(path)
        depth, rank = len(path), path[-1]
        if depth < len(hit_rates):
            below = -negative * hit_rates[depth][0]
            heapq.heappush(waiting, (-below, (*path, 0), -negative))
        if rank + 1 < len(here := hit_rates[depth - 1]):
            beside = (*path[:-1], rank + 1)
            heapq.heappush(waiting, (-before * here[rank + 1], beside, before))
    return found


def check_numbers(scores: Iterable[float]) -> None:
    """FloatingPointError unless all are finite."""
    if not math.isfinite(sum(scores)):
        raise FloatingPointError(word("failure.draft_scores"))


def _read(
    reader: LevelReader, level: Sequence[Node], parent_rows: Sequence[int], visible: Tensor
) -> Tensor:
    device = reader.ids.device
    tokens = torch.tensor([node.tokens[-1] for node in level], device=device)
    return reader.level(
        tokens, torch.tensor(parent_rows, device=device), visible.to(device, copy=False)
    )


def _best(scores: Tensor, count: int) -> Tensor:
    """Places of the `count` largest, best first; the earlier of equals first."""
    return scores.sort(descending=True, stable=True).indices[:count]


def _prob(log_prob: float) -> float:
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
