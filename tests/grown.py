"""A hand-made run of a drafter that grows its trees and cuts them, at temperature 1. No model."""

from __future__ import annotations

import math
from dataclasses import replace

from specviz.config import SamplingParams
from specviz.trace import (
    Candidate,
    LaneEnd,
    RoundTrace,
    RowOdds,
    RunEnd,
    SessionEvent,
    TokenOdds,
    Trial,
    Verdict,
)
from specviz.tree import DraftTree
from tests.traces import IDS, greedy_verdict, ids, lane_start, round_trace, run_start


def sampled_odds(row: int, *tokens: tuple[str, float, float | None, float | None]) -> RowOdds:
    """Odds of a row under sampling: text, p, q and residual of each token."""
    return RowOdds(
        row,
        tuple(
            TokenOdds(IDS[text], text, p, math.log(p) + 20, p, q, rest)
            for text, p, q, rest in tokens
        ),
    )


def grown_round(lane: int, index: int = 0) -> RoundTrace:
    """A tree of 5 that a drafter grew from 12 candidates in three passes and cut, then a walk by
    draws: " a" is refused, " one" kept, " pass" kept, and the target's own token ends it."""
    texts = (" a", " one", " cheap", " model", " guess", " pass", " token", " reads", " is")
    a, one, cheap, model, guess, step, token, reads, is_ = ids(*texts)
    grown = (
        (a, " a", -1, 1, -0.4, 0, True),
        (one, " one", -1, 1, -0.9, 0, True),
        (cheap, " cheap", -1, 1, -2.6, 0, False),
        (model, " model", 0, 2, -0.8, 1, True),
        (guess, " guess", 0, 2, -2.9, 1, False),
        (step, " pass", 1, 2, -1.3, 1, True),
        (token, " token", 1, 2, -2.4, 1, False),
        (guess, " guess", 2, 2, -4.0, 1, False),
        (is_, " is", 3, 3, -3.2, 2, False),
        (reads, " reads", 5, 3, -1.6, 2, True),
        (is_, " is", 5, 3, -2.8, 2, False),
        (token, " token", 8, 4, -5.0, 2, False),
    )
    tree = DraftTree((IDS["\n"], a, one, model, step, reads), (-1, 0, 0, 1, 2, 4))
    verdict = Verdict(
        accepted_rows=(2, 4),
        next_token=is_,
        next_token_kind="recovered",
        row_status=("root", "rejected", "accepted", "unreached", "accepted", "rejected"),
        target_probs=(None, 0.12, 0.58, None, 0.71, 0.2),
        trials=(
            Trial(1, 0.67, 0.12, 0.179, 0.81, False),
            Trial(2, 0.41, 0.66, 1.0, 0.35, True),
            Trial(4, 0.72, 0.71, 0.986, 0.64, True),
            Trial(5, 0.74, 0.2, 0.27, 0.41, False),
        ),
    )
    odds_ = (
        sampled_odds(
            0, (" one", 0.58, 0.41, None), (" a", 0.12, 0.67, None), (" cheap", 0.1, 0.07, None)
        ),
        sampled_odds(2, (" pass", 0.71, 0.72, None), (" token", 0.2, 0.12, None)),
        sampled_odds(
            4, (" is", 0.52, 0.12, 0.8), (" reads", 0.2, 0.74, 0.0), (" costs", 0.13, 0.05, 0.2)
        ),
    )
    base = round_trace(tree, verdict, lane=lane, index=index, seconds=(0.0125, 0.028, 0.0012))
    return replace(
        base,
        draft_probs=(1.0, 0.67, 0.41, 0.67, 0.72, 0.74),
        softmax_probs=(None, 0.12, 0.58, 0.61, 0.71, 0.2),
        odds=odds_,
        draft_step_seconds=(0.004, 0.0035, 0.003),
        candidates=tuple(Candidate(*fields) for fields in grown),
    )


def sampled_run() -> list[SessionEvent]:
    """One lane that grows its trees, at temperature 1: a round of draws, then chains."""
    sampling = SamplingParams(temperature=1.0)
    first = grown_round(0)
    root = first.new_tokens[-1]
    tree = DraftTree((root, *ids(" slow", ",")), (-1, 0, 1))
    verdict = greedy_verdict(tree, ids(" slow", ",", " and"))
    second = round_trace(tree, verdict, index=1, cache_length=first.cache_length + 3)
    start = lane_start(0, "eagle2", title="EAGLE-2", sampling=sampling)
    end = LaneEnd(0, "length", first.text + second.text)
    return [run_start(sampling=sampling), start, first, second, end, RunEnd(0.1)]
