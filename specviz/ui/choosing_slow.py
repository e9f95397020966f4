"""Why decoding is slow, in words: reading against writing, from recorded runs and from this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from specviz.config import Catalog
from specviz.labs import machine, recordings
from specviz.labs.machine import MeasuredMachine
from specviz.labs.recordings import Reading
from specviz.roofline import Pass, distinct_experts, free_rows, most_tokens_per_second
from specviz.ui import charts
from specviz.ui.lab_parts import Runs, chart, columns, slider
from specviz.ui.side_page import SidePage
from specviz.words import Language, Refusal, message, word

COLUMNS = ("run", "read", "write", "ratio")
EXPERTS, CHOSEN = 64, 4  # of the mixture that the sentence on experts speaks of


def add(page: SidePage, catalog: Catalog, runs: Runs) -> None:
    del catalog

    def readings() -> Iterator[list[tuple[str, Reading]]]:
        found = [(name, recordings.reading(events)) for name, events in runs().items()]
        yield [(name, reading) for name, reading in found if reading is not None]

    def measured(billions: float) -> Iterator[tuple[MeasuredMachine, float]]:
        try:
            yield machine.measure(), float(billions)
        except (RuntimeError, MemoryError) as error:  # too little memory, a card that is not ours
            raise Refusal(message("choose.slow.refused")) from error

    recorded = gr.Markdown()
    page.show([], readings, [], [recorded], paint_readings, is_quick=True)
    controls, shown = columns()
    with controls:
        size = slider(page, "choose.slow.size", 0.1, 70, 7, 0.1)
        measure = page.button("choose.slow.measure", variant="primary")
    with shown:
        outputs = [gr.Markdown(), chart()]
        page.show([measure.click], measured, [size], outputs, paint_machine)


def paint_readings(language: Language, found: list[tuple[str, Reading]]) -> list[Any]:
    if not found:
        return [word("labs.no_runs", language)]
    head = [word(f"choose.slow.column.{name}", language) for name in COLUMNS]
    rows = [
        (
            name,
            f"{1000 * r.seconds_per_prompt_token:.2f} ms ({r.num_prompt_tokens})",
            f"{1000 * r.step_seconds:.1f} ms ({r.num_steps})",
            f"{r.step_seconds / r.seconds_per_prompt_token:.0f}×",
        )
        for name, r in found
    ]
    where = f"{found[0][1].machine}, {found[0][1].dtype}"
    said = word("choose.slow.recorded", language, where=where)
    return [f"{said}\n\n{charts.table(head, rows)}"]


def paint_machine(language: Language, made: tuple[MeasuredMachine, float]) -> list[Any]:
    found, billions = made
    model = Pass(round(billions * 1e9), bytes_per_weight=2)
    rows = free_rows(found.machine, 2)
    key = "choose.slow.memory" if model.is_memory_bound(found.machine) else "choose.slow.arithmetic"
    said = word(
        "choose.slow.measured",
        language,
        device=found.description,
        date=found.date,
        bandwidth=f"{found.machine.bytes_per_second / 1e9:.1f}",
        flops=f"{found.machine.flops_per_second / 1e9:.0f}",
        size=f"{billions:g}",
        gigabytes=f"{model.weight_bytes / 1e9:.1f}",
        seconds=f"{model.least_seconds(found.machine):.3g}",
        speed=f"{most_tokens_per_second(found.machine, model, tau=1):.3g}",
        rows=f"{rows:.0f}",
        bound=word(key, language),
        experts=EXPERTS,
        chosen=CHOSEN,
        touched=f"{distinct_experts(EXPERTS, CHOSEN, 8):.0f}",
    )
    picture = charts.figure(
        word("choose.slow.axis.rows", language), word("choose.slow.axis.time", language)
    )
    first = found.reads[0][1]
    counts = [n for n, _ in found.reads]
    name = word("choose.slow.read", language)
    charts.points(picture, name, [(n, 1000 * s) for n, s in found.reads], 1)
    least = [1000 * found.least_seconds(n) for n in counts]
    charts.line(picture, word("choose.slow.roof", language), counts, least, 0)
    one_by_one = [1000 * first * n for n in counts]
    charts.line(picture, word("choose.slow.one_by_one", language), counts, one_by_one, 3)
    picture.update_xaxes(type="log", tickvals=counts)
    picture.update_yaxes(type="log")
    return [said, picture]
