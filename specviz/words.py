"""Every sentence a person reads, by key, in English and Chinese: one set of keys for Python and JS.

The tables are `assets/words/<part>.<language>.json`, flat objects from key to text. In a text,
`{name}` is a value and `{n?token|tokens}` is the first form if n is 1, else the second. What
travels from Python to the browser is a `Message`, a key with its values, so the page can show
what it has in another language without asking anybody. This file decides no wording.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

Language: TypeAlias = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
ASSETS = Path(__file__).parents[1] / "assets"
FOLDER = ASSETS / "words"
PLACE = re.compile(r"\{(\w+)(?:\?([^|{}]*)\|([^{}]*))?\}")
Message: TypeAlias = tuple[str, dict[str, Any]]  # as JSON: [key, {name: text, number or Message}]


def message(key: str, **values: object) -> Message:
    """A sentence that is not in any language yet."""
    return key, values


@cache
def table(language: Language) -> Mapping[str, str]:
    """Key to text. ValueError if two parts have one key."""
    found: dict[str, str] = {}
    for path in sorted(FOLDER.glob(f"*.{language}.json")):
        part: dict[str, str] = json.loads(path.read_text("utf-8"))
        if twice := sorted(set(found) & set(part)):
            raise ValueError(f"{path.name} repeats the key {twice[0]!r} of another part.")
        found |= part
    return found


def word(key: str, language: Language = "en", /, **values: object) -> str:
    """The text of `key` with its values. KeyError: there is no such key, or it lacks a value."""

    def filled(place: re.Match[str]) -> str:
        name, one, many = place.groups()
        value = values[name]
        if one is None:
            return tell(value, language)
        return str(one if value == 1 else many)

    return PLACE.sub(filled, table(language)[key])


def tell(value: object, language: Language = "en") -> str:
    """A message in words; anything else as it stands."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        key, values = value
        return word(key, language, **values)
    return str(value)


def names_in(text: str) -> frozenset[str]:
    """The values that a text of the tables asks for."""
    return frozenset(place.group(1) for place in PLACE.finditer(text))


def script(language: Language = "en") -> str:
    """The same tables for a browser: `assets/words.js`, filled. It stands before what uses it."""
    tables = {name: dict(table(name)) for name in LANGUAGES}
    text = json.dumps(tables, ensure_ascii=True).replace("<", "\\u003c")
    code = (ASSETS / "words.js").read_text("utf-8")
    return f"{code}\nSpecVizWords.load({text}, {json.dumps(language)});\n"
