"""Trees grown level by level against the same trees grown path by path in plain Python."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor

from specviz.drafters.base import Proposal
from specviz.drafters.growth import DynamicShape, grow_dynamic, likeliest
from specviz.drafters.static_growth import RankedTree, StaticTree, grow_ranked, likeliest_paths
from specviz.lm.device import Laps
from tests.drafters.growth_by_hand import (
    Path,
    assert_same_tree,
    dynamic_by_hand,
    path_of,
    static_by_hand,
)

ROOT = 7
CPU = torch.device("cpu")
# EAGLE-1's published tree: how many children a rank path has.
PUBLISHED: dict[Path, int] = {
    (): 4,
    (0,): 3,
    (1,): 2,
    (2,): 2,
    (3,): 1,
    (0, 0): 3,
    (0, 1): 2,
    (0, 2): 2,
    (1, 0): 1,
    (0, 0, 0): 3,
    (0, 0, 0, 0): 2,
}


def logits_of(path: Path, size: int) -> Tensor:
    """(size,) a random row that belongs to the path."""
    rng = torch.Generator().manual_seed(zlib.crc32(repr(path).encode()))
    return 2.0 * torch.randn(size, generator=rng)


class PathReader:
    """`growth.LevelReader` of a table of paths. It works out each row's path twice, from the parents
    and from what the row may see, and the two must agree."""

    def __init__(self, size: int, logits: Callable[[Path, int], Tensor] = logits_of) -> None:
        self.size, self.logits = size, logits
        self.ids = torch.arange(size) * 3 + 1
        self.laps = Laps(CPU)
        self.num_passes = 0
        self.before: list[Path] = [()]
        self.read: list[int] = []  # tokens of the rows read so far

    def first(self) -> Tensor:
        self.num_passes += 1
        return self.logits((), self.size)[None]

    def level(self, tokens: Tensor, parents: Tensor, visible: Tensor) -> Tensor:
        self.num_passes += 1
        self.read += tokens.tolist()
        assert visible.shape == (len(tokens), len(self.read))
        by_parent = [
            (*self.before[parent], token)
            for parent, token in zip(parents.tolist(), tokens.tolist(), strict=True)
        ]
        seen = [tuple(self.read[i] for i in row.nonzero()[:, 0].tolist()) for row in visible]
        assert seen == by_parent
        self.before = by_parent
        return torch.stack([self.logits(path, self.size) for path in by_parent])

    def result(self, num_levels: int, work: Callable[[], Tensor]) -> Tensor:
        return work()

    def log_probs(self, path: Path) -> Tensor:
        return self.logits(path, self.size).double().log_softmax(-1)


def dynamic(reader: PathReader, shape: DynamicShape, max_depth: int = 99) -> Proposal:
    reader.laps.start()
    return grow_dynamic(reader, shape, ROOT, max_depth)


@pytest.mark.parametrize("size", [2, 5, 40, 900])
@pytest.mark.parametrize(("top_k", "depth", "budget"), list(product([1, 3, 6], [1, 2, 5], [2, 16])))
def test_a_dynamic_tree_is_the_one_grown_by_hand(
    size: int, top_k: int, depth: int, budget: int
) -> None:
    reader = PathReader(size)
    proposal = dynamic(reader, DynamicShape(top_k, depth, budget))
    wanted = dynamic_by_hand(reader.log_probs, reader.ids.tolist(), top_k, depth, budget)
    assert_same_tree(proposal, wanted, tolerance=1e-4)
    assert reader.num_passes == depth
    assert proposal.tree.tokens[0] == ROOT
    assert proposal.child_probs is None


def test_what_is_kept_is_the_best_of_what_was_grown() -> None:
    proposal = dynamic(PathReader(50), DynamicShape(5, 4, 20))
    kept = [c.score for c in proposal.candidates if c.is_kept]
    pruned = [c.score for c in proposal.candidates if not c.is_kept]
    assert (len(kept), len(pruned)) == (19, 5 + 3 * 25 - 19)
    assert min(kept) >= max(pruned)


@pytest.mark.parametrize("max_depth", [0, 1, 3])
def test_no_level_lies_beyond_what_could_be_committed(max_depth: int) -> None:
    reader = PathReader(50)
    proposal = dynamic(reader, DynamicShape(4, 5, 30), max_depth)
    assert max(proposal.tree.depths) == max_depth == reader.num_passes
    assert max((c.depth for c in proposal.candidates), default=0) == max_depth


def test_a_sure_child_never_comes_without_its_parent() -> None:
    """A probability that rounds to 1 gives the child its parent's own score: an unstable ranking
    kept the child, dropped the parent, and hung the child under another node."""

    def sure(path: Path, size: int) -> Tensor:
        return logits_of(path, size).index_fill(0, torch.tensor([len(path) % size]), 900.0)

    for budget in range(2, 12):
        proposal = dynamic(PathReader(30, sure), DynamicShape(3, 8, budget))
        chain = tuple(3 * depth + 1 for depth in range(min(budget - 1, 8)))
        assert chain in [proposal.tree.path_tokens(row) for row in range(len(proposal.tree))]
        for index, candidate in enumerate(proposal.candidates):
            if candidate.is_kept and candidate.parent >= 0:
                assert proposal.candidates[candidate.parent].is_kept, path_of(proposal, index)


def test_scores_that_are_no_numbers_end_the_draft() -> None:
    def broken(path: Path, size: int) -> Tensor:
        return logits_of(path, size) * (torch.nan if path else 1.0)

    with pytest.raises(FloatingPointError, match="not numbers"):
        dynamic(PathReader(9, broken), DynamicShape(2, 2, 5))
    with pytest.raises(FloatingPointError, match="not numbers"):
        static(PathReader(9, broken), [(0,), (0, 0)])


@pytest.mark.parametrize("size", [1, 3, 127, 1024, 1000, 8192])
@pytest.mark.parametrize("count", [1, 4, 10])
def test_the_likeliest_are_those_of_a_whole_sort(size: int, count: int) -> None:
    rng = torch.Generator().manual_seed(size)
    logits = 5.0 * torch.randn(3, size, generator=rng)
    log_probs, places = likeliest(logits, count)
    wanted = logits.double().log_softmax(-1).sort(-1, descending=True)
    assert torch.equal(places, wanted.indices[:, :count])
    assert torch.allclose(log_probs.double(), wanted.values[:, :count], atol=1e-5)


def test_no_log_probability_is_above_zero() -> None:
    rng = torch.Generator().manual_seed(0)
    logits = (40.0 * torch.randn(200, 8192, generator=rng)).bfloat16()
    assert float(likeliest(logits, 4)[0].max()) <= 0.0


def static(reader: PathReader, paths: list[Path], max_depth: int = 99) -> Proposal:
    reader.laps.start()
    return grow_ranked(reader, RankedTree(StaticTree(paths), reader.ids), ROOT, max_depth)


def paths_of(counts: dict[Path, int]) -> list[Path]:
    return [(*path, rank) for path, count in counts.items() for rank in range(count)]


@pytest.mark.parametrize("size", [2, 30, 900])
@pytest.mark.parametrize("max_depth", [0, 2, 99])
def test_a_static_tree_is_the_one_grown_by_hand(size: int, max_depth: int) -> None:
    reader, paths = PathReader(size), paths_of(PUBLISHED)
    proposal = static(reader, paths, max_depth)
    wanted = static_by_hand(reader.log_probs, reader.ids.tolist(), paths, max_depth)
    assert_same_tree(proposal, wanted, tolerance=1e-4)


def test_the_published_tree_has_its_levels_and_passes() -> None:
    """26 rows in levels of 4, 8, 8, 3 and 2; only nodes with children are read, in 4 passes after
    the first."""
    reader = PathReader(100)
    tree = static(reader, paths_of(PUBLISHED)).tree
    assert [tree.depths.count(depth) for depth in range(7)] == [1, 4, 8, 8, 3, 2, 0]
    assert reader.num_passes == 5
    assert len(reader.read) == len(PUBLISHED) - 1


@pytest.mark.parametrize("paths", [[(0, 0)], [(0,), (2,)], [(0,), (0, 1)]])
def test_rank_paths_with_gaps_are_no_tree(paths: list[Path]) -> None:
    with pytest.raises(AssertionError, match=r"parent|gap"):
        StaticTree(paths)


@pytest.mark.parametrize("count", [1, 7, 30])
def test_the_likeliest_paths_are_those_of_all(count: int) -> None:
    """Every path there is, sorted by the product of its hit rates."""
    rates = [[0.6, 0.2, 0.1, 0.05], [0.5, 0.24, 0.11, 0.03], [0.45, 0.23, 0.12, 0.0]]

    def chance(path: Path) -> float:
        return math.prod(rates[depth][rank] for depth, rank in enumerate(path))

    every = [path for depth in (1, 2, 3) for path in product(range(4), repeat=depth)]
    best = sorted(every, key=chance, reverse=True)[:count]
    found = likeliest_paths(rates, count)
    assert [chance(path) for path in found] == pytest.approx([chance(path) for path in best])
    assert len(set(found)) == count
    StaticTree(found)
