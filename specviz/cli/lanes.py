"""Lanes as one word of a command line: drafters separated by commas, each with its knobs.

    autoregressive,draft_model:num_draft_tokens=4:is_adaptive=on,draft_model:num_draft_tokens=8

Which drafters and knobs there are is not known here: `config.checked` compares with the catalog.
"""

from __future__ import annotations

from collections import Counter

from specviz.config import KnobValue, LaneSpec

SWITCH = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}


def parse_lanes(text: str) -> tuple[LaneSpec, ...]:
    """ValueError: what is wrong with the writing."""
    return tuple(_lane(part.strip()) for part in text.split(","))


def _lane(text: str) -> LaneSpec:
    drafter, *settings = (part.strip() for part in text.split(":"))
    if not drafter:
        raise ValueError(
            "A lane of --lanes is empty; write drafters with commas between them, such as "
            "autoregressive,lookahead."
        )
    knobs = tuple(map(_knob, settings))
    for name, count in Counter(name for name, _ in knobs).items():
        if count > 1:
            raise ValueError(f"The lane {text!r} sets {name} {count} times; set it once.")
    return LaneSpec(drafter, knobs)


def _knob(text: str) -> tuple[str, KnobValue]:
    name, _, value = (part.strip() for part in text.partition("="))
    if not name or not value:
        raise ValueError(
            f"A knob of a lane is written :name=value, such as :num_draft_tokens=4; got {text!r}."
        )
    return name, parse_value(value)


def parse_value(text: str) -> KnobValue:
    """A switch, a whole number, a number, or the text itself: whichever it can be read as first."""
    if text.lower() in SWITCH:
        return SWITCH[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
