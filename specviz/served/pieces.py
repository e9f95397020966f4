"""From the pieces of an answer to steps: which tokens arrived together, and how many they are.

vLLM and SGLang send what a pass of theirs made in one piece, with the number of tokens so far in its
`usage`; llama.cpp sends a piece for each token, and tokens of one pass share the number in its
`timings`. So a step is all that arrives before that number grows again. A server that tells no number
is taken piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from specviz.served.events import ServedStep


@dataclass(slots=True)
class Steps:
    """Folds pieces into steps, each told when the next begins or the answer ends."""

    num_tokens: int | None = None  # so far
    first_seconds: float | None = None
    last_seconds: float = 0.0
    finish: str = ""  # the server's own word for why it ended
    timings: dict[str, Any] | None = None  # the latest, of llama.cpp
    _index: int = 0
    _open: ServedStep | None = None

    def add(self, piece: dict[str, Any], seconds: float) -> Iterator[ServedStep]:
        """The step that this piece completes, if it does."""
        text = self._text(piece)
        grown = self._grown(piece)
        if not text and not grown:
            return
        if self.first_seconds is None:
            self.first_seconds = seconds
        self.last_seconds = seconds
        if self._open is not None and grown == 0:
            kept = self._open
            self._open = ServedStep(kept.index, kept.seconds, kept.text + text, kept.num_tokens)
            return
        yield from self.rest()
        self._open = ServedStep(self._index, seconds, text, grown)
        self._index += 1

    def rest(self) -> Iterator[ServedStep]:
        """The step that is still open, once nothing follows."""
        if self._open is not None:
            yield self._open
        self._open = None

    def _text(self, piece: dict[str, Any]) -> str:
        choices = piece.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else {}
        self.finish = str(choice.get("finish_reason") or self.finish)
        delta = choice.get("delta") or {}
        parts = (delta.get("reasoning_content") or delta.get("reasoning"), delta.get("content"))
        return "".join(str(part) for part in (*parts, choice.get("text")) if part)

    def _grown(self, piece: dict[str, Any]) -> int | None:
        """By how many tokens the answer has grown since the last piece; None if nobody says."""
        usage, timings = piece.get("usage") or {}, piece.get("timings")
        if isinstance(timings, dict):
            self.timings = timings
        told = (timings or {}).get("predicted_n", usage.get("completion_tokens"))
        if not isinstance(told, int):
            return None if self.num_tokens is None else 0
        grown = told - (self.num_tokens or 0)
        self.num_tokens = told
        return grown if piece.get("choices") else 0  # a last word on the whole brings no token
