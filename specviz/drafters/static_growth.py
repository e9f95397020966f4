"""Draft trees whose shape is fixed beforehand: rank paths, likely ones first (Medusa,
arXiv:2401.10774; EAGLE-1, arXiv:2401.15077), filled with the likeliest tokens or with drawn ones.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.drafters.base import GrownToken, Proposal
from specviz.drafters.growth import LevelReader, check_numbers, likeliest, nothing, prob_of
from specviz.tree import DraftTree

# n = nodes of a level whose children are wanted, c = their children, Vd = draft vocabulary

RankPath = tuple[int, ...]  # (0, 2): the third-best child of the best child of the root


@dataclass(frozen=True, slots=True)
class Node:
    """A row of a tree that gets children."""

    row: int
    ranks: RankPath
    tokens: tuple[int, ...]  # from below the root to itself
    score: float = 0.0  # log-probability of its path


class StaticTree:
    """Rank paths as rows of a tree, level by level, decided before anything is read; row 0, the
    root, is left out."""

    def __init__(self, paths: Iterable[RankPath]) -> None:
        """paths: closed under prefixes; siblings have the ranks 0, 1, 2, ... in any order."""
        self.paths = sorted(set(paths), key=lambda path: (len(path), path))
        rows: dict[RankPath, int] = {(): 0}
        self.num_children: dict[RankPath, int] = {}
        for row, path in enumerate(self.paths, start=1):
            assert path[:-1] in rows, "a node comes with its parent"
            assert path[-1] == self.num_children.get(path[:-1], 0), "ranks leave no gap"
            self.num_children[path[:-1]] = path[-1] + 1
            rows[path] = row
        self.parents = [rows[path[:-1]] for path in self.paths]
        self.depth = max(map(len, self.paths), default=0)
        self.num_ranks = max(self.num_children.values(), default=0)

    def inner(self, depth: int) -> int:
        """Nodes at `depth` that get children."""
        return sum(len(path) == depth for path in self.num_children)

    def num_within(self, depth: int) -> int:
        """How many rows lie no deeper: the first so many."""
        return sum(len(path) <= depth for path in self.paths)


def filled(
    shape: StaticTree,
    root: int,
    guesses: Sequence[tuple[int, float]],
    seconds: tuple[float, ...],
) -> Proposal:
    """A proposal of the first rows of `shape`: a token and its log-probability for each.

    seconds: of the passes, one for each level or one for all. FloatingPointError: the
    log-probabilities are no numbers.
    """
    grown, parents = list[GrownToken](), shape.parents[: len(guesses)]
    for path, parent, (token, log_prob) in zip(shape.paths, parents, guesses, strict=False):
        score = log_prob + (grown[parent - 1].score if parent else 0.0)
        step = min(len(path), len(seconds)) - 1
        grown.append(GrownToken(token, parent - 1, len(path), score, step, is_kept=True))
    check_numbers(node.score for node in grown)
    tree = DraftTree((root, *(node.token for node in grown)), (-1, *parents))
    probs = (1.0, *(prob_of(log_prob) for _, log_prob in guesses))
    return Proposal(tree, probs, candidates=tuple(grown), step_seconds=seconds)


class RankedTree:
    """A static tree of likeliest tokens, and what a device needs to find them."""

    def __init__(self, shape: StaticTree, ids: Tensor) -> None:
        """ids (Vd,): of the draft vocabulary. A rank that it does not have is left out."""
        self.shape = StaticTree(path for path in shape.paths if max(path) < len(ids))
        self.levels = list[_Ranks]()
        level: list[RankPath] = [()] if self.shape.paths else []
        while level:
            places = {path: place for place, path in enumerate(level)}
            below = [path for path in self.shape.paths if path[:-1] in places]
            read = [(i, path) for i, path in enumerate(below) if path in self.shape.num_children]
            numbers = (
                [places[path[:-1]] for path in below],
                [path[-1] for path in below],
                [i for i, _ in read],
                [places[path[:-1]] for _, path in read],
            )
            on_device = [torch.tensor(n, dtype=torch.long, device=ids.device) for n in numbers]
            self.levels.append(_Ranks(1 + max(numbers[1]), *on_device))
            level = [path for _, path in read]


@dataclass(frozen=True, slots=True)
class _Ranks:
    """One level: its nodes that get children are its places."""

    num_ranks: int  # of any parent
    places: Tensor  # (c,) of each child's parent
    ranks: Tensor  # (c,) of each child among its siblings
    inner: Tensor  # (n,) children that get children
    parents: Tensor  # (n,) the places of their parents


def grow_ranked(reader: LevelReader, ranked: RankedTree, root: int, max_depth: int) -> Proposal:
    """The likeliest tokens in the shape of the tree, down to `max_depth`. FloatingPointError: the
    network's scores are no numbers."""
    levels = ranked.levels[: max(max_depth, 0)]
    if not levels:
        return nothing(root)
    numbers = reader.result(len(levels), lambda: _ranked(reader, levels))
    tokens, log_probs = numbers.tolist()  # here the device is waited for
    guesses = list(zip(map(int, tokens), log_probs, strict=True))
    return filled(ranked.shape, root, guesses, reader.laps.seconds(len(levels)))


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


def _read(
    reader: LevelReader, level: Sequence[Node], parent_rows: Sequence[int], visible: Tensor
) -> Tensor:
    device = reader.ids.device
    tokens = torch.tensor([node.tokens[-1] for node in level], device=device)
    return reader.level(
        tokens, torch.tensor(parent_rows, device=device), visible.to(device, copy=False)
    )
