"""Tokens as text: pieces for chips, a stream of readable text, prompts as ids, stop ids.

Decoding a stream token by token is wrong wherever a character spans tokens. Byte-level tokenizers
are read as bytes, which is exact; any other is decoded one token behind a known one, so its own
rules for spaces hold. Either way the stream adds up to the tokenizer's decoding of all tokens,
special ones skipped, and a step costs the same however long the text is.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from jinja2 import TemplateError

from specviz.words import Refusal, message

BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class TokenText:
    """One tokenizer's tokens, each for itself."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.names: dict[int, str] = {i: name for name, i in tokenizer.get_vocab().items()}
        # Ids the tokenizer defines end here; rows of a head above are padding.
        self.num_known_tokens = max(self.names) + 1
        self.special_ids = frozenset(
            token for token, added in tokenizer.added_tokens_decoder.items() if added.special
        )
        decoders = _decoder_types(tokenizer)
        self.is_byte_level = decoders == {"ByteLevel"}
        self._has_byte_pieces = decoders is None or "ByteFallback" in decoders
        self._pieces: dict[int, str] = {}
        self._anchor = self._ordinary_token()

    def piece(self, token: int) -> str:
        """The token's own text: spaces kept, a lone byte as <0xF0>, a special token by name."""
        if token not in self._pieces:
            self._pieces[token] = self._make_piece(token)
        return self._pieces[token]

    def is_silent(self, token: int) -> bool:
        """Adds nothing to the readable text: special, or an id the tokenizer does not know."""
        return token in self.special_ids or token not in self.names

    def raw_bytes(self, token: int) -> bytes:
        """The bytes of a token of a byte-level vocabulary."""
        name = self.names[token]
        try:
            return bytes(_BYTE_OF_CHARACTER[character] for character in name)
        except KeyError:  # an added token is written as it is, not in the byte alphabet
            return name.encode()

    def lone_byte(self, token: int) -> int | None:
        """The byte that a token like <0xF0> of a sentencepiece vocabulary stands for."""
        match = BYTE_PIECE.fullmatch(self.names[token]) if self._has_byte_pieces else None
        return int(match[1], 16) if match else None

    def decode(self, tokens: Sequence[int]) -> str:
        """The tokenizer's own decoding, special tokens skipped, spaces untouched."""
        text: str = self.tokenizer.decode(
            list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def _make_piece(self, token: int) -> str:
        if token not in self.names:
            return f"<id {token}>"
        if token in self.special_ids:
            return self.names[token]
        if self.is_byte_level:
            return _readable(self.raw_bytes(token))
        byte = self.lone_byte(token)
        if byte is not None:
            return _readable(bytes([byte]))
        return self.decode([self._anchor, token])[len(self.decode([self._anchor])) :]

    def _ordinary_token(self) -> int:
        """Any token with text of its own, to stand before another: the first one is special."""
        ordinary = (
            token
            for token in sorted(self.names)
            if not self.is_silent(token) and self.lone_byte(token) is None
        )
        return next(ordinary, 0)


class StreamDecoder:
    """Readable text as it becomes final, up to the first stop string."""

    def __init__(self, tokenizer: Any, stop_strings: Sequence[str] = ()) -> None:
        tokens = tokenizer if isinstance(tokenizer, TokenText) else TokenText(tokenizer)
        self._source: _Source = (
            _ByteStream(tokens) if tokens.is_byte_level else _PieceStream(tokens)
        )
        self._tokens = tokens
        self._stops = tuple(stop_strings)
        self._held = ""  # final characters that may yet begin a stop string
        self._parts: list[str] = []
        self._num_pushed = 0
        self._stopped_at: int | None = None

    @property
    def text(self) -> str:
        """Everything handed out so far."""
        return "".join(self._parts)

    @property
    def stopped_at(self) -> int | None:
        """How many pushed tokens it took to complete a stop string; None so far."""
        return self._stopped_at

    def push(self, tokens: Iterable[int]) -> str:
        """The text that became final. What comes after a stop string is ignored."""
        return self._hand_out("".join(self._push_one(token) for token in tokens))

    def finish(self) -> str:
        """The text that was held back; half a character shows as U+FFFD."""
        if self._stopped_at is not None:
            return ""
        rest, self._held = self._held + self._source.finish(), ""
        return self._hand_out(rest)

    def _push_one(self, token: int) -> str:
        if self._stopped_at is not None:
            return ""
        self._num_pushed += 1
        if self._tokens.is_silent(token):
            return ""
        final = self._held + self._source.push(token)
        if_ended_here = final + self._source.provisional()
        stop = _first_stop(if_ended_here, self._stops)
        if stop is not None:
            self._stopped_at = self._num_pushed
            return if_ended_here[:stop]
        ready = len(final) - _overlap(final, self._stops)
        self._held = final[ready:]
        return final[:ready]

    def _hand_out(self, text: str) -> str:
        if text:
            self._parts.append(text)
        return text


class _Source(Protocol):
    """Text of a growing list of tokens."""

    def push(self, token: int) -> str:
        """Characters no later token can change."""

    def provisional(self) -> str:
        """Whole characters that stand if the text ends here, though a later token may undo them."""

    def finish(self) -> str:
        """All that is left."""


class _ByteStream:
    """Byte-level vocabularies: the text is the UTF-8 of all bytes, bad ones replaced."""

    def __init__(self, tokens: TokenText) -> None:
        self._tokens = tokens
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        return self._utf8.decode(self._tokens.raw_bytes(token))

    def provisional(self) -> str:
        return ""

    def finish(self) -> str:
        return self._utf8.decode(b"", final=True)


class _PieceStream:
    """Other vocabularies: each token is decoded behind the one before it.

    A run of lone bytes is text only as a whole: one bad byte at its end spoils all of it.
    """

    def __init__(self, tokens: TokenText) -> None:
        self._tokens = tokens
        self._behind: list[int] = []  # the last token whose text is final
        self._run: list[int] = []  # lone bytes since then

    def push(self, token: int) -> str:
        if self._tokens.lone_byte(token) is not None:
            self._run.append(token)
            return ""
        text = self._text_of([*self._run, token])
        self._behind, self._run = [token], []
        return text

    def provisional(self) -> str:
        data = bytes(self._tokens.lone_byte(token) or 0 for token in self._run)
        try:
            data.decode()
        except UnicodeDecodeError:
            return ""
        return self._text_of(self._run) if data else ""

    def finish(self) -> str:
        text, self._run = self._text_of(self._run), []
        return text

    def _text_of(self, tokens: list[int]) -> str:
        before = self._tokens.decode(self._behind)
        return self._tokens.decode([*self._behind, *tokens])[len(before) :]


def encode_prompt(tokenizer: Any, prompt: str, is_chat: bool) -> list[int]:
    """The prompt's token ids: in the model's chat template, or as plain text with its own BOS."""
    try:
        prompt.encode()
    except UnicodeEncodeError as error:
        position = error.start + 1
        raise Refusal(message("refusal.half_character", position=position)) from error
    tokens = _chat_tokens(tokenizer, prompt) if is_chat else list(tokenizer.encode(prompt))
    if tokens:
        return tokens
    if tokenizer.bos_token_id is None:
        raise Refusal(message("refusal.no_tokens"))
    return [int(tokenizer.bos_token_id)]


def _chat_tokens(tokenizer: Any, prompt: str) -> list[int]:
    if not tokenizer.chat_template:
        raise Refusal(message("refusal.no_template"))
    messages = [{"role": "user", "content": prompt}]
    try:
        tokens = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=True, return_dict=False
        )
    except TemplateError as error:
        raise Refusal(message("refusal.template", reason=str(error))) from error
    return list(tokens)


