"""The page that helps to choose: why decoding is slow, calculators, comparison, guide, checklist.

Each part has a file of its own; this one puts them in order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import gradio as gr

from specviz.config import Catalog
from specviz.ui import calculators, choosing_guide, choosing_slow, choosing_table
from specviz.ui.lab_parts import Runs, recorded_events
from specviz.ui.playback import Recordings
from specviz.ui.side_page import SidePage

PARTS: dict[str, Callable[[SidePage, Catalog, Runs], None]] = {
    "slow": choosing_slow.add,
    "alpha": calculators.add_alpha,
    "cost": calculators.add_cost,
    "table": choosing_table.add,
    "guide": choosing_guide.add,
}


def choosing_page(page: SidePage, catalog: Catalog, recorded: Recordings) -> None:
    """Fill `page`. What is measured comes from the recorded runs, read when the page opens."""
    runs = cache(lambda: recorded_events(recorded))
    for name, add in PARTS.items():
        with gr.Column(elem_id=f"choose-{name}", elem_classes="specviz-lab"):
            page.text(f"choose.{name}.title", elem_classes="specviz-lab-title")
            page.text(f"choose.{name}.about")
            add(page, catalog, runs)
            with page.fold("labs.how"):
                page.text(f"choose.{name}.how")
