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
from specviz.lm.device import Laps
from specviz.tree import DraftTree
from specviz.words import word

# n = nodes of a level whose children are wanted, Vd = draft vocabulary, k = children of each,
# m = rows of the tree read so far, those n included

BLOCK = 64  # guesses among which `likeliest` first looks for the largest
Work = Callable[[], Tensor]
RankPath = tuple[int, ...]  # (0, 2): the third-best child of the best child of the root


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
    probs = (1.0, *(_prob(pool.log_probs[node]) for node in kept))
    return Proposal(tree, probs, candidates=tuple(grown), step_seconds=seconds)


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
        self.paths = set(paths)
        self.num_children: dict[RankPath, int] = {}
        for path in self.paths:
            assert len(path) == 1 or path[:-1] in self.paths, "a node comes with its parent"
            assert path[-1] == 0 or (*path[:-1], path[-1] - 1) in self.paths, "ranks leave no gap"
            self.num_children[path[:-1]] = self.num_children.get(path[:-1], 0) + 1
        self.depth = max(map(len, self.paths), default=0)

    def inner(self, depth: int) -> int:
        """Nodes at `depth` that get children."""
        return sum(len(path) == depth for path in self.num_children)


class RankedTree:
    """A static tree of likeliest tokens, as rows and as what a device needs to find them."""

    def __init__(self, shape: StaticTree, ids: Tensor) -> None:
        """ids (Vd,): of the draft vocabulary. A rank that it does not have is left out."""
        paths = [path for path in shape.paths if max(path) < len(ids)]
        self.paths = sorted(paths, key=lambda path: (len(path), path))
        rows = {(): 0} | {path: row for row, path in enumerate(self.paths, start=1)}
        self.parents = [rows[path[:-1]] for path in self.paths]
        inner = {path[:-1] for path in self.paths}
        self.levels = list[_Ranks]()
        level: list[RankPath] = [()]
        while level:
            places = {path: place for place, path in enumerate(level)}
            below = [path for path in self.paths if path[:-1] in places]
            read = [(i, path) for i, path in enumerate(below) if path in inner]
            numbers = (
                [places[path[:-1]] for path in below],
                [path[-1] for path in below],
                [i for i, _ in read],
                [places[path[:-1]] for _, path in read],
            )
            on_device = [torch.tensor(n, dtype=torch.long, device=ids.device) for n in numbers]
            self.levels.append(_Ranks(1 + max(numbers[1], default=0), *on_device))
            level = [path for _, path in read]


@dataclass(frozen=True, slots=True)
class _Ranks:
    """One level: its nodes that get children are its places."""

    num_ranks: int  # of any parent
    places: Tensor  # (c,) of each child's parent
    ranks: Tensor  # (c,) of each child among its siblings
    inner: Tensor  # (n,) children that get children
    parents: Tensor  # (n,) the places of their parents


def grow_ranked(reader: LevelReader, shape: RankedTree, root: int, max_depth: int) -> Proposal:
    """The likeliest tokens in the shape of the tree, down to `max_depth`. FloatingPointError: the
    network's scores are no numbers."""
    levels = shape.levels[: max(max_depth, 0)]
    if not levels:
        return nothing(root)
    numbers = reader.result(len(levels), lambda: _ranked(reader, levels))
    tokens, log_probs = numbers.tolist()  # here the device is waited for
    parents, grown = shape.parents[: len(tokens)], list[GrownToken]()
    for path, parent, token, log_prob in zip(
        shape.paths, parents, map(int, tokens), log_probs, strict=False
    ):
        score = log_prob + (grown[parent - 1].score if parent else 0.0)
        depth = len(path)
        grown.append(GrownToken(token, parent - 1, depth, score, depth - 1, is_kept=True))
    check_numbers(node.score for node in grown)
    tree = DraftTree((root, *(node.token for node in grown)), (-1, *parents))
    probs = (1.0, *map(_prob, log_probs))
    seconds = reader.laps.seconds(len(levels))
    return Proposal(tree, probs, candidates=tuple(grown), step_seconds=seconds)


def _ranked(reader: LevelReader, levels: Sequence[_Ranks]) -> Tensor:
    """(2, rows) float64: token and log-probability of each row behind the root."""
    reader.laps.resume()
    logits, found = reader.first(), list[Tensor]()
    visible = torch.zeros(1, 0, dtype=torch.bool, device=logits.device)
    for below, level in enumerate(levels, start=1):
        log_probs, places = likeliest(logits, level.num_ranks)
        tokens = reader.ids[places[level.places, level.ranks]]
        chosen = log_probs[level.places, level.ranks]
        found.append(torch.stack((tokens.double(), chosen.double())))
        reader.laps.mark()
        if below < len(levels):
            own = torch.eye(len(level.inner), dtype=torch.bool, device=logits.device)
            visible = torch.cat((visible[level.parents], own), dim=1)
            logits = reader.level(tokens[level.inner], level.parents, visible)
    return torch.cat(found, dim=1)


# (n, Vd) logits, the nodes they belong to, how many children each gets -> token and probability
# of each child, or of as many as there are
Choose = Callable[[Tensor, Sequence[Node], Sequence[int]], list[list[tuple[int, float]]]]


@dataclass(frozen=True, slots=True)
class StaticGrowth:
    tree: DraftTree
    probs: tuple[float, ...]
    candidates: tuple[GrownToken, ...]
    seconds: tuple[float, ...]


def grow_chosen(
    reader: LevelReader, shape: StaticTree, choose: Choose, root: int, max_depth: int
) -> StaticGrowth:
    """The nodes of `shape` down to `max_depth`, less those for which there was no token.

    What is chosen, by chance, is known here before the next level is read.
    """
    tokens, parents, probs, grown = [root], [-1], [1.0], list[GrownToken]()
    level, parent_rows, num_levels = [Node(0, (), ())], list[int](), 0
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
        level, num_levels = below, step + 1
        reader.laps.mark()
    check_numbers(node.score for node in grown)
    tree = DraftTree(tuple(tokens), tuple(parents))
    return StaticGrowth(tree, tuple(probs), tuple(grown), reader.laps.seconds(num_levels))


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
