"""What `bench run` prints: tables for people, as text or Markdown, and one JSON document.

No number is worked out here: they come from `results.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from specviz.bench.peer_report import peer_facts, peer_parts
from specviz.bench.prompts import BenchPrompt, fingerprint
from specviz.bench.records import Record
from specviz.bench.results import LaneResult, Results
from specviz.bench.table import NONE, TableLines, aligned, markdown, spread_cell
from specviz.metrics import NEAR_TIE_STEPS, DepthAcceptance, Spread, TimeSplit, interval

LANE_COLUMNS = (
    "drafter",
    "tau",
    "speed-up (quartiles)",
    "of totals",
    "rho",
    "accepted",
    "rows",
    "draft / verify / host",
    "identical",
    "prompts",
)
SECONDS_COLUMNS = (
    "drafter",
    "tokens",
    "draft s",
    "verify s",
    "host s",
    "in all s",
    "prefill s",
    "tokens/s",
)

BY_DEPTH = "Accepted by depth, of the rounds that came there (95 % interval, Wilson):"
PARTED = (
    "Where answers differ from the baseline's (a near-tie: the target's two best logits lie within "
    f"{NEAR_TIE_STEPS} steps of its number format, so rounding can decide):"
)


def report_text(results: Results, *, is_markdown: bool) -> str:
    lines = markdown if is_markdown else aligned
    parts = [
        "\n".join(_head(results)),
        "\n".join(lines(LANE_COLUMNS, [_lane_row(lane) for lane in results.lanes.values()])),
    ]
    if results.categories:
        heading = "By category: tau, median speed-up, speed-up of totals."
        parts.append(f"{heading}\n\n{_by_category(results, lines)}")
        heading = "Seconds by category: draft / verify / host."
        parts.append(f"{heading}\n\n{_seconds_by_category(results, lines)}")
        parts.append(f"Sums over all prompts:\n\n{_seconds_table(results, lines)}")
    bullet, gap = ("- ", "\n\n") if is_markdown else ("  ", "\n")
    parts += peer_parts(results, lines, bullet, gap)
    for heading, found in (
        (BY_DEPTH, _depth_lines(results)),
        (PARTED, _parting_lines(results)),
        ("Left out:", [f"{name}: {why}" for name, why in results.setup.left_out.items()]),
        ("Skipped:", _skipped_lines(results)),
    ):
        if found:
            parts.append(heading + gap + "\n".join(bullet + line for line in found))
    return "\n\n".join(parts) + "\n"


def report_json(results: Results) -> str:
    """One line. Seconds are seconds; a number that nothing was measured for is null."""
    start, plan = results.setup.start, results.plan
    facts = {
        "bench": "run",
        "is_complete": results.is_complete,
        "date": start.created,
        "machine": start.machine,
        "load_average": results.load_average,
        "versions": start.versions,
        "commit": ", ".join(results.commits),
        "target": asdict(start.target),
        "settings": {**plan.settings(), "categories": _counts(plan.prompts)},
        "prompts": results.num_prompts,
        "prompt_texts": {prompt.name: fingerprint((prompt,)) for prompt in plan.prompts},
        "skipped": [
            {"prompt": prompt, "reason": reason, "lanes": lanes}
            for prompt, reason, lanes in results.skipped
        ],
        "left_out": results.setup.left_out,
        "lanes": {
            name: _lane_facts(lane, results.categories) for name, lane in results.lanes.items()
        },
        **peer_facts(results),
    }
    return json.dumps(facts, allow_nan=False)


def _lane_facts(result: LaneResult, categories: Sequence[str]) -> dict[str, object]:
    total, lane = result.total, result.lane
    num_steps = sum(r.num_draft_steps for r in result.records)
    step_seconds = sum(r.draft_step_seconds for r in result.records)
    return {
        **_headline(result),
        "baseline": lane.baseline,
        "tau_without_own_token": total.accepted_per_round if result.records else None,
        "rounds": total.num_rounds,
        "rows": total.num_rows,
        "drafted": total.num_drafted,
        "accepted": total.num_accepted,
        "acceptance_rate": total.acceptance_rate,
        "acceptance_by_depth": [
            {
                "depth": d.depth,
                "reached": d.num_reached,
                "accepted": d.num_accepted,
                "rate": d.rate,
                "interval": interval(d.num_accepted, d.num_reached),
            }
            for d in total.depths
        ],
        "draft_steps": num_steps,
        "seconds_per_draft_step": step_seconds / num_steps if num_steps else None,
        "compared": result.num_compared,
        "near_ties": sum(p.is_near_tie for p in result.partings.values()),
        "differences": [{"prompt": n, **asdict(p)} for n, p in result.partings.items()],
        "description": lane.start.description,
        "exactness": lane.start.exactness,
        "knobs": lane.start.knobs,
        "categories": {c: _headline(result.of_category(c)) for c in categories},
        "by_prompt": [_prompt_facts(ours, plain) for ours, plain in result.pairs],
    }


def _prompt_facts(ours: Record, plain: Record) -> dict[str, object]:
    return {
        "prompt": ours.prompt,
        "category": ours.category,
        "tau": ours.tally.tau,
        "speedup": ours.tally.speedup(plain.tally),
        "rho": ours.tally.rho(plain.tally),
        "tokens_per_second": ours.tally.tokens_per_second,
    }


def _headline(result: LaneResult) -> dict[str, object]:
    """What is told of all prompts, and of each category."""
    speedup, rho, total = result.speedup, result.rho, result.total
    return {
        "tau": result.tau,
        "speedup": speedup.median if speedup else None,
        "rho": rho.median if rho else None,
        "identical": result.num_identical,
        "prompts": len(result.records),
        "tokens": total.num_tokens,
        "speedup_quartiles": _quartiles(speedup),
        "speedup_of_totals": result.total_speedup,
        "rho_quartiles": _quartiles(rho),
        "rho_of_totals": result.total_rho,
        "tokens_per_second": total.tokens_per_second if result.records else None,
        "seconds": {**asdict(total.time), "prefill_seconds": result.prefill_seconds},
    }


def _head(results: Results) -> Iterator[str]:
    start, plan = results.setup.start, results.plan
    target = start.target
    whole = "" if results.is_complete else f" of {len(plan.prompts)}, stopped before the end"
    yield (
        f"{target.name} ({target.source}), {target.device}, {target.dtype}; greedy, up to "
        f"{plan.request.max_new_tokens} new tokens; {results.num_prompts} prompts{whole}."
    )
    versions = ", ".join(f"{name} {number}" for name, number in start.versions.items())
    yield f"{start.machine}; {versions}; load average {results.load_average or 0:.2f} at the start."
    yield f"{start.created}, commit {', '.join(results.commits) or 'unknown'}."


def _lane_row(result: LaneResult) -> list[str]:
    total, rho = result.total, result.rho
    name = result.lane.name
    if not result.records:
        return [name, *[NONE] * (len(LANE_COLUMNS) - 2), "0"]
    compared = result.num_compared
    return [
        name,
        f"{total.tau:.2f}",
        spread_cell(result.speedup),
        _times(result.total_speedup),
        f"{rho.median:.2f}" if rho else NONE,
        f"{total.num_accepted}/{total.num_drafted}" if total.num_drafted else NONE,
        f"{total.num_rows / total.num_rounds:.1f}",
        _shares(total.time),
        f"{result.num_identical}/{compared}" if compared else NONE,
        str(len(result.records)),
    ]


def _by_category(results: Results, lines: TableLines) -> str:
    lanes = [lane for name, lane in results.lanes.items() if name != lane.lane.baseline]
    rows = []
    for category in results.categories:
        parts = [lane.of_category(category) for lane in lanes]
        rows.append([category, *map(_category_cell, parts)])
    return "\n".join(lines(["category", *(lane.lane.name for lane in lanes)], rows))


def _category_cell(result: LaneResult) -> str:
    tau, speedup = result.tau, result.speedup
    if tau is None:
        return NONE
    median = speedup.median if speedup else None
    return f"{tau:.2f}, {_times(median)}, {_times(result.total_speedup)}"


def _seconds_by_category(results: Results, lines: TableLines) -> str:
    lanes = list(results.lanes.values())
    rows = [
        [category, *(_seconds_cell(lane.of_category(category).total.time) for lane in lanes)]
        for category in results.categories
    ]
    return "\n".join(lines(["category", *(lane.lane.name for lane in lanes)], rows))


def _seconds_cell(time: TimeSplit) -> str:
    parts = (time.draft_seconds, time.verify_seconds, time.commit_seconds)
    return " / ".join(f"{seconds:.2f}" for seconds in parts)


def _seconds_table(results: Results, lines: TableLines) -> str:
    rows = []
    for name, lane in results.lanes.items():
        total, time = lane.total, lane.total.time
        parts = (time.draft_seconds, time.verify_seconds, time.commit_seconds, time.seconds)
        speed = f"{total.tokens_per_second:.1f}" if lane.records else NONE
        cells = [f"{seconds:.2f}" for seconds in (*parts, lane.prefill_seconds)]
        rows.append([name, str(total.num_tokens), *cells, speed])
    return "\n".join(lines(SECONDS_COLUMNS, rows))


def _depth_lines(results: Results) -> list[str]:
    found = []
    for name, lane in results.lanes.items():
        cells = [_depth_cell(d) for d in lane.total.depths]
        if cells:
            found.append(f"{name}: {', '.join(cells)}")
    return found


def _depth_cell(found: DepthAcceptance) -> str:
    low, high = interval(found.num_accepted, found.num_reached)
    return f"{found.depth}: {found.rate:.2f} ({low:.2f} to {high:.2f}) of {found.num_reached}"


def _parting_lines(results: Results) -> list[str]:
    return [
        f"{name}, prompt {prompt}: at token {parting.position + 1}, top two logits differ by "
        f"{parting.top_two_gap:.3g} ({'a near-tie' if parting.is_near_tie else 'not a near-tie'})"
        for name, lane in results.lanes.items()
        for prompt, parting in lane.partings.items()
    ]


def _skipped_lines(results: Results) -> list[str]:
    num_lanes = len(results.setup.names)
    found = []
    for prompt, reason, lanes in results.skipped:
        who = "" if len(lanes) == num_lanes else f" by {', '.join(lanes)}"
        found.append(f"prompt {prompt}{who}: {reason}")
    return found


def _counts(prompts: Sequence[BenchPrompt]) -> dict[str, int]:
    categories = [prompt.category for prompt in prompts]
    return {category: categories.count(category) for category in dict.fromkeys(categories)}


def _quartiles(spread: Spread | None) -> list[float] | None:
    return [spread.low, spread.high] if spread else None


def _times(ratio: float | None) -> str:
    return NONE if ratio is None else f"{ratio:.2f}x"


def _shares(time: TimeSplit) -> str:
    parts = (time.draft_seconds, time.verify_seconds, time.commit_seconds)
    return " / ".join(f"{seconds / time.seconds:.0%}" for seconds in parts)
