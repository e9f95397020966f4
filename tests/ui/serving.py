"""The page served on this machine and opened in a browser that tells every trouble it meets."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from specviz.session import Session
from specviz.ui.build import build_ui, launch
from specviz.ui.playback import Recordings
from specviz.ui.warm_up import WarmUp

SECONDS = 1000  # of a browser's milliseconds


@contextmanager
def served(
    session: Session,
    recorded: Recordings | None = None,
    warm_up: WarmUp | None = None,
    port: int | None = None,
) -> Iterator[str]:
    """The address of a page on `session`, at `port` or a free one."""
    # Gradio makes its server anew behind each part of a page and again at the launch, which is the
    # one that serves: a second for each test that serves a page.
    with patch("gradio.blocks.App.create_app"):
        page = build_ui(session, recorded, warm_up)
    try:
        _, url, _ = launch(
            page, "127.0.0.1", port or free_port(), prevent_thread_lock=True, quiet=True
        )
        yield url
    finally:
        page.close(verbose=False)


def free_port() -> int:
    """Ours, not Gradio's search from 7860 on, which leaves a socket open at each port in use."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@contextmanager
def opened(
    browser: Any,
    url: str,
    *,
    width: int = 1280,
    height: int = 900,
    query: str = "",
    touch: bool = False,
    expected: str | None = None,
) -> Iterator[Any]:
    """The page as one visitor sees it, ready for use. Outside requests, script errors and
    lines of the console fail when it is left, but for those that match `expected`."""
    troubles: list[str] = []
    context = browser.new_context(viewport={"width": width, "height": height}, has_touch=touch)
    page = context.new_page()
    page.set_default_timeout(20 * SECONDS)
    page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
    page.on("console", lambda line: troubles.append(f"{line.type}: {line.text}"))
    page.on("request", lambda request: _note_outside(request.url, url, troubles))
    page.goto(f"{url}{query}")
    page.wait_for_function("globalThis.specviz !== undefined")
    try:
        yield page
    finally:
        context.close()
    troubles = [trouble for trouble in troubles if not expected or not re.search(expected, trouble)]
    assert not troubles, troubles


def _note_outside(asked: str, url: str, troubles: list[str]) -> None:
    if not asked.startswith((url.rstrip("/"), "data:", "blob:")):
        troubles.append(f"outside request: {asked}")


def stage_text(page: Any) -> str:
    text: str = page.inner_text(".specviz-stage")
    return text


def wait_for_text(page: Any, text: str, *, seconds: float = 20) -> None:
    """Until the stage shows `text`."""
    page.wait_for_function(
        "(text) => document.querySelector('.specviz-stage').innerText.includes(text)",
        arg=text,
        timeout=seconds * SECONDS,
    )
