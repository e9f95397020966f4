"""What the labs' files share: the runs they take real rows from, their code, their controls' form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import gradio as gr

from specviz.labs.recordings import ChainLane
from specviz.trace import TraceEvent
from specviz.trace_io import load_events
from specviz.ui.playback import Recordings
from specviz.ui.side_page import SidePage
from specviz.ui.speaker import labelled, or_else
from specviz.words import Language, table, word

Events: TypeAlias = dict[str, tuple[TraceEvent, ...]]
Runs: TypeAlias = Callable[[], Events]  # read when first asked for


def recorded_events(recorded: Recordings) -> Events:
    """The events of every recorded run that can be read, by its name."""
    found: Events = {}
    for name in recorded.files:
        with suppress(ValueError):  # a damaged one, which the stage tells of
            found[name] = tuple(load_events(recorded.trace(name) or ""))
    return found


def run_name(run: str, language: Language) -> str:
    """What a recorded run is called, as on the stage."""
    return or_else(f"recording.{run}", run.replace("_", " "))(language)


def lane_name(run: str, lane: ChainLane, language: Language) -> str:
    """A lane of a recorded run; a title that is not this program's own stays as it is."""
    key = f"drafter.{lane.drafter}.title"
    title = word(key, language) if table("en").get(key) == lane.title else lane.title
    return f"{run_name(run, language)}{word('page.comma', language)}{title}"


def offer_of(
    page: SidePage,
    key: str,
    find: Callable[[], Iterable[list[tuple[str, str, str]]]],
    fixed: Sequence[tuple[str, str]] = (),
) -> Any:
    """A list to choose from: `fixed` ones, (key, value), and what `find` gives of recorded runs when
    the page opens, (run, text, value)."""

    def paint(language: Language, found: list[tuple[str, str, str]]) -> list[Any]:
        own = [(word(name, language), value) for name, value in fixed]
        real = [
            (f"{run_name(run, language)}{word('page.comma', language)}{text}", value)
            for run, text, value in found
        ]
        return [gr.update(**labelled(key)(language), choices=[*own, *real])]

    offer = gr.Dropdown(**labelled(key)("en"), value=None)
    page.show([], find, [], [offer], paint, is_quick=True)
    return offer


def radio(page: SidePage, key: str, prefix: str, values: tuple[str, ...]) -> Any:
    """A choice among `values`, each said by the key `prefix` + value; the first is chosen."""
    choices = [(prefix + value, value) for value in values]
    return page.speaker.make(gr.Radio, labelled(key, choices=choices), value=values[0])


def slider(page: SidePage, key: str, low: float, high: float, value: float, step: float) -> Any:
    return page.speaker.make(
        gr.Slider, labelled(key), minimum=low, maximum=high, value=value, step=step
    )


def columns() -> tuple[Any, Any]:
    """Controls beside what they lead to; one above the other on a phone. To be used with `with`."""
    with gr.Row(equal_height=False):
        return (
            gr.Column(scale=1, min_width=280, elem_classes="specviz-lab-controls"),
            gr.Column(scale=2, min_width=300),
        )


def chart() -> Any:
    return gr.Plot(show_label=False, container=False)
