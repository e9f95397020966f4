"""The lanes of a race as the stage introduces them: what each promises, what it decodes with, and
which two a first look should see. Nothing here knows of rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from specviz.config import PLAIN_DRAFTER, WIDTH_KNOB, LaneSpec
from specviz.trace import LaneStart
from specviz.views.agreement import expected_state, is_greedy
from specviz.views.drafting import COLUMNS
from specviz.views.lane_sums import LaneSums
from specviz.views.numbers import short
from specviz.views.summary import own_prefill
from specviz.views.tokens import legible
from specviz.views.told import knobs_message, told
from specviz.words import Message, message, table

Item: TypeAlias = dict[str, Any]
FAMILIES = {  # lanes of one family make the same kind of picture
    PLAIN_DRAFTER: "plain",
    "draft_model": "chain",
    "mtp": "chain",
    "prompt_lookup": "text",
    "lookahead": "text",
}  # all others draft trees, and so do these with branches
PROMISES = {"identical": "text", "independent": "distribution", "lossy": "approximate"}


def differing_knobs(lanes: Sequence[LaneSpec]) -> dict[str, list[str]]:
    """By drafter, the knobs that tell its lanes apart; [] for a drafter of one lane."""
    found = {}
    for drafter in {lane.drafter for lane in lanes}:
        settings = [dict(lane.knobs) for lane in lanes if lane.drafter == drafter]
        names = dict.fromkeys(name for knobs in settings for name in knobs)
        found[drafter] = [n for n in names if len({repr(k.get(n)) for k in settings}) > 1]
    return found


def lane_item(start: LaneStart, differing: Sequence[str] = ()) -> Item:
    """The "lane" item; see `views/stage.py` for its fields. `differing` are the knobs that other
    lanes of the same drafter set otherwise."""
    return {
        "kind": "lane",
        "lane": start.lane,
        "name": legible(start.name),
        "drafter": legible(start.drafter),
        "title": _titled(start, differing),
        "description": told(start.description, "drafts."),
        "backbone": legible(start.backbone),
        "model": own_model(start) or "",
        "prefill": own_prefill(start) or "",
        "knobs": knobs_message(start.knobs),
        "is_plain": start.drafter == PLAIN_DRAFTER,
        "family": family(start),
        "promise": PROMISES[expected_state(start)],
        "rule": "greedy" if is_greedy(start.sampling) else start.verification,
        "column": COLUMNS.get(start.drafter, ""),
        "prefill_seconds": short(start.drafter_prefill_seconds),
    }


def title(start: LaneStart) -> Message | str:
    """The drafter's title, in any language if it is the one of this program's words. A plain lane
    of a tuned model says whose model that is: a race may hold two plain lanes."""
    key = f"drafter.{start.drafter}.title"
    named = message(key) if table("en").get(key) == start.title else legible(start.title)
    if start.backbone and start.drafter == PLAIN_DRAFTER:
        return message("view.plain_of", title=named, method=_method(start.backbone))
    return named


def _titled(start: LaneStart, differing: Sequence[str]) -> Message | str:
    """The title, and where lanes share it what tells them apart: "Draft model, K=2". Of a plain lane
    the title tells already whose model decodes."""
    named = title(start)
    for name in differing:
        if name in start.knobs and name != "backbone":
            value = start.knobs[name]
            knob = (
                message("view.length", n=int(value))
                if name == "num_draft_tokens"
                else knobs_message({name: value})
            )
            named = message("view.with_knob", title=named, knob=knob)
    return named


def own_model(start: LaneStart) -> Message | None:
    """That the lane decodes with another model than the target, if it does."""
    return message("view.own_model", method=_method(start.backbone)) if start.backbone else None


def _method(name: str) -> Message | str:
    key = f"drafter.{name}.title"
    return message(key) if key in table("en") else legible(name)


def family(start: LaneStart) -> str:
    is_tree = start.knobs.get(WIDTH_KNOB, 1) != 1
    return "tree" if is_tree else FAMILIES.get(start.drafter, "tree")


def first_look(lanes: Iterable[LaneSums], baselines: dict[str, LaneSums]) -> list[int]:
    """The fastest lane that drafts, and the fastest of those that draft in another way; by speed-up
    over the plain lane of its own model, without one by tokens per second."""
    drafting = [lane for lane in lanes if lane.num_rounds and not lane.is_plain and lane.seconds]

    def speed(lane: LaneSums) -> tuple[float, float, int]:
        plain = baselines.get(lane.start.backbone)
        is_timed = plain is not None and plain.seconds > 0
        return (
            lane.tally.speedup(plain.tally) if plain is not None and is_timed else 0.0,
            lane.tally.tokens_per_second,
            -lane.start.lane,
        )

    ranked = sorted(drafting, key=speed, reverse=True)
    others = [lane for lane in ranked if family(lane.start) != family(ranked[0].start)]
    return [lane.start.lane for lane in (ranked[:1] + (others or ranked[1:])[:1])]
