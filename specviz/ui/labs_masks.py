"""Lab 4 in words: a tree mask by hand, one pass against a pass per path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from specviz.labs import masks, recordings
from specviz.labs.masks import BREAKS, Break, MaskResult
from specviz.ui import charts
from specviz.ui.lab_parts import Runs, chart, columns, offer_of, radio
from specviz.ui.side_page import SidePage
from specviz.ui.speaker import labelled
from specviz.words import Language, Refusal, word

SEED = 4
TERNARY = "-1, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3"  # depth 2, three candidates per node
FORMS = (  # by the key of their name
    ("labs.masks.form.ternary", TERNARY),
    ("labs.masks.form.chain", "-1, 0, 1, 2, 3, 4"),
    ("labs.masks.form.uneven", "-1, 0, 0, 1, 1, 3, 2, 6"),
)
LEAST_SHOWN = 1e-17  # a logarithmic axis has no 0
HIDDEN, SEEN, TOO_MUCH, MISSING = range(4)
SHADES = ("rgba(128,128,128,0.12)", "#0072b2", "#d55e00", "#e69f00")


def add(page: SidePage, runs: Runs) -> str:
    def compute(parents: str, cells: str, broken: Break) -> Iterator[MaskResult]:
        yield found(parents, cells, broken)

    def forms_there_are() -> Iterator[list[tuple[str, str, str]]]:
        yield [
            (run, title, _listed(tree.parents))
            for run, events in runs().items()
            for title, tree in recordings.real_trees(events)
        ]

    make = page.speaker.make
    controls, shown = columns()
    with controls:
        parents = make(gr.Textbox, labelled("labs.masks.parents"), value=TERNARY, max_lines=3)
        cells = make(gr.Textbox, labelled("labs.masks.cells"), value="", max_lines=1)
        page.trouble_here()
        forms = offer_of(page, "labs.masks.form", forms_there_are, FORMS)
        broken = radio(page, "labs.broken", "labs.masks.break.", BREAKS)
        save = page.button("labs.save", size="sm")
    with shown:
        outputs = [gr.Markdown(), chart(), chart()]
        inputs = [parents, cells, broken]
        changes = [component.change for component in inputs]
        page.show(changes, compute, inputs, outputs, paint, is_quick=True)
    page.save(save, file, *inputs)
    forms.input(
        lambda form: form or gr.skip(),
        inputs=forms,
        outputs=parents,
        preprocess=False,
        show_progress="hidden",
        api_visibility="private",
    )
    return masks.code()


def found(parents: str, cells: str, broken: Break) -> MaskResult:
    tree = masks.read_parents(parents)
    return masks.compare(tree, SEED, broken, masks.read_cells(cells, len(tree)))


def file(_: Language, parents: str, cells: str, broken: Break) -> tuple[str, str, str] | None:
    try:
        made = found(parents, cells, broken)
    except Refusal:  # the page already says what is wrong with it
        return None
    rows = [
        (row, made.tree.parents[row], made.positions[row], made.differences[row])
        for row in range(len(made.tree))
    ]
    return "lab-masks.csv", "text/csv", charts.csv_text(HEAD, rows)


HEAD = ("row", "parent", "position", "largest_difference")


def paint(language: Language, made: MaskResult) -> list[Any]:
    key = "labs.masks.right" if made.is_right else "labs.masks.wrong"
    num_off = sum(difference >= masks.TOLERANCE for difference in made.differences)
    said = word(
        key,
        language,
        largest=f"{made.largest:.1e}",
        rows=len(made.tree),
        passes=made.num_sequential,
        off=num_off,
    )
    return [said, _grid(language, made), _differences(language, made)]


def _grid(language: Language, made: MaskResult) -> Any:
    right = masks.tree_mask(made.tree)
    kinds = [
        [
            (SEEN if may else TOO_MUCH) if sees else (MISSING if may else HIDDEN)
            for sees, may in zip(row, wanted, strict=True)
        ]
        for row, wanted in zip(made.visible.tolist(), right.tolist(), strict=True)
    ]
    seen, looks = word("labs.masks.axis.seen", language), word("labs.masks.axis.row", language)
    picture = charts.figure(seen, looks, margin={"l": 60, "r": 16, "t": 76, "b": 10})
    charts.cells(picture, kinds, SHADES)
    return picture


def _differences(language: Language, made: MaskResult) -> Any:
    picture = charts.figure(
        word("labs.masks.axis.row", language), word("labs.masks.axis.difference", language)
    )
    heights = [max(difference, LEAST_SHOWN) for difference in made.differences]
    off = [made.differences[row] >= masks.TOLERANCE for row in range(len(heights))]
    for key, is_off, number in (("labs.masks.same", False, 2), ("labs.masks.off", True, 1)):
        rows = [row for row in range(len(heights)) if off[row] == is_off]
        charts.bars(picture, word(key, language), rows, [heights[r] for r in rows], number)
    picture.update_yaxes(type="log", exponentformat="power", range=[-17, 1.3])
    return picture


def _listed(parents: tuple[int, ...]) -> str:
    return ", ".join(map(str, parents))
