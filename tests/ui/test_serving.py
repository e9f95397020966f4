"""The page on the network: a busy machine, before a browser is opened."""

from __future__ import annotations

import threading
import urllib.request
from typing import Any

import anyio
from starlette.middleware import Middleware

from specviz.ui.build import build_ui, launch
from tests.ui.serving import free_port
from tests.ui.sessions import SlowSession

PATIENCE = 30  # seconds; ten times what Gradio gives its own page


class Busy:
    """ASGI middleware: the page, and nothing else, is answered only once `is_over` is set."""

    def __init__(self, app: Any, is_over: threading.Event) -> None:
        self.app, self.is_over = app, is_over

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path") == "/":
            await anyio.to_thread.run_sync(self.is_over.wait, PATIENCE)
        await self.app(scope, receive, send)


def test_a_machine_too_busy_to_answer_itself_serves_the_page_all_the_same() -> None:
    """While a model was loading, the first page took longer than the three seconds that Gradio
    gives it, and the app ended with "When localhost is not accessible, a shareable link must be
    created"."""
    is_over = threading.Event()
    page = build_ui(SlowSession())
    busy = [Middleware(Busy, is_over=is_over)]
    try:
        _, url, _ = launch(
            page,
            "127.0.0.1",
            free_port(),
            prevent_thread_lock=True,
            quiet=True,
            app_kwargs={"middleware": busy},
        )
        is_over.set()
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            assert "SpecViz" in answer.read().decode()
    finally:
        is_over.set()
        page.close(verbose=False)
