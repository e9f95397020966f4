"""Lab 2 in words: what a better draft pays at a fixed draft length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from specviz.labs import alpha, recordings
from specviz.labs.alpha import AlphaCount, Break
from specviz.theory import expected_tokens
from specviz.ui import charts
from specviz.ui.lab_parts import Runs, chart, columns, lane_name, radio, slider
from specviz.ui.side_page import SidePage
from specviz.words import Language, word

NUM_ROUNDS = 5000
SEED = 23
BREAKS = ("none", "rate", "no_own", "after_refusal")
HEAD = ("alpha", "formula", "counted", "half_interval", "accepted_over_drafted", "share_of_most")


@dataclass(frozen=True, slots=True)
class Found:
    num_draft_tokens: int
    counts: tuple[AlphaCount, ...]
    is_broken: bool
    real: tuple[tuple[str, recordings.ChainLane], ...]


def add(page: SidePage, runs: Runs) -> str:
    def compute(k: float, broken: Break) -> Iterator[Found]:
        yield found(int(k), broken, runs)

    controls, shown = columns()
    with controls:
        length = slider(page, "labs.k", 1, 12, 4, 1)
        broken = radio(page, "labs.broken", "labs.alpha.break.", BREAKS)
        save = page.button("labs.save", size="sm")
    with shown:
        outputs = [gr.Markdown(), chart(), gr.Markdown()]
        page.show(
            [length.change, broken.change], compute, [length, broken], outputs, paint, is_quick=True
        )

    def file(_: Language, k: float, broken: Break) -> tuple[str, str, str]:
        rows = [
            (c.alpha, c.formula, c.mean, c.half, c.acceptance_rate, c.share_of_most)
            for c in found(int(k), broken, runs).counts
        ]
        return "lab-alpha.csv", "text/csv", charts.csv_text(HEAD, rows)

    page.save(save, file, length, broken)
    return alpha.code()


def found(num_draft_tokens: int, broken: Break, runs: Runs) -> Found:
    counts = alpha.sweep(num_draft_tokens, NUM_ROUNDS, SEED, broken)
    lanes = [(n, lane) for n, events in runs().items() for lane in recordings.chain_lanes(events)]
    return Found(num_draft_tokens, counts, broken != "none", tuple(lanes))


def paint(language: Language, made: Found) -> list[Any]:
    k = made.num_draft_tokens
    picture = charts.figure(word("labs.axis.alpha", language), word("labs.axis.tokens", language))
    formula = [expected_tokens(a, k) for a in alpha.GRID]
    charts.line(picture, word("labs.formula_at", language, k=k), alpha.GRID, formula, 0)
    charts.points(
        picture,
        word("labs.counted", language),
        [(c.shown_alpha, c.mean) for c in made.counts],
        1,
        halves=[c.half for c in made.counts],
    )
    lanes = [lane for _, lane in made.real]
    charts.points(
        picture,
        word("labs.alpha.real", language),
        [(lane.alpha.rate, lane.counted) for lane in lanes],
        2,
        texts=[
            f"{lane_name(run, lane, language)}, K ≤ {lane.max_drafted}" for run, lane in made.real
        ],
    )
    head = [word(f"labs.alpha.column.{name}", language) for name in COLUMNS]
    rows = [
        (
            c.alpha,
            f"{c.formula:.2f}",
            f"{c.mean:.2f} ± {c.half:.2f}",
            f"{100 * c.acceptance_rate:.0f} %",
            f"{100 * c.share_of_most:.0f} %",
        )
        for c in made.counts
    ]
    return [_said(language, made), picture, charts.table(head, rows)]


COLUMNS = ("alpha", "formula", "counted", "rate", "share")


def _said(language: Language, made: Found) -> str:
    if made.is_broken:
        worst = max(made.counts, key=_gap)
        key = "labs.alpha.off" if _gap(worst) > 3 * worst.half else "labs.alpha.not_off"
        return word(key, language, gap=f"{_gap(worst):.2f}", alpha=worst.alpha)
    by_alpha = {c.alpha: c.formula for c in made.counts}
    middle = by_alpha[0.85] / by_alpha[0.7]
    upper = expected_tokens(0.925, made.num_draft_tokens) / by_alpha[0.85]  # refusals halved again
    return word(
        "labs.alpha.said",
        language,
        k=made.num_draft_tokens,
        most=made.num_draft_tokens + 1,
        middle=f"{100 * (middle - 1):.0f}",
        upper=f"{100 * (upper - 1):.0f}",
        share=f"{100 * made.counts[-1].share_of_most:.0f}",
    )


def _gap(count: AlphaCount) -> float:
    """How far a point lies from the curve at the place where it is drawn."""
    if count.shown_alpha == count.alpha:
        return abs(count.mean - count.formula)
    return abs(count.alpha - count.shown_alpha) * count.formula
