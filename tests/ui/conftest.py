"""What several files of page tests start from: a served page with two recorded runs."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specviz.trace_io import dump_events
from specviz.ui.playback import Recordings
from tests.traces import demo_run
from tests.ui.serving import opened, served, wait_for_text
from tests.ui.sessions import SlowSession


@pytest.fixture
def recorded(tmp_path: Path) -> Recordings:
    folder = tmp_path / "recorded"
    folder.mkdir()
    for name in ("first", "second"):
        text = dump_events(demo_run()).encode()
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(text))
    return Recordings(sorted(folder.iterdir()))


@pytest.fixture
def session() -> SlowSession:
    return SlowSession(seconds=0.01)


@pytest.fixture
def url(session: SlowSession, recorded: Recordings) -> Iterator[str]:
    with served(session, recorded) as address:
        yield address


@pytest.fixture
def page(chromium: Any, url: str) -> Iterator[Any]:
    with opened(chromium, url) as visitor:
        wait_for_text(visitor, "Recorded")
        yield visitor
