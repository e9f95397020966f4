"""`bench engine | run | compare | gpu`: measure on this machine, or compare; the last line is for scripts."""

from __future__ import annotations

import argparse
import threading
from pathlib import Path
from typing import TextIO

from specviz.bench import CannotMeasureError
from specviz.bench.compare import Comparison, read_report
from specviz.bench.compare_report import comparison_json, comparison_text
from specviz.bench.csv_report import report_csv
from specviz.bench.engine import FULL, QUICK, measure_engine
from specviz.bench.engine_report import engine_json, engine_text
from specviz.bench.gpu import measure_gpu
from specviz.bench.gpu_plan import full_plan, miniature_plan
from specviz.bench.gpu_report import gpu_json, gpu_text
from specviz.bench.lane_run import StoppedError
from specviz.bench.prompts import balanced, read_prompts
from specviz.bench.records import PartialFile
from specviz.bench.report import report_json, report_text
from specviz.bench.results import Results
from specviz.bench.run import (
    PLAIN,
    WARM_UP_PROMPT,
    WARM_UP_TOKENS,
    Benchmark,
    Plan,
    planned_lanes,
)
from specviz.bench.sitting import MakePeers, sit
from specviz.bench.stock_peers import DraftSource, stock_peers
from specviz.cli import DONE, FAILED, INTERRUPTED
from specviz.cli.bench_progress import BenchProgress
from specviz.cli.lanes import parse_lanes
from specviz.cli.run import check_out, find_target, interrupts, open_session, with_places
from specviz.config import Request, TargetSpec
from specviz.session import LiveSession

EVERY_DRAFTER = "all"


def bench(options: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    try:
        return KINDS[options.bench](options, out, err)
    except CannotMeasureError as error:
        err.write(f"{error}\n")
        return FAILED


def _bench_engine(options: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    def tell(message: str) -> None:
        err.write(f"{message}\n")
        err.flush()

    report = measure_engine(find_target(options.target), QUICK if options.quick else FULL, tell)
    out.write(f"{engine_text(report)}\n{engine_json(report)}\n")
    return DONE


def _bench_gpu(options: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    def tell(message: str) -> None:
        err.write(f"{message}\n")
        err.flush()

    check_out(options.out)
    report = measure_gpu(miniature_plan() if options.miniature else full_plan(), tell)
    document = gpu_json(report)
    if options.out is not None:
        options.out.write_text(f"{document}\n", encoding="utf-8")
    out.write(f"{gpu_text(report)}\n{document}\n")
    return DONE


def _bench_run(options: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    check_out(options.out)
    check_out(options.csv, "--csv")
    target = find_target(options.target)
    options = with_places(options, err)
    session = open_session(target, options.draft, options.drafters)
    plan = plan_of(options, target.name, session)
    stop = threading.Event()
    progress = BenchProgress(err)
    benchmark = Benchmark(session, plan, progress, stop.is_set)
    kept = partial_file(options.out)
    if kept is not None:
        kept.load(plan.settings())  # refused before anything is loaded
    try:
        with interrupts(stop.set, err):
            results = sit(benchmark, kept, _peers(options, target, progress))
    except StoppedError:
        err.write("Nothing was measured.\n")
        return INTERRUPTED
    finally:
        progress.close()
    return _report(results, options, kept, out, err)


def _peers(
    options: argparse.Namespace, target: TargetSpec, progress: BenchProgress
) -> MakePeers | None:
    if not options.peers:
        return None
    drafts = DraftSource(options.draft, options.drafters, target.name)
    num_tokens = min(WARM_UP_TOKENS, options.budget)
    return lambda setup: stock_peers(target, setup, drafts, num_tokens, progress.tell)


def _bench_compare(options: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    del err
    comparison = Comparison(read_report(options.a), read_report(options.b))
    text = comparison_text(comparison, is_markdown=options.markdown)
    out.write(f"{text}\n{comparison_json(comparison)}\n")
    return DONE


def plan_of(options: argparse.Namespace, target: str, session: LiveSession) -> Plan:
    """ValueError: an option or the file of prompts cannot be used."""
    request = Request(
        prompt=WARM_UP_PROMPT,
        lanes=(PLAIN,),
        target=target,
        is_chat=not options.raw,
        precision=options.precision,
        max_new_tokens=options.budget,
        seed=options.seed,
    )
    is_every_drafter = options.lanes == EVERY_DRAFTER
    asked = None if is_every_drafter else parse_lanes(options.lanes)
    return Plan(
        request=request,
        lanes=planned_lanes(asked, request, session.catalog()),
        is_every_drafter=is_every_drafter,
        prompts=balanced(read_prompts(options.prompts), options.limit),
        is_with_peers=options.peers,
    )


def partial_file(out: Path | None) -> PartialFile | None:
    """Beside the report to be; without one nothing is kept."""
    return None if out is None else PartialFile(out.with_name(f"{out.name}.partial.jsonl"))


def _report(
    results: Results,
    options: argparse.Namespace,
    kept: PartialFile | None,
    out: TextIO,
    err: TextIO,
) -> int:
    document = report_json(results)
    if options.csv is not None:
        options.csv.write_text(report_csv(results), encoding="utf-8")
    out.write(f"{report_text(results, is_markdown=options.markdown)}\n{document}\n")
    if not results.is_complete:
        if kept is not None:
            err.write(f"The same command goes on from here; see {kept.path.name}.\n")
        return INTERRUPTED
    if kept is not None:
        options.out.write_text(f"{document}\n", encoding="utf-8")
        kept.remove()
    return DONE


KINDS = {
    "engine": _bench_engine,
    "run": _bench_run,
    "compare": _bench_compare,
    "gpu": _bench_gpu,
}
