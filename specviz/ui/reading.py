"""From fields to a `Request`: what a browser, a link or a program sent, read and checked once.

Values arrive as they were sent, whatever their type; what is not in range is refused with a
sentence that says what was expected, what came and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specviz.config import Catalog, LaneSpec, Request, SamplingParams, checked, choose, shown
from specviz.words import Message, Refusal, message

SAMPLING_FIELDS = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
PLAIN_FIELDS = (
    *("prompt", "is_chat", "precision", "verification", "max_new_tokens", "seed"),
    "is_adaptive",
)
KNOWN_FIELDS = {*SAMPLING_FIELDS, *PLAIN_FIELDS, "lanes", "knobs", "stop_strings", "target"}


def read_request(fields: Mapping[str, object], catalog: Catalog) -> Request:
    """The request these fields ask for. Refusal: what was expected, what came, what to do."""
    if unknown := sorted(set(fields) - KNOWN_FIELDS):
        names = ", ".join(sorted(KNOWN_FIELDS))
        raise Refusal(message("refusal.no_such_setting", name=shown(unknown[0]), names=names))
    values: dict[str, Any] = {name: fields[name] for name in PLAIN_FIELDS if name in fields}
    sampling: dict[str, Any] = {name: fields[name] for name in SAMPLING_FIELDS if name in fields}
    _check_knobs(fields.get("knobs", {}), catalog)
    target = _text(message("field.target"), fields.get("target", catalog.targets[0].name))
    values.setdefault("is_chat", has_chat_template(catalog, target))
    if not isinstance(values["is_chat"], bool):
        raise _refused("refusal.true_or_false", message("field.is_chat"), values["is_chat"])
    request = Request(
        lanes=_lanes(fields.get("lanes"), fields.get("knobs", {})),
        target=target,
        sampling=SamplingParams(**sampling),
        stop_strings=_texts(message("field.stop_strings"), fields.get("stop_strings", [])),
        **values,
    )
    return checked(request, catalog)


def has_chat_template(catalog: Catalog, target: object) -> bool:
    """False for a base model: its prompts are raw text unless somebody says otherwise."""
    return next((t.has_chat_template for t in catalog.targets if t.name == target), True)


def _refused(key: str, name: Message | str, value: object) -> Refusal:
    return Refusal(message(key, name=name, value=shown(value)))


def _text(name: Message, value: object) -> str:
    if not isinstance(value, str):
        raise _refused("refusal.text", name, value)
    return value


def _texts(name: Message, value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _refused("refusal.list", name, value)
    return tuple(_text(message("field.each_of", name=name), item) for item in value)


def _check_knobs(knobs: object, catalog: Catalog) -> None:
    """Settings of a drafter that does not exist or does not run are checked all the same: they are
    a slip of the pen, not something to ignore."""
    if not isinstance(knobs, Mapping) or not all(isinstance(v, Mapping) for v in knobs.values()):
        example = '{"draft_model": {...}}'
        raise Refusal(message("refusal.knobs", example=example, value=shown(knobs)))
    infos = {info.name: info for info in catalog.drafters}
    if unknown := sorted(set(knobs) - set(infos), key=str):
        names = ", ".join(infos)
        raise Refusal(message("refusal.knobs_of_nobody", name=shown(unknown[0]), names=names))
    for drafter, values in knobs.items():
        known = {knob.name: knob for knob in infos[drafter].knobs}
        for name, value in values.items():
            choose(message("field.knob_of", drafter=drafter), name, tuple(known) or ("none",))
            known[name].validated(value)


def _lanes(names: object, knobs: Any) -> tuple[LaneSpec, ...]:
    """A lane per name with the knobs given for its drafter, or per {"drafter": .., "knobs": {..}}:
    so one drafter can run in several lanes."""
    if not isinstance(names, list):
        raise _refused("refusal.list", message("field.lanes"), names)
    return tuple(_lane(lane, knobs) for lane in names)


def _lane(lane: object, knobs: Any) -> LaneSpec:
    if isinstance(lane, dict) and {"drafter"} <= set(lane) <= {"drafter", "knobs"}:
        name, own = lane["drafter"], lane.get("knobs", {})
        if not isinstance(own, dict):
            raise Refusal(message("refusal.lane_knobs", value=shown(own)))
    else:
        name, own = lane, {}
    name = _text(message("field.each_of", name=message("field.lanes")), name)
    values = {**knobs.get(name, {}), **own}
    return LaneSpec(name, tuple((str(k), _knob_value(str(k), v)) for k, v in values.items()))


def _knob_value(name: str, value: object) -> int | float | bool | str:
    if not isinstance(value, (int, float, str)):
        raise _refused("refusal.knob_value", name, value)
    return value
