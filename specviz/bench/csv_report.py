"""What `bench run` writes with --csv: one line per prompt and lane, for spreadsheets and scripts.

Seconds are seconds; a cell that nothing was measured for is empty. A peer has the seconds of its
whole call and none of the parts. No number is worked out here.
"""

from __future__ import annotations

import csv
import io
from typing import TypeAlias

from specviz.bench.records import Record
from specviz.bench.results import Results

COLUMNS = (
    "prompt",
    "category",
    "lane",
    "baseline",
    "tokens",
    "rounds",
    "rows",
    "drafted",
    "accepted",
    "tau",
    "speedup",
    "rho",
    "tokens_per_second",
    "draft_seconds",
    "verify_seconds",
    "host_seconds",
    "prefill_seconds",
    "whole_seconds",
    "draft_steps",
    "identical",
    "differs_at_token",
    "top_two_gap",
    "near_tie",
    "commit",
    "failure",
)
Cell: TypeAlias = str | int | float | None


def report_csv(results: Results) -> str:
    """With a header line; prompts in the order they were measured, lanes in the report's."""
    baselines = {lane.name: lane.baseline for lane in results.setup.lanes}
    plain = {(r.prompt, r.lane): r for r in results.records if not r.failure}
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for record in results.records:
        baseline = baselines.get(record.lane, "")
        writer.writerow(_row(record, baseline, plain.get((record.prompt, baseline))))
    return stream.getvalue()


def _row(record: Record, baseline: str, plain: Record | None) -> dict[str, Cell]:
    row: dict[str, Cell] = {
        "prompt": record.prompt,
        "category": record.category,
        "lane": record.lane,
        "baseline": baseline,
        "commit": record.commit,
        "failure": record.failure,
    }
    if record.failure:
        return row
    if record.whole_seconds is not None:
        return row | _of_peer(record) | _agreement(record)
    return row | _measured(record) | ({} if plain is None else _compared(record, plain))


def _of_peer(record: Record) -> dict[str, Cell]:
    """Its rounds are the target's passes."""
    tally = record.tally
    return {
        "tokens": tally.num_tokens,
        "rounds": tally.num_rounds,
        "tau": tally.tau,
        "whole_seconds": record.whole_seconds,
    }


def _measured(record: Record) -> dict[str, Cell]:
    tally = record.tally
    return {
        "tokens": tally.num_tokens,
        "rounds": tally.num_rounds,
        "rows": tally.num_rows,
        "drafted": tally.num_drafted,
        "accepted": tally.num_accepted,
        "tau": tally.tau,
        "tokens_per_second": tally.tokens_per_second,
        "draft_seconds": tally.time.draft_seconds,
        "verify_seconds": tally.time.verify_seconds,
        "host_seconds": tally.time.commit_seconds,
        "prefill_seconds": record.prefill_seconds,
        "draft_steps": record.num_draft_steps,
    }


def _compared(record: Record, plain: Record) -> dict[str, Cell]:
    speeds: dict[str, Cell] = {
        "speedup": record.tally.speedup(plain.tally),
        "rho": record.tally.rho(plain.tally),
    }
    return speeds | _agreement(record)


def _agreement(record: Record) -> dict[str, Cell]:
    parting = record.parting
    if parting is None:
        return {"identical": "yes"}
    return {
        "identical": "no",
        "differs_at_token": parting.position + 1,
        "top_two_gap": parting.top_two_gap,
        "near_tie": "yes" if parting.is_near_tie else "no",
    }
