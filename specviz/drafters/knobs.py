"""A drafter's Config fields as knobs: default, range and help stand once, beside the field."""

from __future__ import annotations

from dataclasses import Field, field, fields
from typing import Any

from specviz.config import Knob, KnobValue


def knob(
    default: KnobValue, low: float = 0, high: float = 0, *, help: str, choices: tuple[str, ...] = ()
) -> Any:
    """A field of a drafter's Config: a number from `low` to `high`, a switch, or a choice."""
    return field(default=default, metadata={"low": low, "high": high, "help": help, "of": choices})


def knobs_of(config: type) -> tuple[Knob, ...]:
    return tuple(map(_knob_of, fields(config)))


def _knob_of(f: Field[Any]) -> Knob:
    m = f.metadata
    default: Any = f.default
    return Knob(f.name, m["help"], default, m["low"], m["high"], m["of"])
