"""What `bench engine` prints: lines for people, and one JSON document for scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from statistics import median

from specviz.bench.engine import EngineReport
from specviz.bench.passes import Equality

INDEPENDENT_ROWS = 32  # up to here the packed layers promise that rows do not depend on each other


def engine_text(report: EngineReport) -> str:
    return "\n".join(_lines(report)) + "\n"


def engine_json(report: EngineReport) -> str:
    """One line. Ratios are medians; `reads` holds each context's passes by number of rows."""
    start = report.start
    facts = {
        "bench": "engine",
        "date": start.created,
        "machine": start.machine,
        "load_average": report.load_average,
        "versions": start.versions,
        "commit": start.commit,
        "target": asdict(start.target),
        "settings": asdict(report.plan),
        "plain_vs_transformers": report.plain_vs_transformers,
        "plain_tokens_per_second": _our_speed(report),
        "transformers_tokens_per_second": _their_speed(report),
        "transformers_dtype": report.their_dtype,
        "transformers_tokens_per_second_by_dtype": report.their_speeds,
        "plain_vs_transformers_each": [a.ratio for a in report.alternations],
        "read16_over_read1": report.read_ratio(16),
        "read32_over_read1": report.read_ratio(32),
        "reads": {c: [asdict(cost) for cost in costs] for c, costs in report.reads.items()},
        "trace_overhead": report.trace_overhead,
        "dump_overhead": report.dump_overhead,
        **equality_facts(report.equalities),
    }
    return json.dumps(facts, allow_nan=False)


def equality_facts(equalities: tuple[Equality, ...]) -> dict[str, object]:
    """Headline over passes of up to INDEPENDENT_ROWS rows; every shape beside it."""
    held = [e for e in equalities if e.shape.num_rows <= INDEPENDENT_ROWS]
    return {
        "bitwise_equal": sum(e.num_equal for e in held) / sum(e.num_compared for e in held),
        "argmax_flips": sum(e.num_flips for e in held),
        "compared_rows": sum(e.num_compared for e in held),
        "equality": {
            e.shape.name: {"rows": e.num_compared, "equal": e.num_equal, "flips": e.num_flips}
            for e in equalities
        },
    }


def _lines(report: EngineReport) -> Iterator[str]:
    start, plan = report.start, report.plan
    target = start.target
    yield f"{target.name} ({target.source}), {target.device}, {target.dtype}"
    yield f"  {target.path}"
    yield f"{start.machine}; load average {report.load_average or 0:.2f} at the start"
    yield ", ".join(f"{name} {number}" for name, number in start.versions.items())
    yield f"{start.created}, commit {start.commit or 'unknown'}"
    yield ""
    ratios = sorted(a.ratio for a in report.alternations)
    yield (
        f"Plain decoding: {_our_speed(report):.1f} tokens/s, generate {_their_speed(report):.1f} in "
        f"{report.their_dtype}: {report.plain_vs_transformers:.2f} times as fast"
    )
    speeds = ", ".join(f"{dtype} {s:.1f}" for dtype, s in report.their_speeds.items())
    yield (
        f"  median of {len(ratios)} alternations ({ratios[0]:.2f} to {ratios[-1]:.2f}), up to "
        f"{plan.num_tokens} tokens each, prefill included; generate by dtype: {speeds} tokens/s"
    )
    equal = [a.num_equal_tokens for a in report.alternations]
    yield f"  tokens both wrote alike before the first difference: {', '.join(map(str, equal))}"
    yield ""
    for context, costs in report.reads.items():
        yield f"Reads of n rows (a binary tree) behind {context} tokens, in one-row reads:"
        yield "  " + ", ".join(f"{c.num_rows}: {c.over_one_row:.2f}" for c in costs)
        yield "  milliseconds " + ", ".join(f"{c.num_rows}: {c.milliseconds:.1f}" for c in costs)
    yield f"  medians of {plan.num_rounds} rounds, every size once per round"
    yield ""
    yield f"Recording takes {report.trace_overhead:.1%} of a plain lane's wall time; writing"
    yield f"  its events as JSON would take {report.dump_overhead:.1%} more"
    yield ""
    yield "Rows of larger reads that equal one-row decoding bit for bit, likeliest tokens that flip:"
    for e in report.equalities:
        share = e.num_equal / e.num_compared
        yield f"  {e.shape.name}: {share:.1%} of {e.num_compared} rows, {e.num_flips} flips"


def _our_speed(report: EngineReport) -> float:
    return median(len(a.ours.tokens) / a.ours.answer_seconds for a in report.alternations)


def _their_speed(report: EngineReport) -> float:
    return median(len(a.ours.tokens) / a.their_seconds for a in report.alternations)
