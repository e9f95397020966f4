"""One round as the stage draws it: the tree with its places, the draft, the tokens committed."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from specviz.config import SamplingParams
from specviz.metrics import near_tie_gap
from specviz.trace import RoundTrace, RowOdds
from specviz.views.agreement import is_greedy
from specviz.views.drafting import drafting
from specviz.views.mask import branches, visible_rows
from specviz.views.numbers import brief, short
from specviz.views.tokens import glyphs
from specviz.views.tree_layout import TreeLayout, tree_layout

RoundOutcome: TypeAlias = Literal["plain", "none", "some", "all"]
PLAIN_SOFTMAX = SamplingParams(temperature=1.0)  # settings that leave the target's softmax as it is


def picture(
    round_: RoundTrace, *, column: str, sampling: SamplingParams, dtype: str
) -> dict[str, Any]:
    """The "tree", "draft", "next", "new" and "outcome" of a round item. `dtype` is what the target
    computes in: it says when two of its scores are as good as equal."""
    path = (0, *round_.verdict.accepted_rows)
    layout = tree_layout(round_.tree, next_parent=path[-1])
    is_plain = round_.tree.num_draft_tokens == 0  # a round without a draft is a plain step
    own_kind = "plain" if is_plain else round_.verdict.next_token_kind
    return {
        "outcome": outcome(round_),
        "tree": _tree(round_, layout, sampling, dtype),
        "draft": drafting(round_, layout.height, column=column),
        "next": _next(round_, layout, path[-1], own_kind),
        "new": {
            "text": [glyphs(text) for text in round_.new_texts],
            "id": round_.new_tokens,
            "row": [path[i] if i < len(path) else -1 for i in range(1, len(round_.new_texts) + 1)],
            "origin": [
                depth if depth < len(path) else own_kind
                for depth, _ in enumerate(round_.new_texts, start=1)
            ],
        },
        "kept_rows": path[: round_.rows_kept],
        "lost_rows": _lost_rows(round_),
    }


def outcome(round_: RoundTrace) -> RoundOutcome:
    """What became of the draft: nothing drafted, no token kept, a part of a path, a whole path."""
    accepted = round_.verdict.accepted_rows
    if not round_.tree.num_draft_tokens:
        return "plain"
    if not accepted:
        return "none"
    return "some" if round_.tree.children(accepted[-1]) else "all"


def check_lengths(round_: RoundTrace) -> None:
    """ValueError if a trace gives more or fewer facts than the round's tree has rows."""
    rows = len(round_.tree)
    verdict = round_.verdict
    facts = {
        "texts": round_.texts,
        "draft_probs": round_.draft_probs,
        "softmax_probs": round_.softmax_probs,
        "row_status": verdict.row_status,
        "target_probs": verdict.target_probs,
    }
    where = f"Round {round_.index + 1} of lane {round_.lane} is damaged"
    for name, values in facts.items():
        if len(values) != rows:
            raise ValueError(f"{where}: its tree has {rows} rows, but it has {len(values)} {name}.")
    if not all(0 < row <= round_.tree.num_draft_tokens for row in verdict.accepted_rows):
        raise ValueError(f"{where}: it accepts a row that is not a draft token.")
    for index, candidate in enumerate(round_.candidates):
        if not -1 <= candidate.parent < index or candidate.draft_step < 0:
            raise ValueError(f"{where}: its candidate {index} stands before its own parent.")


def _tree(
    round_: RoundTrace, layout: TreeLayout, sampling: SamplingParams, dtype: str
) -> dict[str, Any]:
    tree = round_.tree
    has_chances = any(q != 1.0 for q in round_.draft_probs)
    return {
        "width": layout.width,
        "height": layout.height,
        "lookahead_y": layout.lookahead_y,
        "x": layout.x,
        "y": layout.y,
        "depth": tree.depths,
        "parent": tree.parents,
        "position": [round_.cache_length + depth for depth in tree.depths],
        "text": [glyphs(text) for text in round_.texts],
        "id": tree.tokens,
        "status": round_.verdict.row_status,
        "sees": visible_rows(tree),
        "branch": branches(tree),
        "draft_prob": [brief(q) if has_chances else None for q in round_.draft_probs],
        "target_prob": [brief(p) for p in round_.verdict.target_probs],
        "softmax_prob": [brief(p) for p in round_.softmax_probs],
        "shown_prob": [brief(p) for p in _shown_probs(round_, sampling)],
        "odds": {str(o.row): _odds(o, dtype) for o in round_.odds},
        "trials": {
            str(t.row): {
                "draft_prob": brief(t.draft_prob),
                "target_prob": brief(t.target_prob),
                "threshold": brief(t.threshold),
                "draw": brief(t.draw),
                "is_accepted": t.is_accepted,
            }
            for t in round_.verdict.trials
        },
    }


def _shown_probs(round_: RoundTrace, sampling: SamplingParams) -> list[float | None]:
    """(N,) the one number of the target's that stands at each row. A greedy choice rests on its
    softmax; a draw on what the run's settings made of it, which is told of visited places alone."""
    if is_greedy(sampling) or sampling == PLAIN_SOFTMAX:
        return list(round_.softmax_probs)
    told = {(o.row, t.token): t.target_prob for o in round_.odds for t in o.odds}
    tree = round_.tree
    return [
        told.get((tree.parents[row], tree.tokens[row])) if decided is None else decided
        for row, decided in enumerate(round_.verdict.target_probs)
    ]


def _odds(odds: RowOdds, dtype: str) -> dict[str, Any]:
    has_gap = len(odds.odds) > 1
    return {
        "gap": short(odds.top_two_gap) if has_gap else None,
        "is_near_tie": has_gap and odds.top_two_gap <= near_tie_gap(odds, dtype),
        "tokens": [
            [
                glyphs(t.text),
                t.token,
                brief(t.target_prob),
                brief(t.draft_prob),
                brief(t.residual_prob),
                brief(t.softmax_prob),
            ]
            for t in odds.odds
        ],
    }


def _next(round_: RoundTrace, layout: TreeLayout, parent: int, kind: str) -> dict[str, Any] | None:
    if round_.verdict.next_token is None or not round_.new_texts:
        return None
    x, y = layout.next_cell
    text = glyphs(round_.new_texts[-1])
    token = round_.verdict.next_token
    return {"text": text, "id": token, "kind": kind, "x": x, "y": y, "parent": parent}


def _lost_rows(round_: RoundTrace) -> list[int]:
    """Draft rows that are not in the text: tried and rejected first, then those never reached."""
    status = round_.verdict.row_status
    rows = range(1, round_.tree.num_draft_tokens + 1)
    return [r for kind in ("rejected", "unreached") for r in rows if status[r] == kind]
