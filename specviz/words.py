"""Every sentence a person reads, by key, in English and Chinese: one set of keys for Python and JS.

The tables are `assets/words/<part>.<language>.json`, flat objects from key to text. In a text,
`{name}` is a value and `{n?token|tokens}` is the first form if n is 1, else the second. What
travels from Python to the browser is a `Message`, a key with its values, so the page can show
what it has in another language without asking anybody. An error a person may cause is `Told`: it
carries its message, and reads as English. Traces hold English alone; `recognised` finds the message
that a text of theirs was. This file decides no wording.
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
MAX_RECOGNISED = 500  # characters of a text that may be one of ours


class Told(Exception):  # noqa: N818 - what it tells is no error of this program
    """Something that cannot be, told in any language: `str` is the English sentence."""

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return tell(self.message)


class Refusal(Told, ValueError):  # noqa: N818 - it is met as a state of the page
    """What was asked for cannot be had as asked: what was expected, what came, what to do."""


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


def said(error: Exception) -> Message:
    """What an error says to a person. Text of nobody's table stays English, and is called so."""
    return error.message if isinstance(error, Told) else message("engine.says", reason=str(error))


def recognised(text: str, part: str) -> Message | str:
    """The message whose English words `text` is, among the keys that begin with `part`; else `text`.

    Values are recognised in their turn. Keys in such a part have no forms for one and many.
    """
    if len(text) > MAX_RECOGNISED:
        return text
    for key, pattern in _patterns(part):
        if found := pattern.fullmatch(text):
            return key, {name: recognised(v, part) for name, v in found.groupdict().items()}
    return text


@cache
def _patterns(part: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Key and pattern of its English text, the longest text first: the most particular."""
    keys = sorted(
        (k for k in table("en") if k.startswith(part)), key=lambda k: -len(table("en")[k])
    )
    return tuple((key, re.compile(_pattern(table("en")[key]), re.DOTALL)) for key in keys)


def _pattern(text: str) -> str:
    found, end = "", 0
    for place in PLACE.finditer(text):
        found += f"{re.escape(text[end : place.start()])}(?P<{place.group(1)}>.+?)"
        end = place.end()
    return found + re.escape(text[end:])


def names_in(text: str) -> frozenset[str]:
    """The values that a text of the tables asks for."""
    return frozenset(place.group(1) for place in PLACE.finditer(text))


def script(language: Language = "en") -> str:
    """The same tables for a browser: `assets/words.js`, filled. It stands before what uses it."""
    tables = {name: dict(table(name)) for name in LANGUAGES}
    text = json.dumps(tables, ensure_ascii=True).replace("<", "\\u003c")
    code = (ASSETS / "words.js").read_text("utf-8")
    return f"{code}\nSpecVizWords.load({text}, {json.dumps(language)});\n"
