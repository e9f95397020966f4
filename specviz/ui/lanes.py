"""Which lanes a form asks for: one per ticked drafter, one per lane a visitor set up beside them,
and the plain lane that a drafter with a tuned model of its own is compared with.

It checks nothing: what it makes is read by `specviz.ui.reading`, like what a program sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specviz.config import PLAIN_DRAFTER, Catalog

BACKBONE = "backbone"  # the plain lane's knob: which model decodes


def all_lanes(ticked: object, own: object) -> object:
    """`ticked` names and `own` lanes ({"drafter", "knobs"}) in one list, each of `own` behind the
    ticked one of its drafter. What is no list is handed on, to be refused in words."""
    if not isinstance(ticked, list) or not own:
        return ticked
    if not isinstance(own, list):
        return own
    places = {name: place for place, name in enumerate(ticked) if isinstance(name, str)}
    behind = sorted(own, key=lambda lane: places.get(_drafter(lane), len(ticked)))
    lanes: list[object] = []
    for place, name in enumerate(ticked):
        lanes.append(name)
        lanes.extend(lane for lane in behind if places.get(_drafter(lane)) == place)
    return [*lanes, *(lane for lane in behind if _drafter(lane) not in places)]


def own_backbones(catalog: Catalog) -> tuple[str, ...]:
    """The drafters that decode with a tuned model of their own, so that their speed-up is against
    that model's plain decoding."""
    plain = next((d for d in catalog.drafters if d.name == PLAIN_DRAFTER), None)
    names = {d.name for d in catalog.drafters}
    knobs = [] if plain is None else [k for k in plain.knobs if k.name == BACKBONE]
    return tuple(choice for knob in knobs for choice in knob.choices if choice in names)


def with_baselines(fields: Mapping[str, object], catalog: Catalog) -> dict[str, object]:
    """The same fields with the plain lane of each drafter's own model, where it is not asked for."""
    lanes = fields.get("lanes")
    if not isinstance(lanes, list):
        return dict(fields)
    drafters = {_drafter(lane) for lane in lanes}
    there = {
        _backbone(lane, fields.get("knobs")) for lane in lanes if _drafter(lane) == PLAIN_DRAFTER
    }
    wanted = [name for name in own_backbones(catalog) if name in drafters and name not in there]
    return {**fields, "lanes": [*lanes, *map(_baseline, wanted)]}


def _baseline(name: str) -> dict[str, Any]:
    return {"drafter": PLAIN_DRAFTER, "knobs": {BACKBONE: name}}


def _drafter(lane: object) -> str:
    name = lane.get("drafter") if isinstance(lane, dict) else lane
    return name if isinstance(name, str) else ""


def _backbone(lane: object, knobs: object) -> object:
    own = lane.get("knobs") if isinstance(lane, dict) else None
    shared = knobs.get(PLAIN_DRAFTER) if isinstance(knobs, dict) else None
    for values in (own, shared):
        if isinstance(values, dict) and BACKBONE in values:
            return values[BACKBONE]
    return None
