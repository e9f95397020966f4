"""What was fetched once is kept, found again, checked; and what a full or closed disk is told as."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from specviz.config import LaneSpec, Request
from specviz.lm.sources import is_disk_full
from specviz.lm.weights import Checkpoint, fetch, fetch_from
from specviz.presets import DEFAULT_TARGET, TARGETS, WEIGHT_SOURCES, WeightSources
from specviz.words import tell
from tests.lm.standins import FROM_HUB, SPEC, HubServer, drained, get, unavailable


def test_a_second_start_reads_the_cache_and_says_where_it_came_from(
    hub: HubServer, sources: WeightSources
) -> None:
    first = get(sources)
    hub.requests.clear()
    again, told = drained(fetch_from(sources, SPEC))
    assert again == Checkpoint(first.folder, f"cache ({FROM_HUB})")
    assert (hub.requests, told) == ([], [])


def test_a_full_disk_is_noticed_before_anything_is_fetched(
    hub: HubServer, sources: WeightSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1_000_000))
    told = unavailable(sources)
    assert "of disk, 1.0 MB are free" in told
    assert "free some disk space, or set SPECVIZ_CACHE" in told
    assert hub.requests == []


def test_a_disk_that_fills_up_on_the_way_is_told_as_that(
    hub: HubServer, sources: WeightSources, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "none", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can only be mounted by root")
    try:
        hub.folder = Path(shutil.copytree(hub.folder, tmp_path / "grown"))
        (hub.folder / "vocab.json").write_bytes(b"{}" + b" " * 13_000_000)
        monkeypatch.setenv("SPECVIZ_CACHE", str(disk))
        told = unavailable(sources)
        assert "No space left on device" in told
        assert "free some disk space" in told
        assert not list((disk / "tiny.part").rglob("*.json"))
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_cache_that_cannot_be_written_is_one_sentence(
    sources: WeightSources, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path / "file"))
    told = unavailable(sources)
    assert f"the cache folder {tmp_path / 'file'} cannot be used" in told
    assert "SPECVIZ_CACHE" in told
    assert is_disk_full(OSError(28, "No space left on device"))


@pytest.mark.parametrize("damage", ["cut", "changed", "gone", "no receipt"])
def test_a_damaged_cache_is_noticed_and_fetched_again(
    hub: HubServer, sources: WeightSources, damage: str
) -> None:
    folder = get(sources).folder
    weights, whole = folder / "model.safetensors", (hub.folder / "model.safetensors").read_bytes()
    if damage == "cut":
        weights.write_bytes(whole[:-1])
    elif damage == "changed":
        weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    elif damage == "gone":
        weights.unlink()
    else:
        (folder / "source.json").write_text("{}")
    checkpoint, told = drained(fetch_from(sources, SPEC))
    assert tell(told[0].message).startswith("The cache is damaged (")
    assert checkpoint.source == FROM_HUB
    assert weights.read_bytes() == whole


def test_a_touched_but_unchanged_file_is_no_damage(hub: HubServer, sources: WeightSources) -> None:
    folder = get(sources).folder
    os.utime(folder / "model.safetensors", (0, 0))
    assert get(sources).source == f"cache ({FROM_HUB})"


def test_names_lead_to_sources(own_cache: Path) -> None:
    names = [target.name for target in TARGETS]
    assert len(set(names)) == len(names)
    assert set(names) == WEIGHT_SOURCES.keys()
    assert Request("Hi", (LaneSpec("autoregressive"),)).target == DEFAULT_TARGET.name
    with pytest.raises(ValueError, match="smollm2-135m-instruct; got 'tiny'"):
        next(fetch(SPEC))
