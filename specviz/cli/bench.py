"""`bench engine`: measures the engine on this machine; the last line is for scripts."""

from __future__ import annotations

import argparse
from typing import TextIO

from specviz.bench.engine import FULL, QUICK, CannotMeasureError, measure_engine
from specviz.bench.report import report_json, report_text
from specviz.cli import DONE, FAILED
from specviz.cli.run import find_target


def bench(options: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    def tell(message: str) -> None:
        err.write(f"{message}\n")
        err.flush()

    plan = QUICK if options.quick else FULL
    try:
        report = measure_engine(find_target(options.target), plan, tell)
    except CannotMeasureError as error:
        tell(str(error))
        return FAILED
    out.write(f"{report_text(report)}\n{report_json(report)}\n")
    return DONE
