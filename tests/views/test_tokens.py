"""What cannot be seen gets a sign, and nothing invisible is left."""

from __future__ import annotations

import unicodedata

import pytest

from specviz.views.tokens import glyphs, legible
from tests.traces import HOSTILE


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" the", "\u2423the"),
        ("\n\n", "\u21b5\u21b5"),
        ("\ta", "\u21e5a"),
        ("\x00", "\u27e80000\u27e9"),
        ("\u202eabc", "\u27e8202E\u27e9abc"),
        ("a\u200bb", "a\u27e8200B\u27e9b"),
        ("\xa0", "\u27e800A0\u27e9"),
        ("\ud83d", "\u27e8D83D\u27e9"),
        ("\U000e0041", "\u27e8E0041\u27e9"),
        ("\u0301", "\u25cc\u0301"),
        ("", "\u2205"),
        ("<0xF0>", "<0xF0>"),
        ("<img src=x>", "<img\u2423src=x>"),
        ("日本", "日本"),
        ("e\u0301", "e\u0301"),
    ],
)
def test_signs(text: str, shown: str) -> None:
    assert glyphs(text) == shown


@pytest.mark.parametrize("text", HOSTILE)
def test_no_hidden_character_is_left(text: str) -> None:
    categories = {unicodedata.category(c) for c in glyphs(text)}
    assert not categories & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}
    glyphs(text).encode("utf-8")


def test_prose_keeps_its_spaces_and_lines() -> None:
    assert legible("a b\nc\x1b[31m\u202e") == "a b\nc\u27e8001B\u27e9[31m\u27e8202E\u27e9"
