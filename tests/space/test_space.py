"""The app as a Space runs it: without a home, behind a proxy and a path, with several visitors."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from gradio_client import Client

from specviz.lm import hub_worker
from specviz.presets import DEFAULT_SOURCES
from specviz.trace import LaneEnd, RunEnd, RunStart, TraceEvent
from specviz.trace_io import load_events
from tests.models import tiny_folder
from tests.space.serving import PREFIX, ROOT, proxied, space

SETTINGS = {"lanes": ["autoregressive", "prompt_lookup"], "max_new_tokens": 8}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_folder(tmp_path_factory.mktemp("target") / "tiny"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("space")


@pytest.fixture(scope="module")
def url(folder: Path, tiny: str) -> Iterator[str]:
    with space(folder, "--target", tiny, GRADIO_ROOT_PATH=PREFIX) as here, proxied(here) as there:
        yield there


def traced(url: str, prompt: str, **settings: object) -> list[TraceEvent]:
    client = Client(url, verbose=False, httpx_kwargs={"timeout": 120})
    return list(load_events(client.predict(prompt, SETTINGS | settings, api_name="/trace")))


def test_visitors_behind_a_proxy_run_at_the_same_time_and_get_their_own_runs(url: str) -> None:
    prompts = ["one two three", "four five six", "seven eight nine"]
    with ThreadPoolExecutor(len(prompts)) as visitors:
        traces = list(visitors.map(lambda prompt: traced(url, prompt), prompts))
    for prompt, events in zip(prompts, traces, strict=True):
        assert isinstance(events[0], RunStart)
        assert events[0].request.prompt == prompt
        assert isinstance(events[-1], RunEnd)
        assert sum(isinstance(event, LaneEnd) for event in events) == 2


def test_nothing_is_written_outside_the_cache_folder(url: str, folder: Path) -> None:
    traced(url, "one two three")
    assert list((folder / "work").iterdir()) == []
    assert "Traceback" not in (folder / "log").read_text()
    left = [path for path in (folder / "temp").rglob("*") if path.is_file()]
    assert left == []


def test_the_space_has_just_the_weights_it_reads_baked_in() -> None:
    """The whole repository also holds the weights in ten other forms."""
    settings = (ROOT / "README.md").read_text("utf-8").split("---")[1]
    (line,) = [line.strip(" -") for line in settings.splitlines() if "tokenizer.json" in line]
    repository, names = line.split()
    assert repository == DEFAULT_SOURCES.hub.repository
    wanted = hub_worker.of_target([*names.split(","), "README.md", "onnx/model.onnx"])
    assert sorted(wanted) == sorted(names.split(","))
