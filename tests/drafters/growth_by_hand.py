"""Trees grown path by path in plain Python, as the papers tell it: what `drafters.growth` must equal.

A path is the tokens below the root. `LogProbs` of a path: how likely the drafter thinks each token
of its vocabulary after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from specviz.drafters.base import Proposal

Path = tuple[int, ...]
LogProbs = Callable[[Path], Tensor]  # path -> (Vd,)


@dataclass(frozen=True)
class Grown:
    path: Path
    log_prob: float
    score: float
    is_kept: bool = False


def children(log_probs: LogProbs, ids: Sequence[int], path: Path, count: int) -> list[Grown]:
    row: list[float] = log_probs(path).tolist()
    order = sorted(range(len(row)), key=lambda place: (-row[place], place))
    return [Grown((*path, ids[place]), row[place], row[place]) for place in order[:count]]


def dynamic_by_hand(
    log_probs: LogProbs, ids: Sequence[int], top_k: int, depth: int, budget: int
) -> list[Grown]:
    """Everything grown, in order; the best `budget` - 1 of it kept."""
    pool, frontier = list[Grown](), [Grown((), 0.0, 0.0)]
    for _ in range(depth):
        level = [
            Grown(child.path, child.log_prob, parent.score + child.log_prob)
            for parent in frontier
            for child in children(log_probs, ids, parent.path, top_k)
        ]
        pool += level
        frontier = sorted(level, key=lambda node: -node.score)[:top_k]  # stable
    order = sorted(range(len(pool)), key=lambda place: (-pool[place].score, place))
    kept = set(order[: budget - 1])
    return [Grown(n.path, n.log_prob, n.score, i in kept) for i, n in enumerate(pool)]


def static_by_hand(
    log_probs: LogProbs, ids: Sequence[int], ranks: Sequence[Path], max_depth: int
) -> list[Grown]:
    """The nodes with these rank paths, shorter first, then by rank."""
    found: dict[Path, Grown] = {(): Grown((), 0.0, 0.0)}
    for path in sorted(ranks, key=lambda path: (len(path), path)):
        if len(path) <= max_depth and path[:-1] in found:
            parent = found[path[:-1]]
            own = children(log_probs, ids, parent.path, path[-1] + 1)
            if len(own) > path[-1]:
                child = own[path[-1]]
                score = parent.score + child.log_prob
                found[path] = Grown(child.path, child.log_prob, score, is_kept=True)
    return [node for path, node in found.items() if path]


def assert_same_tree(proposal: Proposal, wanted: Sequence[Grown], *, tolerance: float) -> None:
    """Same nodes in the same order, kept and pruned alike, with the same chances."""
    tree, kept = proposal.tree, [node for node in wanted if node.is_kept]
    assert [tree.path_tokens(row) for row in range(1, len(tree))] == [n.path for n in kept]
    assert [path_of(proposal, i) for i in range(len(proposal.candidates))] == [
        node.path for node in wanted
    ]
    for candidate, node in zip(proposal.candidates, wanted, strict=True):
        assert candidate.is_kept == node.is_kept
        assert candidate.depth == len(node.path) == candidate.draft_step + 1
        assert abs(candidate.score - node.score) < tolerance
    for prob, node in zip(proposal.draft_probs[1:], kept, strict=True):
        assert abs(prob - 2.718281828459045**node.log_prob) < tolerance
    deepest = max((len(node.path) for node in wanted), default=0)
    assert len(proposal.step_seconds) == deepest


def path_of(proposal: Proposal, index: int) -> Path:
    candidate = proposal.candidates[index]
    above = () if candidate.parent < 0 else path_of(proposal, candidate.parent)
    return (*above, candidate.token)
