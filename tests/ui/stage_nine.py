"""A hand-made race of every method: nine, and a tenth lane that is the plain one of MTP's own
model. No model ran; what it shows obeys the walk, and its seconds are written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from specviz.trace import Candidate, LaneEnd, LaneStart, RoundTrace, RunEnd, SessionEvent
from specviz.tree import DraftTree
from tests.traces import (
    ANSWER,
    VOCABULARY,
    WRONG,
    bushy_trees,
    chain_trees,
    decode,
    greedy_verdict,
    ids,
    interleaved,
    lane_start,
    lookahead_trees,
    plain_trees,
    run_start,
)

ALL = ids(*ANSWER)
METHODS = (  # registry name, title, backbone, what it says of itself
    ("autoregressive", "Plain decoding", "", "no drafter: every token is the target's own"),
    ("draft_model", "Draft model", "", "a small model trained to imitate the target"),
    ("prompt_lookup", "Prompt lookup", "", "no model: copies from the text so far"),
    ("lookahead", "Lookahead", "", "no model: the target's own Jacobi window, W=3 N=3 G=1"),
    ("medusa", "Medusa", "", "four heads on the target's last hidden state"),
    ("mtp", "MTP", "mtp", "a module and the model tuned with it; its text is that model's"),
    ("eagle", "EAGLE-1", "", "one layer on the target's features, a fixed tree"),
    ("eagle2", "EAGLE-2", "", "one layer on the target's features, a tree that grows"),
    ("eagle3", "EAGLE-3", "", "one layer on low, middle and high features"),
    (
        "autoregressive",
        "Plain decoding",
        "mtp",
        "every token is that model's that MTP was tuned with",
    ),
)
WIDTH, DEPTH, BUDGET = 8, 4, 14  # of a tree that grows: 8 + 3 * 4 * 8 candidates


def grown_trees(hits: tuple[int, ...]) -> Iterator[tuple[DraftTree, tuple[Candidate, ...]]]:
    """Trees cut from what was grown, their best path right for `hits` tokens, one round after
    another; a level's best four get eight children each."""
    done = 0
    for index in range(len(ALL)):
        right = ALL[done : done + min(hits[index % len(hits)], DEPTH)]
        grown = _grow(right, index)
        order = sorted(range(len(grown)), key=lambda i: (-grown[i].score, i))
        kept = set(order[:BUDGET])
        candidates = tuple(replace(c, is_kept=i in kept) for i, c in enumerate(grown))
        tree = _tree(candidates)
        yield tree, candidates
        done += len(greedy_verdict(tree, [*ALL[done:], -1]).accepted_rows) + 1


def _grow(right: tuple[int, ...], index: int) -> list[Candidate]:
    grown: list[Candidate] = []
    frontier = [-1]
    for level in range(DEPTH):
        fresh: list[int] = []
        for place, parent in enumerate(frontier):
            above = 0.0 if parent < 0 else grown[parent].score
            is_path = place == 0 and level < len(right)
            tokens = [right[level]] if is_path else []
            tokens += [t for t in _wrong(index, level, place) if t not in tokens][
                : WIDTH - len(tokens)
            ]
            for k, token in enumerate(tokens):
                score = above - (0.15 if k == 0 else 0.7 + 0.4 * k) - 0.11 * place
                fresh.append(len(grown))
                text = VOCABULARY[token]
                grown.append(Candidate(token, text, parent, level + 1, score, level, True))
        frontier = sorted(fresh, key=lambda i: -grown[i].score)[:4]
    return grown


def _wrong(index: int, level: int, place: int) -> list[int]:
    """Tokens the answer does not hold, so none of them is right by chance."""
    wrong = ids(*WRONG)
    start = index + 3 * level + place
    return [wrong[(start + i) % len(wrong)] for i in range(len(wrong))]


def _tree(candidates: tuple[Candidate, ...]) -> DraftTree:
    tokens, parents, rows = [0], [-1], {-1: 0}
    for i, candidate in enumerate(candidates):
        if candidate.is_kept and candidate.parent in rows:
            rows[i] = len(tokens)
            tokens.append(candidate.token)
            parents.append(rows[candidate.parent])
    return DraftTree(tuple(tokens), tuple(parents))


def grown_lane(
    lane: int, hits: tuple[int, ...], seconds: tuple[float, float, float]
) -> Iterator[RoundTrace]:
    made = list(grown_trees(hits))
    rounds = decode(lane, [tree for tree, _ in made], seconds=seconds)
    for round_, (_, candidates) in zip(rounds, made, strict=False):
        steps = (0.22 * round_.draft_seconds,) * DEPTH
        yield replace(round_, candidates=candidates, draft_step_seconds=steps)


def starts() -> list[LaneStart]:
    return [
        replace(
            lane_start(n, name, title=title),
            backbone=backbone,
            description=said,
            knobs={"depth": DEPTH} if name == "eagle2" else {},
        )
        for n, (name, title, backbone, said) in enumerate(METHODS)
    ]


def nine_lanes() -> list[SessionEvent]:
    """EAGLE-3 is the first to finish, prompt lookup is slower than plain decoding."""
    misses = (DraftTree.chain(0, ids(WRONG[i % 9])) for i in range(len(ALL)))
    pool = {"pool": "57", "guesses": "1"}
    lanes = (
        decode(0, plain_trees(), seconds=(0.00001, 0.021, 0.0002)),
        decode(1, chain_trees(), seconds=(0.018, 0.026, 0.0004)),
        decode(2, misses, seconds=(0.0001, 0.024, 0.0003)),
        (
            replace(r, notes=pool)
            for r in decode(3, lookahead_trees(), seconds=(0.0002, 0.029, 0.0005))
        ),
        decode(4, bushy_trees(), seconds=(0.002, 0.030, 0.0006)),
        decode(5, chain_trees(length=3), seconds=(0.005, 0.029, 0.0004)),
        decode(6, bushy_trees(width=2), seconds=(0.006, 0.029, 0.0006)),
        grown_lane(7, (2, 4, 0, 3, 1), (0.009, 0.031, 0.0008)),
        grown_lane(8, (4, 3, 4, 2, 4), (0.004, 0.030, 0.0008)),
        decode(9, plain_trees(), seconds=(0.00001, 0.023, 0.0002)),
    )
    rounds = list(interleaved(*lanes))
    all_starts = starts()
    ends = [LaneEnd(s.lane, "length", "".join(ANSWER)) for s in all_starts]
    return [run_start(), *all_starts, *rounds, *ends, RunEnd(sum(r.seconds for r in rounds))]
