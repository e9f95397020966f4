"""Components with words on them: made in English, and said again in another language on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import gradio as gr

from specviz.words import Language, table, word

Spoken: TypeAlias = Callable[[Language], dict[str, Any]]


class Speaker:
    """Remembers what each component says. It sets no values."""

    def __init__(self) -> None:
        self._spoken: list[tuple[Any, Spoken]] = []

    def make(self, kind: Callable[..., Any], spoken: Spoken, **fixed: Any) -> Any:
        """A component of `kind` whose wording is `spoken`."""
        component = kind(**spoken("en"), **fixed)
        self._spoken.append((component, spoken))
        return component

    def components(self) -> list[Any]:
        return [component for component, _ in self._spoken]

    def updates(self, language: Language, values: Mapping[Any, object]) -> list[Any]:
        """For each component, in order: its words in `language`, and its value where one is given."""
        return [
            gr.update(**spoken(language), **({"value": values[c]} if c in values else {}))
            for c, spoken in self._spoken
        ]


def labelled(key: str, **choices: list[tuple[str, Any]]) -> Spoken:
    """Label `key`, help `key.help` if there is one, and choices given as (key, value)."""

    def spoken(language: Language) -> dict[str, Any]:
        said: dict[str, Any] = {"label": word(key, language)}
        if f"{key}.help" in table("en"):
            said["info"] = word(f"{key}.help", language)
        for name, pairs in choices.items():
            said[name] = [(word(k, language), value) for k, value in pairs]
        return said

    return spoken


def or_else(key: str, text: str) -> Callable[[Language], str]:
    """The text of `key`, or `text` as its owner wrote it where the tables do not know it."""
    return lambda language: word(key, language) if key in table("en") else text
