"""What counts as an English sentence on a Chinese page."""

from __future__ import annotations

import re
from typing import Any

from specviz.words import PLACE, Message, names_in, table, word

VALUE = "\u25a1"
RUN_OF_WORDS = re.compile(r"[A-Za-z]+(?:[ ,]+[A-Za-z]+){2,}")
COMMAND = re.compile(r"`[^`]*`|\u201c[^\u201d]*\u201d")  # what is to be typed or is quoted


def english_in(text: str) -> str:
    """Three Latin words or more in a row, commands and quotes left out; "" if there are none."""
    found = RUN_OF_WORDS.search(COMMAND.sub("", text))
    return found.group() if found else ""


def without_values(said: Message) -> str:
    """A message's Chinese words alone: texts and numbers in it as a box."""
    key, values = said
    return word(key, "zh", **{name: _boxed(value) for name, value in values.items()})


def _boxed(value: Any) -> str:
    return without_values(value) if isinstance(value, tuple) else VALUE


def sample(key: str) -> Message:
    """A message of `key` whose values can be told apart."""
    return key, {name: f"{name}0" for name in sorted(names_in(table("en")[key]))}


def has_forms(key: str) -> bool:
    """Whether the text says one and many differently."""
    return any(place.group(2) is not None for place in PLACE.finditer(table("en")[key]))
