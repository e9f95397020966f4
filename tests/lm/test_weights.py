"""Weights over the Hub's interface: taken, refused, broken off, shared, and no network at all."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from filelock import FileLock
from transformers import AutoModelForCausalLM, AutoTokenizer

from specviz.lm.weights import Checkpoint, fetch_from
from specviz.presets import WeightSources
from specviz.words import tell
from tests.lm.standins import (
    FROM_HUB,
    REPOSITORY,
    SPEC,
    HubServer,
    children,
    drained,
    get,
    tiny_sources,
    unavailable,
)


def test_the_hub_gives_a_checkpoint_that_loads(
    hub: HubServer, sources: WeightSources, own_cache: Path
) -> None:
    checkpoint, told = drained(fetch_from(sources, SPEC))
    assert checkpoint == Checkpoint(own_cache / "tiny", FROM_HUB)
    AutoModelForCausalLM.from_pretrained(checkpoint.folder, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint.folder, local_files_only=True)
    assert tokenizer.chat_template
    assert sorted(p.name for p in own_cache.iterdir()) == ["tiny", "tiny.lock"]
    assert {p.stage for p in told} == {"fetch"}
    asked = {path for _, path, _ in hub.requests}  # and nothing else: no telemetry
    assert all(REPOSITORY in path for path in asked)


@pytest.fixture
def big_hub(hub: HubServer, tmp_path: Path) -> HubServer:
    """A hub with one file larger than the 10 MB that its library writes at a time."""
    hub.folder = Path(shutil.copytree(hub.folder, tmp_path / "big"))
    hub.slow = "vocab.json"
    (hub.folder / hub.slow).write_bytes(b"{}" + b" " * 30_000_000)
    return hub


def test_progress_names_source_and_size_and_counts_bytes(
    big_hub: HubServer, sources: WeightSources
) -> None:
    hub = big_hub
    hub.seconds_per_chunk = 0.0005
    _, told = drained(fetch_from(sources, SPEC))
    size = sum(p.stat().st_size for p in hub.folder.iterdir())
    counted = [p for p in told if p.total]
    assert {p.total for p in counted} == {size}
    assert len({p.done for p in counted}) > 2
    assert [p.done for p in counted] == sorted(p.done for p in counted)
    assert counted[-1].done <= size
    assert f"the Hub ({REPOSITORY}, {size / 1e6:.1f} MB)" in tell(counted[-1].message)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_file_that_is_not_what_the_hub_lists_is_refused(
    hub: HubServer, sources: WeightSources, own_cache: Path, name: str
) -> None:
    hub.tampered = {name}
    told = unavailable(sources)
    assert f"{name} has hash" in told
    assert not (own_cache / "tiny").exists()


def test_another_model_under_the_same_name_is_refused(
    hub: HubServer, own_cache: Path, sources: WeightSources
) -> None:
    other = tiny_sources(sources.wheel, intermediate_size=128)
    assert "intermediate_size is 96, not 128" in unavailable(other)
    assert not (own_cache / "tiny").exists()


def test_a_transfer_that_breaks_off_goes_on_where_it_was(
    big_hub: HubServer, sources: WeightSources
) -> None:
    big_hub.cuts = 1
    folder = get(sources).folder
    first, second = big_hub.gets(big_hub.slow)
    assert not first
    start = int(second.removeprefix("bytes=").removesuffix("-"))
    assert 10_000_000 < start <= 15_000_001
    served = (big_hub.folder / big_hub.slow).read_bytes()
    assert (folder / big_hub.slow).read_bytes() == served


def fetch_elsewhere(sources: WeightSources) -> subprocess.Popen[str]:
    """The same fetch in a process of its own, which prints its progress and then its source."""
    code = (
        "from specviz.lm.weights import fetch_from\n"
        "from specviz.presets import *\n"
        "from specviz.config import TargetSpec\n"
        f"steps = fetch_from({sources!r}, {SPEC!r})\n"
        "while True:\n"
        "    try: print(next(steps), flush=True)\n"
        "    except StopIteration as stop: print(stop.value.source, flush=True); break\n"
    )
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def wait_for_weights(hub: HubServer) -> None:
    deadline = time.monotonic() + 30
    while not hub.gets("model.safetensors"):
        assert time.monotonic() < deadline, "the weights were never asked for"
        time.sleep(0.05)


def wait_until_unused(folder: Path) -> None:
    """A worker ends by itself when the process that started it is gone."""
    deadline = time.monotonic() + 10
    while str(folder) in subprocess.check_output(["ps", "-eww", "-o", "args"], text=True):
        assert time.monotonic() < deadline, "a worker outlived the process that started it"
        time.sleep(0.1)


def test_a_killed_fetch_leaves_nothing_in_the_way(
    hub: HubServer, sources: WeightSources, own_cache: Path
) -> None:
    """A lock or a half-written file of a dead process must not block or spoil the next start."""
    hub.seconds_per_chunk = 5.0
    with fetch_elsewhere(sources) as process:
        wait_for_weights(hub)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert (own_cache / "tiny.part").exists()
    wait_until_unused(own_cache)
    hub.seconds_per_chunk = 0.0
    checkpoint, told = drained(fetch_from(sources, SPEC))
    assert checkpoint.source == FROM_HUB
    assert not any("Another SpecViz" in tell(p.message) for p in told)
    assert sorted(p.name for p in own_cache.iterdir()) == ["tiny", "tiny.lock"]


def test_closing_a_fetch_ends_its_work_and_frees_the_lock(
    hub: HubServer, sources: WeightSources, own_cache: Path
) -> None:
    hub.seconds_per_chunk = 5.0
    before = children()
    steps = fetch_from(sources, SPEC)
    while not hub.gets("model.safetensors"):
        next(steps)
    assert children() - before
    steps.close()
    assert children() == before
    assert not (own_cache / "tiny.part" / "hub").exists()
    with FileLock(own_cache / "tiny.lock").acquire(timeout=0):
        pass


def test_two_processes_do_the_work_once(hub: HubServer, sources: WeightSources) -> None:
    hub.seconds_per_chunk = 0.1
    with fetch_elsewhere(sources) as other:
        wait_for_weights(hub)
        checkpoint, told = drained(fetch_from(sources, SPEC))
        said = other.communicate()[0]
    assert FROM_HUB in said
    assert checkpoint.source == f"cache ({FROM_HUB})"
    assert "waiting for it" in tell(told[0].message)
    assert len(hub.gets("model.safetensors")) == 1


def test_two_visitors_of_one_process_do_the_work_once(
    hub: HubServer, sources: WeightSources
) -> None:
    first, second = fetch_from(sources, SPEC), fetch_from(sources, SPEC)
    next(first)
    assert "waiting for it" in tell(next(second).message)
    assert drained(first)[0].source == FROM_HUB
    assert drained(second)[0].source == f"cache ({FROM_HUB})"


def test_a_repository_that_is_not_there_is_told_as_that(
    hub: HubServer, sources: WeightSources
) -> None:
    hub.repository = "somebody/else"
    assert f"the Hub ({REPOSITORY}): the Hub has no such repository" in unavailable(sources)


def test_no_network_at_all_says_what_was_tried_and_what_to_do(sources: WeightSources) -> None:
    start = time.monotonic()
    told = unavailable(sources)
    assert time.monotonic() - start < 10
    assert told.count(". ") == 0  # one sentence
    for words in ("Tiny", "the cache", "the Hub (somebody/tiny)", "wheel tinyweights 1.0"):
        assert words in told
    assert "connect to the network" in told
    assert "recorded runs still play" in told


def test_a_hub_that_never_answers_is_given_up_within_seconds(
    sources: WeightSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offline behind a silent firewall, other apps hang for a minute before they say so."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        told, seconds = asked_in_vain(silent, sources, monkeypatch)
    assert seconds < 10
    assert "timed out" in told


def test_a_hub_that_never_comes_to_an_end_is_given_up_within_seconds(
    sources: WeightSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte starts a read timeout anew; a name look-up has none. One limit holds for all."""

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):  # the client gives up: that is the point
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Drip: ")
            while not ended.wait(0.5):
                connection.sendall(b"x")

    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as slow:
        thread = threading.Thread(target=drip, args=(slow,))
        thread.start()
        told, seconds = asked_in_vain(slow, sources, monkeypatch)
        ended.set()
        thread.join()
    assert seconds < 12
    assert "no answer within 6 seconds" in told


def asked_in_vain(
    server: socket.socket, sources: WeightSources, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, float]:
    """What is told when only this server can be asked, and after how many seconds."""
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    start = time.monotonic()
    return unavailable(sources), time.monotonic() - start


def test_offline_mode_of_the_hub_is_honoured(
    hub: HubServer, sources: WeightSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "offline" in unavailable(sources).lower()
    assert hub.requests == []


def test_what_the_hubs_own_library_keeps_is_used_with_no_network(
    hub: HubServer, sources: WeightSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"from huggingface_hub import snapshot_download as s; s({REPOSITORY!r})"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    hub.requests.clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert get(sources).source == f"{FROM_HUB} (from the Hub library's cache)"
    assert hub.requests == []
