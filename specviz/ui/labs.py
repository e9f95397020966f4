"""The page of labs: four experiments, each with its controls, its chart, its code and its file.

What they compute is `specviz.labs`; each has a file here that puts its results into words.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import gradio as gr

from specviz.ui import labs_alpha, labs_exact, labs_greedy, labs_masks
from specviz.ui.lab_parts import Runs, recorded_events
from specviz.ui.playback import Recordings
from specviz.ui.side_page import SidePage

LABS: dict[str, Callable[[SidePage, Runs], str]] = {  # each adds itself and returns its code
    "greedy": labs_greedy.add,
    "alpha": labs_alpha.add,
    "exact": labs_exact.add,
    "masks": labs_masks.add,
}


def labs_page(page: SidePage, recorded: Recordings) -> None:
    """Fill `page`. Real rows come from the recorded runs, which are read when a lab asks for them."""
    page.text("labs.about")
    runs = cache(lambda: recorded_events(recorded))
    for name, add in LABS.items():
        with gr.Column(elem_id=f"lab-{name}", elem_classes="specviz-lab"):
            page.text(f"labs.{name}.title", elem_classes="specviz-lab-title")
            page.text(f"labs.{name}.about")
            code = add(page, runs)
            with page.fold("labs.how"):
                page.text(f"labs.{name}.how")
            with page.fold("labs.code"):
                gr.Code(code, language="python", interactive=False, show_label=False)
