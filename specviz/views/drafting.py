"""How a round's draft came to be: when each row was made, what was pruned, where it was found.

Reads one round of a trace and answers in plain data; the stage shows it on the draft's clock.
Nothing here guesses: a moment that was not measured is the end of drafting, a score that was
not told is None.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate
from typing import Any

from specviz.trace import Candidate, RoundTrace
from specviz.tree import DraftTree
from specviz.views.numbers import short
from specviz.views.tokens import glyphs

MAX_GHOSTS = 24  # pruned candidates shown at first: the best scored, and what stands above them
MAX_GUESSES = 4  # above a depth
COLUMNS = {  # what a drafter calls that which makes the tokens at one depth
    "medusa": "head",
    "mtp": "step",
    "eagle": "level",
    "eagle2": "level",
    "eagle3": "level",
    "draft_model": "pass",
}
GUESSING = {"head", "step"}  # columns whose likeliest guesses are listed


def drafting(round_: RoundTrace, top: int, *, column: str) -> dict[str, Any]:
    """The "draft" of a round item; see `views/stage.py` for its fields. `top` is the first line below
    the rows: pruned candidates stand there, so that the tree is the same with them and without."""
    rows = _rows_of(round_.tree, round_.candidates)
    ghosts, num_best = _ghosts(round_.candidates, rows)
    ranks = _ranks(round_.candidates)
    numbers = {index: len(round_.tree) + k for k, index in enumerate(ghosts)} | rows
    moments = _moments(round_)
    lines, heights = _ghost_lines(round_, ghosts, num_best, ranks, top)
    return {
        "steps": [short(seconds) for seconds in round_.draft_step_seconds],
        "grown_at": short(moments[-1] if moments else round_.draft_seconds),
        "num_grown": len(round_.candidates),
        "num_pruned": sum(not c.is_kept for c in round_.candidates),
        "num_best": num_best,
        **_row_facts(round_, rows, ranks, moments),
        "ghosts": [
            {
                "text": glyphs(round_.candidates[i].text),
                "id": round_.candidates[i].token,
                "parent": numbers.get(round_.candidates[i].parent, 0),
                "depth": round_.candidates[i].depth,
                "score": short(round_.candidates[i].score),
                "rank": ranks[i],
                "y": lines[i],
                "born": short(_born(round_.candidates[i], moments, round_.draft_seconds)),
            }
            for i in ghosts
        ],
        "heights": heights,
        "heads": _heads(round_.tree, round_) if column in GUESSING else [],
        "levels": _levels(round_) if column not in GUESSING else [],
        "window": window_levels(round_.tree),
        "pool": _pool(round_),
        "match": _match(round_),
    }


def _rows_of(tree: DraftTree, candidates: tuple[Candidate, ...]) -> dict[int, int]:
    """Candidate to the tree's row that it became."""
    children = {(tree.parents[r], tree.tokens[r]): r for r in range(1, tree.num_draft_tokens + 1)}
    rows = {-1: 0}
    for index, candidate in enumerate(candidates):
        above = rows.get(candidate.parent)
        row = None if above is None else children.get((above, candidate.token))
        if candidate.is_kept and row is not None:
            rows[index] = row
    return rows


def _ghosts(candidates: tuple[Candidate, ...], rows: dict[int, int]) -> tuple[list[int], int]:
    """Those that became no row, and how many of them, from the first, are the best scored, each
    with all that stands above it. Both parts are in the order of growth, so parents come first."""
    lost = [i for i in range(len(candidates)) if i not in rows]
    chosen: set[int] = set()
    for index in sorted(lost, key=lambda i: (-candidates[i].score, i)):
        path = {index}
        while (above := candidates[min(path)].parent) not in rows:
            path.add(above)
        if len(chosen | path) > MAX_GHOSTS:
            break
        chosen |= path
    return [*sorted(chosen), *(i for i in lost if i not in chosen)], len(chosen)


def _ranks(candidates: tuple[Candidate, ...]) -> list[int]:
    """Place of each by its score, from 1; the earlier of equals first."""
    order = sorted(range(len(candidates)), key=lambda i: (-candidates[i].score, i))
    ranks = [0] * len(candidates)
    for place, index in enumerate(order, start=1):
        ranks[index] = place
    return ranks


def _moments(round_: RoundTrace) -> list[float]:
    """When each pass of the drafter ended, from the round's start, never after its draft."""
    return [min(t, round_.draft_seconds) for t in accumulate(round_.draft_step_seconds)]


def _born(candidate: Candidate, moments: list[float], end: float) -> float:
    return moments[candidate.draft_step] if candidate.draft_step < len(moments) else end


