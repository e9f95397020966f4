"""The pages beside the one with the stage, each at an address of its own. What stands on each is
the business of its own file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr

from specviz.served import ServedSession
from specviz.session import Session
from specviz.ui.benchmark import benchmark_page
from specviz.ui.choosing import choosing_page
from specviz.ui.labs import labs_page
from specviz.ui.playback import Recordings
from specviz.ui.served import served_part
from specviz.ui.side_page import SidePage
from specviz.words import word

# As the address has them; `assets/page_head.js` has them in the order of the way between pages.
PAGES = ("labs", "benchmark", "choose")


def add_pages(
    blocks: Any, session: Session, recorded: Recordings, served: ServedSession | None = None
) -> None:
    """Give `blocks` the further pages. To be called outside of it."""
    contents: dict[str, Callable[[SidePage], None]] = {
        "labs": lambda page: labs_page(page, recorded),
        "benchmark": lambda page: benchmark_page(session, page),
        "choose": lambda page: choosing_page(page, session.catalog(), recorded),
    }
    for name in PAGES:
        with blocks.route(word(f"nav.{name}"), f"/{name}", show_in_navbar=False):
            page = SidePage(name)
            with gr.Column(elem_id=f"specviz-{name}", elem_classes="specviz-side"):
                contents[name](page)
                if served is not None and name == "benchmark":
                    with page.fold("served.title"):
                        served_part(page, served)
            page.finish()