def eos_ids(tokenizer: Any, generation_config: Any) -> frozenset[int]:
    """Ids that end the answer: the tokenizer's, and the one or several the model was saved with."""
    found: set[int] = set()
    for source in (tokenizer, generation_config):
        value = getattr(source, "eos_token_id", None)
        if value is not None:
            found.update([value] if isinstance(value, int) else value)
    return frozenset(found)


def _decoder_types(tokenizer: Any) -> set[str] | None:
    """Steps the tokenizer decodes with; None if it does not say (a tokenizer in pure Python)."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return None
    decoder = json.loads(backend.to_str())["decoder"] or {"type": "none"}
    steps = decoder.get("decoders", [decoder])
    return {step["type"] for step in steps}


def _readable(data: bytes) -> str:
    """UTF-8 text, with each byte that is not part of a whole character as <0xF0>."""
    text = ""
    while data:
        try:
            return text + data.decode()
        except UnicodeDecodeError as error:
            bad = data[error.start : error.end]
            text += data[: error.start].decode() + "".join(f"<0x{byte:02X}>" for byte in bad)
            data = data[error.end :]
    return text


def _first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Where the first stop string in `text` starts."""
    starts = [start for stop in stops if (start := text.find(stop)) >= 0]
    return min(starts, default=None)


def _overlap(text: str, stops: Sequence[str]) -> int:
    """Length of the longest end of `text` that begins a stop string."""
    longest = min(len(text), max(map(len, stops), default=1) - 1)
    ends = (size for size in range(longest, 0, -1) if _begins(stops, text[-size:]))
    return next(ends, 0)


def _begins(stops: Sequence[str], start: str) -> bool:
    return any(stop.startswith(start) for stop in stops)


def _byte_alphabet() -> dict[str, int]:
    """The characters byte-level vocabularies write bytes with (GPT-2's `bytes_to_unicode`).

    Printable bytes stand for themselves; the others follow in order from U+0100.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(0x100 + i): byte for i, byte in enumerate(others)}


_BYTE_OF_CHARACTER = _byte_alphabet()
