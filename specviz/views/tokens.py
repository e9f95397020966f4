"""Token texts made safe and legible: what cannot be seen gets a sign. Not a tokenizer."""

from __future__ import annotations

import unicodedata

from specviz.words import Message

VISIBLE = {" ": "\u2423", "\n": "\u21b5", "\t": "\u21e5"}  # open box, return arrow, tab arrow
HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
EMPTY = "\u2205"  # a token without text of its own


def glyphs(text: str) -> str:
    """`text` with every space, control, bidi, zero-width and unpaired character as a sign.

    A mark that would land on whatever stands before the token gets a dotted circle to sit on.
    """
    if not text:
        return EMPTY
    base = "\u25cc" if unicodedata.category(text[0]) in {"Mn", "Mc", "Me"} else ""
    return base + "".join(map(_sign, text))


def legible(text: str) -> str:
    """Prose for people (a prompt, a message, a name): spaces and line ends stay as they are."""
    return "".join(c if c in " \n" else _sign(c) for c in text)


def legible_message(said: Message | str) -> Message | str:
    """The same for a message: its values are made legible, its key is this program's own."""
    if isinstance(said, str):
        return legible(said)
    key, values = said
    return key, {
        name: value if isinstance(value, int | float) else legible_message(value)
        for name, value in values.items()
    }


def _sign(character: str) -> str:
    if character in VISIBLE:
        return VISIBLE[character]
    if unicodedata.category(character) in HIDDEN_CATEGORIES:
        return f"\u27e8{ord(character):04X}\u27e9"
    return character
