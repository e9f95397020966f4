"""What a visitor does with a page, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specviz.words import word
from tests.ui.serving import SECONDS, wait_for_text

PROMPT = "#specviz-prompt textarea"
RUN, STOP = "#specviz-run", "#specviz-stop"
SETTINGS = "#specviz-settings"
SAYING = ".specviz-saying"
FILE = ".specviz-bar input[type=file]"


def run_to_the_end(page: Any, prompt: str) -> None:
    page.fill(PROMPT, prompt)
    page.click(RUN)
    wait_for_text(page, "Live")
    page.wait_for_selector(RUN, state="visible")


def link_of(page: Any) -> str:
    """What "Copy link" gives, read from the box that shows when there is no clipboard."""
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.click(f"text={word('page.copy_link')}")
    page.wait_for_selector(".specviz-link", state="visible")
    link: str = page.input_value(".specviz-link")
    return link


def saved(page: Any, form: str) -> tuple[str, bytes]:
    """(file name, content) of what "Save as" gives."""
    page.click(".specviz-tools summary")
    with page.expect_download() as got:
        page.click(f".specviz-menu-item[data-form={form}]")
    return got.value.suggested_filename, Path(got.value.path()).read_bytes()


def import_file(page: Any, name: str, content: bytes) -> None:
    page.set_input_files(FILE, {"name": name, "mimeType": "text/plain", "buffer": content})


def wait_told(page: Any, text: str, *, seconds: float = 20) -> None:
    """Until `text` is told beside Run."""
    page.wait_for_function(
        "(text) => document.querySelector('.specviz-told').textContent.includes(text)",
        arg=text,
        timeout=seconds * SECONDS,
    )


def unfold(page: Any) -> None:
    """Opens the fold of all settings."""
    page.click(SETTINGS)
    page.wait_for_selector("#specviz-more", state="visible")


def saying(page: Any, start: str) -> str:
    page.wait_for_function(
        "(start) => document.querySelector('.specviz-saying').textContent.includes(start)",
        arg=start,
    )
    text: str = page.inner_text(SAYING)
    return text
