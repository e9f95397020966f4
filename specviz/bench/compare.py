"""`bench compare`: two saved reports of `bench run`, lane by lane. Nothing is measured here.

Ratios are B over A prompt by prompt, over the prompts that both measured with the same text, so
that a larger set on one side does not pass for a faster lane.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specviz.metrics import Spread, spread

COMPARED = ("machine", "load_average", "commit", "date", "is_complete", "prompts")
GROUPS = ("target", "versions", "settings")  # compared key by key
ABSENT = "nothing"


@dataclass(frozen=True, slots=True)
class SavedReport:
    name: str  # of its file
    facts: dict[str, Any]

    @property
    def lanes(self) -> dict[str, dict[str, Any]]:
        lanes: dict[str, dict[str, Any]] = self.facts["lanes"]
        return lanes

    def prompts(self, lane: str) -> dict[tuple[str, str], dict[str, Any]]:
        """What the lane measured, by a prompt's name and the fingerprint of its text."""
        texts = self.facts.get("prompt_texts", {})
        found = self.lanes.get(lane, {}).get("by_prompt", ())
        return {(entry["prompt"], texts.get(entry["prompt"], "")): entry for entry in found}


@dataclass(frozen=True, slots=True)
class LaneComparison:
    """One lane in both reports; None where a report lacks the lane or the number."""

    name: str
    tau: tuple[float | None, float | None]
    speedup: tuple[float | None, float | None]
    speedup_ratio: Spread | None  # B over A: what the lane gains over its own baseline
    speed_ratio: Spread | None  # B over A, of tokens per second
    num_common: int  # prompts that the ratios are over


@dataclass(frozen=True, slots=True)
class Comparison:
    a: SavedReport
    b: SavedReport

    @property
    def differences(self) -> dict[str, tuple[str, str]]:
        """What was not the same when the two were measured, as words."""
        ours, theirs = (dict(_circumstances(report.facts)) for report in (self.a, self.b))
        pairs = {
            name: (ours.get(name, ABSENT), theirs.get(name, ABSENT)) for name in (*ours, *theirs)
        }
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    @property
    def lanes(self) -> list[LaneComparison]:
        """A's lanes in its order, then those that only B has."""
        return [self._lane(name) for name in dict.fromkeys((*self.a.lanes, *self.b.lanes))]

    @property
    def without_prompts(self) -> list[str]:
        """Reports of a time when single prompts were not kept, so that no ratio can be taken."""
        return [report.name for report in (self.a, self.b) if "prompt_texts" not in report.facts]

    def _lane(self, name: str) -> LaneComparison:
        before, after = self.a.prompts(name), self.b.prompts(name)
        common = [(before[key], after[key]) for key in before if key in after]
        lanes = [report.lanes.get(name, {}) for report in (self.a, self.b)]
        return LaneComparison(
            name=name,
            tau=(lanes[0].get("tau"), lanes[1].get("tau")),
            speedup=(lanes[0].get("speedup"), lanes[1].get("speedup")),
            speedup_ratio=_ratio(common, "speedup"),
            speed_ratio=_ratio(common, "tokens_per_second"),
            num_common=len(common),
        )


def read_report(path: Path) -> SavedReport:
    """ValueError: it is no report of `bench run`. OSError: it cannot be read."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # no UTF-8 is a ValueError, too
        raise ValueError(f"{_not_one(path)} It is not one JSON document.") from error
    if not isinstance(facts, dict) or facts.get("bench") != "run":
        raise ValueError(_not_one(path))
    if (fault := _fault(facts)) is not None:
        raise ValueError(f"{_not_one(path)} {fault}")
    return SavedReport(path.name, facts)


def _not_one(path: Path) -> str:
    return f"{path.name} is no report of `bench run --out`."


def _fault(facts: Mapping[str, Any]) -> str | None:
    """What is missing or of the wrong kind among the things that are read."""
    lanes, texts = facts.get("lanes"), facts.get("prompt_texts", {})
    if not isinstance(lanes, dict) or not all(isinstance(v, dict) for v in lanes.values()):
        return 'Its "lanes" are no object of objects.'
    if not isinstance(texts, dict):
        return 'Its "prompt_texts" are no object.'
    for name, lane in lanes.items():
        if not all(_is_number_or_null(lane.get(key)) for key in ("tau", "speedup")):
            return f"A number of lane {name!r} is none."
        entries = lane.get("by_prompt", [])
        if not isinstance(entries, list) or not all(map(_is_entry, entries)):
            return f'The "by_prompt" of lane {name!r} is damaged.'
    return None


def _is_number_or_null(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value is None or is_number


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("prompt"), str):
        return False
    numbers = [entry.get("speedup"), entry.get("tokens_per_second")]
    return all(n is not None and _is_number_or_null(n) and n > 0 for n in numbers)


def _circumstances(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in COMPARED:
        if name in facts:
            yield name.replace("_", " "), _words(facts[name])
    for group in GROUPS:
        values = facts.get(group)
        for name, value in values.items() if isinstance(values, dict) else ():
            yield f"{group} {name}", _words(value)


def _words(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return value if isinstance(value, str) else json.dumps(value)


def _ratio(common: list[tuple[dict[str, Any], dict[str, Any]]], key: str) -> Spread | None:
    return spread([after[key] / before[key] for before, after in common]) if common else None
