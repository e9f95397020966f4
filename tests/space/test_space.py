"""The app as a Space runs it: without a home, behind a proxy and a path; and on ZeroGPU."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from gradio_client import Client

from specviz.lm import hub_worker
from specviz.presets import DEFAULT_SOURCES
from specviz.trace import LaneEnd, RunEnd, RunStart, TraceEvent
from specviz.trace_io import load_events
from tests.models import tiny_folder
from tests.space.serving import PREFIX, ROOT, proxied, space
from tests.ui.serving import SECONDS, opened, stage_text, wait_for_text

STANDIN = os.pathsep.join((str(Path(__file__).parent / "standin"), str(ROOT)))
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


@pytest.mark.browser
def test_the_page_works_under_a_path(chromium: Any, url: str) -> None:
    """Whatever it asks for outside of the path fails here, as the proxy knows nothing else."""
    with opened(chromium, url) as page:
        wait_for_text(page, "Recorded")
        page.click("#specviz-run")
        page.wait_for_selector("#specviz-run", state="visible", timeout=200 * SECONDS)
        wait_for_text(page, "tiny")
        assert "The run ended with" not in stage_text(page)


def test_nothing_is_written_outside_the_cache_folder(url: str, folder: Path) -> None:
    traced(url, "one two three")
    assert list((folder / "work").iterdir()) == []
    assert "Traceback" not in (folder / "log").read_text()
    left = [path for path in (folder / "temp").rglob("*") if path.is_file()]
    assert left == []


def test_on_zero_gpu_all_lanes_share_one_claim_in_a_process_of_its_own(
    tmp_path: Path, tiny: str
) -> None:
    log = tmp_path / "claims"
    zero = {"SPACES_ZERO_GPU": "true", "PYTHONPATH": STANDIN, "STANDIN_LOG": str(log)}
    with space(tmp_path, "--target", tiny, **zero) as url:
        assert not log.exists()  # nobody has come, so no GPU was asked for
        events = traced(url, "one two three")
        assert isinstance(events[-1], RunEnd)
        assert sum(isinstance(event, LaneEnd) for event in events) == 2
        claim, done = map(json.loads, log.read_text().splitlines())
        assert claim["process"] != done["process"]
        assert claim["has_visitor"]  # whose own share it is taken from
        assert claim["seconds"] == 21  # 20 to start, and 0.03 for each of 2 lanes' 8 tokens

        log.unlink()
        client = Client(url, verbose=False, httpx_kwargs={"timeout": 120})
        job = client.submit("one two", SETTINGS | {"max_new_tokens": 90}, api_name="/run")
        while not job.outputs() or '"round"' not in "".join(job.outputs()):
            time.sleep(0.01)
        job.cancel()
        while '"num_results"' not in (log.read_text() if log.exists() else ""):
            time.sleep(0.05)

        with pytest.raises(Exception, match="GPU for 143 seconds"):
            traced(url, "one two three", max_new_tokens=2048)


def test_the_space_has_just_the_weights_it_reads_baked_in() -> None:
    """The whole repository also holds the weights in ten other forms."""
    settings = (ROOT / "README.md").read_text("utf-8").split("---")[1]
    (line,) = [line.strip(" -") for line in settings.splitlines() if "tokenizer.json" in line]
    repository, names = line.split()
    assert repository == DEFAULT_SOURCES.hub.repository
    wanted = hub_worker.of_target([*names.split(","), "README.md", "onnx/model.onnx"])
    assert sorted(wanted) == sorted(names.split(","))
