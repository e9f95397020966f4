"""One round as the stage draws it: the tree with its places, and the tokens it committed."""

from __future__ import annotations

from typing import Any

from specviz.trace import RoundTrace
from specviz.views.mask import visible_rows
from specviz.views.tokens import glyphs
from specviz.views.tree_layout import TreeLayout, tree_layout

SIGNIFICANT_DIGITS = 7
NUM_ODDS = 3  # the likeliest next tokens that travel, for each row the walk came to


def short(value: float | None) -> float | None:
    """A number as it travels: seven significant digits are more than any screen shows."""
    return None if value is None else float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def picture(round_: RoundTrace) -> dict[str, Any]:
    """The "tree", "next" and "new" of a round item."""
    path = (0, *round_.verdict.accepted_rows)
    layout = tree_layout(round_.tree, next_parent=path[-1])
    is_plain = round_.tree.num_draft_tokens == 0  # a round without a draft is a plain step
    own_kind = "plain" if is_plain else round_.verdict.next_token_kind
    return {
        "tree": _tree(round_, layout),
        "next": _next(round_, layout, path[-1], own_kind),
        "new": {
            "text": [glyphs(text) for text in round_.new_texts],
            "origin": [
                depth if depth < len(path) else own_kind
                for depth, _ in enumerate(round_.new_texts, start=1)
            ],
        },
    }


def check_lengths(round_: RoundTrace) -> None:
    """ValueError if a trace gives more or fewer facts than the round's tree has rows."""
    rows = len(round_.tree)
    verdict = round_.verdict
    facts = {
        "texts": round_.texts,
        "draft_probs": round_.draft_probs,
        "row_status": verdict.row_status,
        "target_probs": verdict.target_probs,
    }
    for name, values in facts.items():
        if len(values) != rows:
            raise ValueError(
                f"Round {round_.index + 1} of lane {round_.lane} is damaged: its tree has "
                f"{rows} rows, but it has {len(values)} {name}."
            )
    if not all(0 < row <= round_.tree.num_draft_tokens for row in verdict.accepted_rows):
        raise ValueError(
            f"Round {round_.index + 1} of lane {round_.lane} is damaged: it accepts a row that "
            "is not a draft token."
        )


def _tree(round_: RoundTrace, layout: TreeLayout) -> dict[str, Any]:
    return {
        "width": layout.width,
        "height": layout.height,
        "lookahead_y": layout.lookahead_y,
        "x": layout.x,
        "y": layout.y,
        "depth": round_.tree.depths,
        "parent": round_.tree.parents,
        "text": [glyphs(text) for text in round_.texts],
        "status": round_.verdict.row_status,
        "sees": visible_rows(round_.tree),
        "draft_prob": [short(p) for p in round_.draft_probs],
        "target_prob": [short(p) for p in round_.verdict.target_probs],
        "odds": {
            str(o.row): [[glyphs(t.text), short(t.target_prob)] for t in o.odds[:NUM_ODDS]]
            for o in round_.odds
        },
        "trials": {
            str(t.row): {
                "threshold": short(t.threshold),
                "draw": short(t.draw),
                "is_accepted": t.is_accepted,
            }
            for t in round_.verdict.trials
        },
    }


def _next(round_: RoundTrace, layout: TreeLayout, parent: int, kind: str) -> dict[str, Any] | None:
    if round_.verdict.next_token is None or not round_.new_texts:
        return None
    x, y = layout.next_cell
    text = glyphs(round_.new_texts[-1])
    return {"text": text, "kind": kind, "x": x, "y": y, "parent": parent}
