"""The page of labs: one fold each. What they compute is `specviz.labs`."""

from __future__ import annotations

from specviz.ui.playback import Recordings
from specviz.ui.side_page import SidePage


def labs_page(page: SidePage, recorded: Recordings) -> None:
    del recorded
    page.text("nav.labs.purpose")
