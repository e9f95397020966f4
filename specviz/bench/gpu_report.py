"""What `bench gpu` prints: lines for people, and one JSON document for scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from statistics import mean

from specviz.bench.gpu import Decoding, GpuReport, ModelReport, Replay


def gpu_text(report: GpuReport) -> str:
    return "\n".join(_lines(report)) + "\n"


def gpu_json(report: GpuReport) -> str:
    """One line. Speeds in bytes per second, times in milliseconds."""
    return json.dumps({"bench": "gpu", **asdict(report)}, allow_nan=False)


def _lines(report: GpuReport) -> Iterator[str]:
    machine = report.machine
    yield f"{machine.description} ({machine.device}), {machine.date}"
    yield ", ".join(f"{name} {number}" for name, number in machine.versions.items())
    promised = report.promised_bytes_per_second
    told = "" if promised is None else f", of {promised / 1e12:.2f} TB/s promised"
    yield f"A large copy moves {report.copy_bytes_per_second / 1e12:.3f} TB/s{told}"
    for model in report.models:
        yield ""
        yield from _model_lines(model, report.lengths)
    if report.drafters is not None:
        yield ""
        yield report.drafters.text
    for name, reason in report.skipped.items():
        yield ""
        yield f"{name}: not measured, {reason}"
    yield ""
    yield f"{report.seconds:.0f} seconds in all"


def _model_lines(model: ModelReport, lengths: tuple[int, ...]) -> Iterator[str]:
    size, billions = model.read_bytes / 1e9, model.num_parameters / 1e9
    yield (
        f"{model.name}: {billions:.2f} billion parameters, {model.dtype}, {model.form}; a pass reads "
        f"{size:.2f} GB of weights; {model.seconds:.0f} seconds"
    )
    yield f"  largest gap to the plain path: {model.largest_gap:.2e} of the logits' spread"
    for e in model.equalities:
        yield (
            f"  {e.shape.name} against one-row decoding: {e.num_equal} of {e.num_compared} rows "
            f"equal bit for bit, {e.num_flips} likeliest tokens differ"
        )
    for name, decoding in model.decoding.items():
        yield f"  {name}: {decoding.path}"
        yield f"    plain decoding {decoding.milliseconds:.2f} ms a token, {_share(decoding)}"
        costs = model.reads[name]
        yield "    reads of n rows in one-row reads: " + ", ".join(
            f"{c.num_rows}: {c.over_one_row:.2f}" for c in costs
        )
        yield "    milliseconds " + ", ".join(f"{c.num_rows}: {c.milliseconds:.2f}" for c in costs)
        for replay in model.replays[name]:
            yield f"    {_replay(replay)}"
    yield f"  replays accept {mean(lengths):.2f} tokens a round where that many are drafted"


def _share(decoding: Decoding) -> str:
    told = f"{decoding.share_of_copying:.1%} of what a large copy moves"
    promised = decoding.share_of_promised
    return told if promised is None else f"{promised:.1%} of the promised bandwidth, {told}"


def _replay(replay: Replay) -> str:
    step = replay.draft_step_milliseconds
    steps = "" if step is None else f" ({step:.2f} a step)"
    return (
        f"{replay.plan.name}: tau {replay.tau:.2f}, rho {replay.rho:.2f}, speed-up "
        f"{replay.speedup:.2f}; draft {replay.draft_milliseconds:.2f}{steps}, verify "
        f"{replay.verify_milliseconds:.2f}, commit {replay.commit_milliseconds:.2f} ms a round"
    )
