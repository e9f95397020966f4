"""What `bench compare` prints: what differs, a table, and one JSON document. No number is made here."""

from __future__ import annotations

import json
from dataclasses import asdict

from specviz.bench.compare import Comparison, LaneComparison
from specviz.bench.table import NONE, aligned, markdown, spread_cell

COLUMNS = (
    "drafter",
    "tau A",
    "tau B",
    "speed-up A",
    "speed-up B",
    "B / A of speed-ups (quartiles)",
    "B / A of tokens/s (quartiles)",
    "common prompts",
)


def comparison_text(comparison: Comparison, *, is_markdown: bool) -> str:
    table, bullet = (markdown, "- ") if is_markdown else (aligned, "  ")
    gap = "\n\n" if is_markdown else "\n"
    differences = [
        f"{name}: {before} in A, {after} in B"
        for name, (before, after) in comparison.differences.items()
    ]
    parts = [f"A is {comparison.a.name}, B is {comparison.b.name}."]
    if differences:
        parts.append("What differs:" + gap + "\n".join(bullet + line for line in differences))
    else:
        parts.append("Machine, versions, target and settings are the same.")
    parts.append("\n".join(table(COLUMNS, [_row(lane) for lane in comparison.lanes])))
    if comparison.without_prompts:
        names = " and ".join(comparison.without_prompts)
        parts.append(f"No ratio over prompts: {names} holds no single prompts; measure it anew.")
    return "\n\n".join(parts) + "\n"


def comparison_json(comparison: Comparison) -> str:
    """One line. A spread is its quartiles and median; what cannot be said is null."""
    facts = {
        "bench": "compare",
        "a": comparison.a.name,
        "b": comparison.b.name,
        "differs": {name: list(pair) for name, pair in comparison.differences.items()},
        "lanes": {
            lane.name: {
                "tau": list(lane.tau),
                "speedup": list(lane.speedup),
                "speedup_ratio": asdict(lane.speedup_ratio) if lane.speedup_ratio else None,
                "tokens_per_second_ratio": asdict(lane.speed_ratio) if lane.speed_ratio else None,
                "common_prompts": lane.num_common,
            }
            for lane in comparison.lanes
        },
    }
    return json.dumps(facts, allow_nan=False)


def _row(lane: LaneComparison) -> list[str]:
    return [
        lane.name,
        *(NONE if tau is None else f"{tau:.2f}" for tau in lane.tau),
        *(NONE if ratio is None else f"{ratio:.2f}x" for ratio in lane.speedup),
        spread_cell(lane.speedup_ratio),
        spread_cell(lane.speed_ratio),
        str(lane.num_common),
    ]
