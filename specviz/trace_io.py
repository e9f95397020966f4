"""Trace events to JSON Lines and back. A file that is not a trace is refused with a sentence.

Floats are written as Python writes them (shortest text that reads back equal), so a trace
that is loaded and dumped again is the same file.
"""

from __future__ import annotations

import gzip
import json
import math
import types
import typing
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, asdict, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

from specviz.trace import SCHEMA, LaneEnd, LaneStart, RoundTrace, RunEnd, RunStart, TraceEvent
from specviz.words import Refusal, message

EVENT_TYPES: dict[str, type] = {
    "run_start": RunStart,
    "lane_start": LaneStart,
    "round": RoundTrace,
    "lane_end": LaneEnd,
    "run_end": RunEnd,
}
MAX_TRACE_BYTES = 200_000_000


def dump_event(event: TraceEvent) -> str:
    """One line of JSON, ASCII only: lone surrogates and control characters travel escaped."""
    return json.dumps(asdict(event), separators=(",", ":"), allow_nan=False) + "\n"


def dump_events(events: Iterable[TraceEvent]) -> str:
    return "".join(map(dump_event, events))


def load_events(text: str) -> Iterator[TraceEvent]:
    """Events in order. ValueError: not a trace, another schema, or a field that is missing or odd."""
    is_first = True
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        event = _load_line(line, number)
        if is_first and not isinstance(event, RunStart):
            raise Refusal(message("refusal.trace_start"))
        is_first = False
        yield event
    if is_first:
        raise Refusal(message("refusal.trace_empty"))


def without_cut_line(text: str) -> str:
    """The text of a trace without a last line that was cut short, as a copy that broke off leaves it."""
    before, _, last = text.rstrip().rpartition("\n")
    try:
        json.loads(last)
    except (ValueError, RecursionError):
        return before or text
    return text


def read_trace(path: Path) -> str:
    """The text of a trace file, plain or gzipped. ValueError or OSError if it cannot be read."""
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        try:
            with gzip.open(path) as stream:
                raw = stream.read(MAX_TRACE_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            told = message("refusal.trace_gzip", name=path.name, reason=str(error))
            raise Refusal(told) from error
    if len(raw) > MAX_TRACE_BYTES:
        limit = f"{MAX_TRACE_BYTES:,}"
        raise Refusal(message("refusal.trace_size", name=path.name, limit=limit))
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refusal(message("refusal.trace_text", name=path.name)) from error


def _load_line(line: str, number: int) -> TraceEvent:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError) as error:
        key = "refusal.trace_json" if number == 1 else "refusal.trace_broken_line"
        raise Refusal(message(key, number=number)) from error
    kind = raw.get("kind") if isinstance(raw, dict) else None
    if not isinstance(kind, str) or kind not in EVENT_TYPES:
        raise Refusal(message("refusal.trace_kind", number=number, kind=f"{kind!r:.60}"))
    if kind == "run_start" and raw.get("schema") != SCHEMA:
        found = f"{raw.get('schema')!r:.60}"
        raise Refusal(message("refusal.trace_schema", schema=found, known=SCHEMA))
    try:
        event: TraceEvent = _build(EVENT_TYPES[kind], raw)
    except (TypeError, ValueError) as error:
        told = message("refusal.trace_line", number=number, reason=f"{error!s:.400}")
        raise Refusal(told) from error
    return event


def _build(hint: Any, value: Any) -> Any:
    """`value`, parsed from JSON, as `hint`. Only the shapes that traces use; TypeError otherwise."""
    if hint is float and type(value) in (int, float):
        return _finite(value)
    if type(value) is hint:  # most of a trace is such; what follows costs more
        return value
    if is_dataclass(hint):
        return _build_dataclass(hint, value)
    origin = get_origin(hint)
    if origin is tuple:
        return _build_tuple(get_args(hint), value)
    if origin is dict:
        if not isinstance(value, dict):
            raise TypeError(f"expected an object, got {value!r:.60}")
        item = get_args(hint)[1]
        return {str(name): _build(item, v) for name, v in value.items()}
    if origin is typing.Literal:
        if value not in get_args(hint):
            raise TypeError(f"expected one of {get_args(hint)}, got {value!r:.60}")
        return value
    if origin in (typing.Union, types.UnionType):
        return _build_union(get_args(hint), value)
    raise TypeError(f"expected {getattr(hint, '__name__', hint)}, got {value!r:.60}")


def _finite(value: float) -> float:
    """JSON has no NaN and no infinity, but Python's reader takes both, and 1e999 for infinity."""
    try:
        number = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        number = math.inf
    if not math.isfinite(number):
        raise TypeError(f"expected a number, got {value!r:.60}")
    return number


def _build_union(options: tuple[Any, ...], value: Any) -> Any:
    if type(value) in options:  # an exact match wins: 1 stays an int
        return _build(type(value), value)
    for option in options:
        try:
            return _build(option, value)
        except TypeError:
            continue
    raise TypeError(f"expected one of {options}, got {value!r:.60}")


def _build_dataclass(cls: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"expected a {cls.__name__}, got {value!r:.60}")
    hints = _hints(cls)
    if unknown := set(value) - set(hints):
        raise TypeError(f"{cls.__name__} has no field {sorted(unknown)[0]!r}")
    for name in _needed(cls):
        if name not in value:
            raise TypeError(f"{cls.__name__} lacks {name!r}")
    return cls(**{name: _build(hints[name], v) for name, v in value.items()})


def _build_tuple(items: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, got {value!r:.60}")
    if len(items) == 2 and items[1] is Ellipsis:
        return tuple(_build(items[0], v) for v in value)
    if len(items) != len(value):
        raise TypeError(f"expected {len(items)} items, got {len(value)}")
    return tuple(map(_build, items, value))


@cache
def _needed(cls: Any) -> tuple[str, ...]:
    """Names of the fields without a default."""
    own = (f for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING)
    return tuple(f.name for f in own)


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)
