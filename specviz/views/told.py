"""What a trace says in English, as messages: told in any language if the words are this program's.

A trace of another program, or of another version of this one, stays legible as it stands.
"""

from __future__ import annotations

from collections.abc import Mapping

from specviz.config import KnobValue
from specviz.views.tokens import legible, legible_message
from specviz.words import Message, message, recognised, table


def told(text: str, part: str) -> Message | str:
    """A text that was made of one of the keys that begin with `part`."""
    return legible_message(recognised(text, part))


def knobs_message(knobs: Mapping[str, KnobValue]) -> Message | str:
    """A drafter's settings as the page's controls call them; "" without any."""
    pairs = [
        message("lane.knob", label=_or_else(f"knob.{name}", name), value=_value(name, value))
        for name, value in knobs.items()
    ]
    if not pairs:
        return ""
    first, *rest = pairs
    for pair in rest:
        first = message("lane.knobs", first=first, rest=pair)
    return first


def _value(name: str, value: KnobValue) -> Message | str:
    if isinstance(value, bool):
        return message("lane.knob_on" if value else "lane.knob_off")
    text = str(value)
    return _or_else(f"knob.{name}.{text.replace(' ', '_').replace('-', '_')}", text)


def _or_else(key: str, text: str) -> Message | str:
    return message(key) if key in table("en") else legible(text)
