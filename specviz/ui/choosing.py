"""The page that helps to choose: why decoding is slow, calculators, comparison, guide, checklist."""

from __future__ import annotations

from specviz.config import Catalog
from specviz.ui.playback import Recordings
from specviz.ui.side_page import SidePage


def choosing_page(page: SidePage, catalog: Catalog, recorded: Recordings) -> None:
    del catalog, recorded
    page.text("nav.choose.purpose")
