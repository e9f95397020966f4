"""The methods compared: what their makers published beside what was measured here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import gradio as gr

from specviz.bench.compare import read_report
from specviz.config import Catalog
from specviz.labs import recordings
from specviz.ui import charts
from specviz.ui.lab_parts import Runs
from specviz.ui.side_page import SidePage
from specviz.ui.speaker import labelled
from specviz.views.agreement import is_greedy
from specviz.words import Language, Message, Refusal, message, said, tell, word

METHODS = (
    "draft_model",
    "medusa",
    "mtp",
    "eagle",
    "eagle2",
    "eagle3",
    "lookahead",
    "prompt_lookup",
)
COLUMNS = ("method", "extra", "training", "published", "measured", "when")
Measured = dict[str, list[str | Message]]  # method -> what was measured of it, each with where


def add(page: SidePage, catalog: Catalog, runs: Runs) -> None:
    del catalog

    def compute(report: object) -> Iterator[tuple[Measured, bool]]:
        if isinstance(report, str):
            yield of_report(Path(report)), True
        else:
            yield of_runs(runs), False

    report = page.speaker.make(  # gr.File says in English alone how to use it
        gr.UploadButton, labelled("choose.table.report"), file_types=[".json"], size="sm"
    )
    table = gr.Markdown(elem_classes="specviz-methods")
    page.show([report.upload], compute, [report], [table], paint, is_quick=True)


def of_report(path: Path) -> Measured:
    """Median speed-ups by lane of a saved report. Refusal: it is none."""
    try:
        lanes = read_report(path).lanes
    except (ValueError, OSError) as error:
        raise Refusal(said(error)) from error
    found: Measured = {}
    for name, lane in lanes.items():
        method = method_of(name)
        if method and lane.get("speedup") is not None and lane.get("tau") is not None:
            text = f"{lane['speedup']:.2f}× (tau {lane['tau']:.2f}, {name})"
            found.setdefault(method, []).append(text)
    return found


def of_runs(runs: Runs) -> Measured:
    """Over the recorded races that were greedy: drawn texts differ by luck."""
    found: dict[str, list[recordings.LaneSpeed]] = {}
    for events in runs().values():
        if all(is_greedy(start.sampling) for start in recordings.starts(events)):
            for lane in recordings.lane_speeds(events):
                found.setdefault(lane.drafter, []).append(lane)
    return {drafter: [_together(lanes)] for drafter, lanes in found.items()}


def _together(lanes: Sequence[recordings.LaneSpeed]) -> Message:
    speedups = [lane.speedup for lane in lanes]
    return message(
        "choose.table.races",
        n=len(lanes),
        speedup=f"{median(speedups):.2f}",
        low=f"{min(speedups):.2f}",
        high=f"{max(speedups):.2f}",
        tau=f"{median(lane.tau for lane in lanes):.2f}",
    )


def method_of(lane: str) -> str | None:
    """The method whose lane is called so: its own name, or that with something behind."""
    able = [name for name in METHODS if lane == name or lane.startswith((f"{name}-", f"{name} "))]
    return max(able, key=len, default=None)


def paint(language: Language, made: tuple[Measured, bool]) -> list[Any]:
    measured, is_report = made
    head = [word(f"choose.table.column.{name}", language) for name in COLUMNS]
    rows = [
        (
            word(f"drafter.{name}.title", language),
            word(f"choose.table.{name}.extra", language),
            word(f"choose.table.{name}.training", language),
            word(f"choose.table.{name}.published", language),
            "; ".join(tell(one, language) for one in measured.get(name, ())) or "–",
            word(f"choose.table.{name}.when", language),
        )
        for name in METHODS
    ]
    key = "choose.table.of_report" if is_report else "choose.table.of_runs"
    key = key if measured else "choose.table.of_nothing"
    return [f"{charts.table(head, rows)}\n\n{word(key, language)}"]
