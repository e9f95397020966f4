"""Prompts of a benchmark: read from JSON Lines, and a sample of them that is balanced.

A line is an object with `turns` (the first is used) or `prompt`; `category` and `question_id` or
`id` are optional. No chance is involved, so every machine measures the same sample.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from specviz.words import ASSETS

OWN_PROMPTS = ASSETS / "prompts" / "specviz.jsonl"  # written for SpecViz, never trained on
UNSORTED = "unsorted"  # the category of a prompt that names none


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    name: str  # its question_id or id, or else its line; no two of a file share one
    category: str
    text: str


def read_prompts(path: Path) -> tuple[BenchPrompt, ...]:
    """In the file's order. ValueError: what is wrong, and in which line. OSError: it is not there."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} is not UTF-8 text; prompts are JSON Lines.") from error
    prompts: dict[str, BenchPrompt] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            prompt = _prompt(line, number)
        except ValueError as error:
            raise ValueError(f"Line {number} of {path.name} {error}.") from error
        if prompt.name in prompts:
            raise ValueError(f"Line {number} of {path.name} repeats the id {prompt.name!r}.")
        prompts[prompt.name] = prompt
    if not prompts:
        raise ValueError(f"{path.name} holds no prompts; write one JSON object per line.")
    return tuple(prompts.values())


def balanced(prompts: Sequence[BenchPrompt], limit: int | None) -> tuple[BenchPrompt, ...]:
    """At most `limit` prompts, as many of each category as of any other that has so many.

    Evenly spaced within a category, and the categories taken in turn, so that a benchmark which
    is stopped half-way has measured all of them alike. ValueError: the limit is no count.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"--limit is a whole number from 1; got {limit}.")
    groups: dict[str, list[BenchPrompt]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.category, []).append(prompt)
    shares = _shares([len(group) for group in groups.values()], limit or len(prompts))
    chosen = [_spaced(g, share) for g, share in zip(groups.values(), shares, strict=True)]
    return tuple(p for turn in zip_longest(*chosen) for p in turn if p is not None)


def fingerprint(prompts: Sequence[BenchPrompt]) -> str:
    """SHA-256 of what is measured, in order: two reports with the same one are comparable."""
    facts = [(p.name, p.category, p.text) for p in prompts]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _prompt(line: str, number: int) -> BenchPrompt:
    """ValueError: the second half of a sentence that begins with the line."""
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON ({error})") from error
    if not isinstance(raw, dict):
        raise ValueError("is no JSON object")
    turns = raw.get("turns")
    text = turns[0] if isinstance(turns, list) and turns else raw.get("prompt")
    if not isinstance(text, str) or not text.strip():
        raise ValueError('has no text in "turns" (a list, its first is used) or "prompt"')
    name = raw.get("question_id", raw.get("id", f"line {number}"))
    return BenchPrompt(str(name), str(raw.get("category", UNSORTED)), text)


def _shares(sizes: Sequence[int], total: int) -> list[int]:
    """How many to take of each group: one after another in turn, while there are any."""
    shares = [0] * len(sizes)
    left = min(total, sum(sizes))
    while left:
        for index, size in enumerate(sizes):
            if left and shares[index] < size:
                shares[index] += 1
                left -= 1
    return shares


def _spaced(group: Sequence[BenchPrompt], count: int) -> list[BenchPrompt]:
    """The middle one of each of `count` equal stretches of the group."""
    return [group[(2 * i + 1) * len(group) // (2 * count)] for i in range(count)]
