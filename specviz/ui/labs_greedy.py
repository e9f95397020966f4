"""Lab 1 in words: greedy acceptance and the formula for tokens per pass, against counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from specviz.labs import greedy, recordings
from specviz.labs.greedy import Break, GreedyCount
from specviz.ui import charts
from specviz.ui.lab_parts import Runs, chart, columns, lane_name, radio, slider
from specviz.ui.side_page import SidePage
from specviz.words import Language, word

MAX_DRAFT_TOKENS = 8
SEED = 11
BREAKS = ("none", "keep_all", "draft_word")


@dataclass(frozen=True, slots=True)
class Found:
    counts: tuple[GreedyCount, ...]
    real: tuple[tuple[str, recordings.ChainLane], ...]  # (run, lane)


def add(page: SidePage, runs: Runs) -> str:
    def compute(noise: float, broken: Break) -> Iterator[Found]:
        yield found(noise, broken, runs)

    controls, shown = columns()
    with controls:
        noise = slider(page, "labs.noise", 0.0, 2.0, 0.4, 0.1)
        broken = radio(page, "labs.broken", "labs.greedy.break.", BREAKS)
        save = page.button("labs.save", size="sm")
    with shown:
        outputs = [gr.Markdown(), chart(), gr.Markdown()]
        page.show(
            [noise.change, broken.change], compute, [noise, broken], outputs, paint, is_quick=True
        )

    def file(_: Language, noise: float, broken: Break) -> tuple[str, str, str]:
        text = charts.csv_text(HEAD, rows_of(found(noise, broken, runs).counts))
        return "lab-greedy.csv", "text/csv", text

    page.save(save, file, noise, broken)
    return greedy.code()


HEAD = ("K", "alpha", "formula", "counted", "passes", "tokens", "accepted", "same_answers")


def found(noise: float, broken: Break, runs: Runs) -> Found:
    counts = greedy.sweep(SEED, float(noise), MAX_DRAFT_TOKENS, broken)
    lanes = [(n, lane) for n, events in runs().items() for lane in recordings.chain_lanes(events)]
    return Found(counts, tuple(lanes))


def rows_of(counts: Sequence[GreedyCount]) -> list[tuple[object, ...]]:
    return [
        (
            c.num_draft_tokens,
            round(c.alpha, 4),
            round(c.formula, 4),
            round(c.counted, 4),
            c.num_passes,
            c.num_tokens,
            c.num_accepted,
            c.num_same,
        )
        for c in counts
    ]


def paint(language: Language, made: Found) -> list[Any]:
    counts = made.counts
    same = sum(c.num_same for c in counts)
    asked = len(counts) * greedy.NUM_PROMPTS
    key = "labs.greedy.same" if same == asked else "labs.greedy.differ"
    lengths = [c.num_draft_tokens for c in counts]
    picture = charts.figure(word("labs.axis.k", language), word("labs.axis.tokens", language))
    charts.line(picture, word("labs.formula", language), lengths, [c.formula for c in counts], 0)
    charts.points(
        picture,
        word("labs.counted", language),
        [(c.num_draft_tokens, c.counted) for c in counts],
        1,
    )
    at = counts[3]
    said = word(
        key, language, same=same, asked=asked, k=at.num_draft_tokens, alpha=f"{at.alpha:.2f}",
        formula=f"{at.formula:.2f}", counted=f"{at.counted:.2f}",
    )  # fmt: skip
    return [said, picture, _real(language, made)]


def _real(language: Language, made: Found) -> str:
    if not made.real:
        return word("labs.no_runs", language)
    head = [word(f"labs.greedy.column.{name}", language) for name in COLUMNS]
    rows = [
        (
            lane_name(run, lane, language),
            lane.max_drafted,
            f"{lane.alpha.rate:.2f} ({lane.alpha.num_accepted}/{lane.alpha.num_tried})",
            f"{lane.formula:.2f}",
            f"{lane.counted:.2f}",
        )
        for run, lane in made.real
    ]
    return f"{word('labs.greedy.real', language)}\n\n{charts.table(head, rows)}"


COLUMNS = ("lane", "k", "alpha", "formula", "counted")
