"""Why decoding is slow, in words: reading against writing, from recorded runs and from this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from specviz.config import Catalog
from specviz.labs import machine, recordings
from specviz.labs.machine import MeasuredMachine
from specviz.labs.passes import TimedTarget, timed_target
from specviz.labs.recordings import Reading
from specviz.roofline import Pass, distinct_experts, free_rows, most_tokens_per_second
from specviz.ui import charts
from specviz.ui.lab_parts import Runs, chart, columns, run_name, slider
from specviz.ui.side_page import SidePage
from specviz.words import Language, Refusal, message, word

COLUMNS = ("run", "read", "write", "ratio")
EXPERTS, CHOSEN = 64, 4  # of the mixture that the sentence on experts speaks of


@dataclass(frozen=True, slots=True)
class Measured:
    """What the button brings, and what the visitor asked of it."""

    found: MeasuredMachine
    billions: float
    target: TimedTarget | None = None  # the default one, where a run of this machine holds it


def add(page: SidePage, catalog: Catalog, runs: Runs) -> None:
    default = catalog.targets[0].name if catalog.targets else ""

    def readings() -> Iterator[list[tuple[str, Reading]]]:
        found = [(name, recordings.reading(events)) for name, events in runs().items()]
        yield [(name, reading) for name, reading in found if reading is not None]

    def measured(billions: float) -> Iterator[Measured]:
        try:
            found = machine.measure()
        except (RuntimeError, MemoryError) as error:  # too little memory, a card that is not ours
            raise Refusal(message("choose.slow.refused")) from error
        target = timed_target(runs().values(), default, found.description)
        yield Measured(found, float(billions), target)

    recorded = gr.Markdown()
    page.show([], readings, [], [recorded], paint_readings, is_quick=True)
    controls, shown = columns()
    with controls:
        size = slider(page, "choose.slow.size", 0.1, 70, 7, 0.1)
        measure = page.button("choose.slow.measure", variant="primary")
    with shown:
        outputs = [gr.Markdown(), chart(), gr.Markdown(), chart()]
        page.show([measure.click], measured, [size], outputs, paint_machine)


def paint_readings(language: Language, found: list[tuple[str, Reading]]) -> list[Any]:
    if not found:
        return [word("labs.no_runs", language)]
    head = [word(f"choose.slow.column.{name}", language) for name in COLUMNS]
    rows = [
        (
            run_name(name, language),
            f"{1000 * r.seconds_per_prompt_token:.2f} ms ({r.num_prompt_tokens})",
            f"{1000 * r.step_seconds:.1f} ms ({r.num_steps})",
            f"{r.step_seconds / r.seconds_per_prompt_token:.0f}×",
        )
        for name, r in found
    ]
    where = f"{found[0][1].machine}, {found[0][1].dtype}"
    said = word("choose.slow.recorded", language, where=where)
    return [f"{said}\n\n{charts.table(head, rows)}"]


def paint_machine(language: Language, made: Measured) -> list[Any]:
    found, billions = made.found, made.billions
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
    return [said, picture, _passes_said(language, made), _roofline(language, made)]


def _passes_said(language: Language, made: Measured) -> str:
    target = made.target
    if target is None:
        return word("choose.roof.no_run", language, device=made.found.description)
    return word(
        "choose.roof.said",
        language,
        target=target.name,
        device=target.device,
        dtype=target.dtype,
        date=target.date,
        passes="; ".join(
            word(
                f"choose.roof.{one.kind}",
                language,
                rows=one.work.num_rows,
                ms=f"{1000 * one.seconds:.1f}",
                times=one.num_timed,
                intensity=f"{one.work.intensity:.3g}",
                flops=f"{one.flops_per_second / 1e9:.3g}",
                share=f"{100 * one.flops_per_second / made.found.machine.flops_per_second:.0f}",
            )
            for one in target.passes
        ),
    )


def _roofline(language: Language, made: Measured) -> Any:
    """FLOP per byte across, FLOP per second up: the roof, and every pass that was timed."""
    found, passes = made.found, made.target.passes if made.target else ()
    picture = charts.figure(
        word("choose.roof.axis.intensity", language), word("choose.roof.axis.flops", language)
    )
    limits, reads = found.machine, []
    for n, seconds in found.reads:
        one = Pass(found.num_weights, bytes_per_weight=2, num_rows=n)
        reads.append((one.intensity, one.flops / seconds / 1e9))
    across = sorted({limits.ridge, *(x for x, _ in reads), *(p.work.intensity for p in passes)})
    roof = [min(limits.flops_per_second, x * limits.bytes_per_second) / 1e9 for x in across]
    charts.line(picture, word("choose.roof.most", language), across, roof, 0)
    charts.points(picture, word("choose.roof.matrix", language), reads, 1)
    for number, timed in enumerate(passes, start=2):
        name = word(f"choose.roof.name.{timed.kind}", language, rows=timed.work.num_rows)
        at = (timed.work.intensity, timed.flops_per_second / 1e9)
        charts.points(picture, name, [at], number)
    picture.update_xaxes(type="log")
    picture.update_yaxes(type="log")
    return picture
