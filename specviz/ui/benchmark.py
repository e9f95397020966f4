"""The page that measures: lanes alone, prompt by prompt."""

from __future__ import annotations

from specviz.session import Session
from specviz.ui.side_page import SidePage


def benchmark_page(session: Session, page: SidePage) -> None:
    """Fill `page`. For `page.show`, `page.text`, `page.save` see `side_page.SidePage`."""
    del session
    page.text("nav.benchmark.command")