def _row_facts(
    round_: RoundTrace, rows: dict[int, int], ranks: list[int], moments: list[float]
) -> dict[str, list[Any] | None]:
    """Per row: when it was made, its score, and its place among all candidates (None without)."""
    tree = round_.tree
    born: list[float | None] = [round_.draft_seconds] * len(tree)
    scores: list[float | None] = [None] * len(tree)
    places: list[int | None] = [None] * len(tree)
    born[0] = 0.0
    if tree.is_chain and len(moments) == tree.num_draft_tokens:
        born[1:] = moments
    for index, row in rows.items():
        if index >= 0:
            candidate = round_.candidates[index]
            born[row] = _born(candidate, moments, round_.draft_seconds)
            scores[row], places[row] = candidate.score, ranks[index]
    has_scores = bool(round_.candidates)
    return {
        "born": [short(t) for t in born],
        "score": [short(s) for s in scores] if has_scores else None,
        "rank": places if has_scores else None,
    }


def _ghost_lines(
    round_: RoundTrace, ghosts: list[int], num_best: int, ranks: list[int], top: int
) -> tuple[dict[int, int], list[int]]:
    """The line of each pruned candidate, in the column of its depth: the best first. And how many
    lines are in use with the best alone, and with all."""
    used: dict[int, int] = defaultdict(int)
    lines: dict[int, int] = {}
    heights = []
    for part in (ghosts[:num_best], ghosts[num_best:]):
        for index in sorted(part, key=lambda i: ranks[i]):
            depth = round_.candidates[index].depth
            lines[index] = top + used[depth]
            used[depth] += 1
        heights.append(top + max(used.values(), default=0))
    return lines, heights


def _heads(tree: DraftTree, round_: RoundTrace) -> list[list[Any]]:
    """At each depth the likeliest guesses made there: text, id, probability, each token once."""
    guesses: dict[int, dict[int, tuple[str, float]]] = {}
    for row in range(1, tree.num_draft_tokens + 1):
        here = guesses.setdefault(tree.depths[row], {})
        chance = round_.draft_probs[row]
        if tree.tokens[row] not in here or here[tree.tokens[row]][1] < chance:
            here[tree.tokens[row]] = (round_.texts[row], chance)
    return [
        [
            [glyphs(text), token, short(chance)]
            for token, (text, chance) in sorted(guesses[depth].items(), key=lambda g: -g[1][1])
        ][:MAX_GUESSES]
        for depth in sorted(guesses)
    ]


def _levels(round_: RoundTrace) -> list[list[int | None]]:
    """At each depth: how many candidates were grown there (None: it is not told), and how many
    rows of the draft stand there."""
    tree = round_.tree
    kept = [tree.depths[row] for row in range(1, tree.num_draft_tokens + 1)]
    grown = [candidate.depth for candidate in round_.candidates]
    deepest = max([0, *kept, *grown])
    return [
        [grown.count(depth) if grown else None, kept.count(depth)]
        for depth in range(1, deepest + 1)
    ]


def window_levels(tree: DraftTree) -> list[list[int | None]]:
    """Lookahead rows as levels of columns, the root being column 0 of level 0; [] without any.
    None: no row stands there.

    Level 0 is a path from the root; a row of a later level hangs under the same column of the
    level above it.
    """
    first = tree.num_draft_tokens + 1
    if first == len(tree):
        return []
    levels: list[list[int | None]] = [[0]]
    column_of = {0: (0, 0)}
    for row in range(first, len(tree)):
        parent = tree.parents[row]
        is_path = len(levels) == 1 and parent == levels[0][-1] and not (parent == 0 and row > first)
        level, column = (0, len(levels[0])) if is_path else column_of.get(parent, (0, 0))
        if not is_path:
            level += 1
        column_of[row] = (level, column)
        while len(levels) <= level:
            levels.append([])
        levels[level] += [None] * (column + 1 - len(levels[level]))
        levels[level][column] = row
    return levels


def _pool(round_: RoundTrace) -> dict[str, Any] | None:
    """How many n-grams the drafter knew, and those it chose: the paths of its draft."""
    if not round_.notes.get("pool", "").isdigit():
        return None
    tree = round_.tree
    inner = set(tree.parents[1 : tree.num_draft_tokens + 1])
    leaves = [r for r in range(1, tree.num_draft_tokens + 1) if r not in inner]
    return {"size": int(round_.notes["pool"]), "ngrams": [tree.path(r)[1:] for r in leaves]}


def _match(round_: RoundTrace) -> dict[str, int] | None:
    """The span of the text that was found again, and how many tokens behind it were copied."""
    length, _, start = round_.notes.get("match", "").partition("@")
    if not (length.isdigit() and start.isdigit()):
        return None
    return {
        "start": int(start),
        "length": int(length),
        "copied": round_.tree.num_draft_tokens,
    }
