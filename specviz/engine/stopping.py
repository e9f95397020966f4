"""Where a lane's text ends: exactly at a stop token or string, the budget, or the context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.lm.text import StreamDecoder, TokenText
from specviz.trace import EndReason


@dataclass(frozen=True, slots=True)
class Cut:
    num_tokens: int  # how many of the offered tokens are committed
    text: str  # readable text that became final with them
    reason: EndReason | None  # why the lane ends here; None if it goes on


class StopRule:
    """Counts and decodes what one lane commits, and says where it must end."""

    def __init__(
        self,
        text: TokenText,
        *,
        eos: frozenset[int],
        stop_strings: Sequence[str],
        budget: int,
        room: int,
    ) -> None:
        self.decoder = StreamDecoder(text, stop_strings)
        self.eos = eos
        self.budget = budget
        self.room = room  # tokens the context still holds
        self.num_tokens = 0

    @property
    def num_left(self) -> int:
        """Tokens that can still be committed."""
        return min(self.budget, self.room) - self.num_tokens

    @property
    def text(self) -> str:
        return self.decoder.text

    def offer(self, tokens: Sequence[int]) -> Cut:
        """Commit these tokens, up to the first that ends the text."""
        parts = []
        for count, token in enumerate(tokens, start=1):
            self.num_tokens += 1
            parts.append(self.decoder.push([token]))
            reason = self._reason_after(token)
            if reason is not None:
                parts.append(self.decoder.finish())
                return Cut(count, "".join(parts), reason)
        return Cut(len(tokens), "".join(parts), None)

    def _reason_after(self, token: int) -> EndReason | None:
        if token in self.eos or self.decoder.stopped_at is not None:
            return "stop"
        if self.num_tokens >= self.budget:
            return "length"
        return "context" if self.num_tokens >= self.room else None
