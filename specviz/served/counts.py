"""What a server says of its own drafts: counters and gauges in Prometheus' format, or timings.

vLLM counts, for everybody it serves, so what it counted meanwhile is the difference of two looks.
SGLang tells running averages. llama.cpp counts each answer by itself.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeAlias

from specviz.metrics import Tally
from specviz.served.client import Client
from specviz.served.events import ServedStart, ServerCounts
from specviz.words import message

LINE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\d+)?$")
POSITION = re.compile(r'position="(\d+)"')
METRICS = "/metrics"
LOOKS, LOOK_AGAIN_SECONDS = 5, 0.2  # counters are written after the last token was sent
Look: TypeAlias = "dict[str, float] | None"  # totals by name; None: the server shows none


def look(client: Client, start: ServedStart) -> Look:
    """What the counters of a vLLM say now."""
    page = client.page(METRICS) if start.kind == "vllm" else None
    return None if page is None else totals(page.text)


def counted(
    client: Client,
    start: ServedStart,
    before: Look,
    timings: dict[str, Any] | None,
    num_tokens: int | None,
) -> ServerCounts:
    """What the server says of a run of `num_tokens` that has just ended."""
    if start.kind == "llamacpp":
        return of_timings(timings)
    if start.kind == "vllm":
        return _of_counters(client, before, num_tokens or 0)
    if start.kind == "sglang":
        return _of_gauges(client)
    return ServerCounts(missing=message("served.tells_nothing"))


def totals(text: str) -> dict[str, float]:
    """Each metric's value summed over its labels; those by position also as name/position."""
    found: dict[str, float] = {}
    for name, labels, value in _lines(text):
        name = name.removesuffix("_total")
        found[name] = found.get(name, 0.0) + value
        if position := POSITION.search(labels):
            key = f"{name}/{position.group(1)}"
            found[key] = found.get(key, 0.0) + value
    return found


def of_timings(timings: dict[str, Any] | None) -> ServerCounts:
    """llama.cpp's own count of one answer. A pass that accepts k drafts makes k + 1 tokens."""
    made, drafted = (timings or {}).get("predicted_n"), (timings or {}).get("draft_n")
    if not isinstance(made, int) or not isinstance(drafted, int):
        return ServerCounts(missing=message("served.no_drafts"))
    accepted = int((timings or {}).get("draft_n_accepted", 0))
    return ServerCounts(Tally(made - accepted, made, drafted, accepted))


def _of_counters(client: Client, before: Look, num_tokens: int) -> ServerCounts:
    """vLLM's counters since `before`. Rounds without a draft are not among them."""
    after = _settled(client, before, num_tokens)
    if before is None or after is None:
        return ServerCounts(missing=message("served.no_metrics", path=METRICS))
    grown = {name: round(value - before.get(name, 0.0)) for name, value in after.items()}
    drafts = grown.get("vllm:spec_decode_num_drafts")
    if not drafts:
        return ServerCounts(missing=message("served.no_drafts"))
    drafted = grown.get("vllm:spec_decode_num_draft_tokens", 0)
    accepted = grown.get("vllm:spec_decode_num_accepted_tokens", 0)
    places = (f"vllm:spec_decode_num_accepted_tokens_per_pos/{n}" for n in range(len(grown)))
    return ServerCounts(
        Tally(drafts, drafts + accepted, drafted, accepted),
        is_shared=grown.get("vllm:generation_tokens", 0) > num_tokens,
        by_position=tuple(grown[place] for place in places if place in grown),
    )


def _settled(client: Client, before: Look, num_tokens: int) -> Look:
    """The counters once they know of `num_tokens` more, or as they are after a moment."""
    name, found = "vllm:generation_tokens", None
    for _ in range(LOOKS):
        page = client.page(METRICS)
        found = None if page is None else totals(page.text)
        if found is None or before is None:
            return found
        if found.get(name, 0.0) - before.get(name, 0.0) >= num_tokens:
            break
        time.sleep(LOOK_AGAIN_SECONDS)
    return found


def _of_gauges(client: Client) -> ServerCounts:
    """SGLang's averages, which are over everything it has served lately."""
    page = client.page(METRICS)
    if page is None:
        return ServerCounts(missing=message("served.no_metrics", path=METRICS))
    values = {name: value for name, _, value in _lines(page.text)}
    length, rate = (values.get(f"sglang:spec_accept_{name}") for name in ("length", "rate"))
    if not length:  # it starts at zero
        return ServerCounts(missing=message("served.no_drafts"))
    return ServerCounts(is_shared=True, mean_length=length, mean_rate=rate)


def _lines(text: str) -> Iterator[tuple[str, str, float]]:
    """(name, labels, value) of each sample; what is no number, as NaN, is left out."""
    for line in text.splitlines():
        if found := LINE.match(line.strip()):
            name, labels, text_of_value = found.groups()
            with suppress(ValueError):
                if math.isfinite(value := float(text_of_value)):
                    yield name, labels or "", value
