"""Trained drafters through the store and the engine: found, checked, shared, and lossless."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.config import LaneSpec, Precision, Request, SamplingParams
from specviz.engine import Engine, store
from specviz.engine.store import ModelStore, ReadyTarget, head_rows
from specviz.lm.checkpoints import save_checkpoint, tokenizer_sha256
from specviz.lm.folder import tensors_of
from specviz.presets import local_target
from specviz.session import LiveSession, drain
from specviz.trace import LaneEnd, LaneStart, RoundTrace
from tests.drafters.checkpoints import eagle, eagle3
from tests.models import tiny_folder

METHODS = {"eagle": eagle, "eagle3": eagle3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Four-bit kernels for one row on a CPU want widths in blocks of 64.
    shape = {"num_hidden_layers": 6, "intermediate_size": 128}
    return tiny_folder(tmp_path_factory.mktemp("trained") / "tiny", **shape)


def ready(target: Path, precision: Precision = "float32", root: Path | None = None) -> ReadyTarget:
    loading = ModelStore(drafters_root=root).get(local_target(str(target)), precision)
    try:
        while True:
            next(loading)
    except StopIteration as done:
        found: ReadyTarget = done.value
        return found


def saved(root: Path, target: Path, **facts: Any) -> Path:
    """Drafters of every method for `target` under `root`, which say so but for `facts`."""
    loaded = ready(target).loaded
    record = {
        "name": "tiny",
        "hidden_size": loaded.lm.hidden_size,
        "num_layers": loaded.lm.num_layers,
        "vocab_size": loaded.lm.vocab_size,
        "tokenizer_sha256": tokenizer_sha256(loaded.tokenizer),
    }
    for method, make in METHODS.items():
        checkpoint = make(loaded.lm)
        config = checkpoint.config | {"specviz_target": record | facts}
        save_checkpoint(root / method, config, checkpoint.tensors)
    return root


def test_a_drafter_is_read_once_and_shared(folder: Path, tmp_path: Path) -> None:
    target = ready(folder, root=saved(tmp_path, folder))
    first, second = target.kit(), target.kit()
    assert first.trained("eagle") is second.trained("eagle")
    assert first.trained("eagle").folder == tmp_path / "eagle"
    assert first.made is second.made
    assert (first.dtype, first.device.type) == (torch.float32, "cpu")


def test_the_shipped_drafters_lie_by_target_and_method(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner's own come first, the shipped ones fill the gaps."""
    monkeypatch.setattr(store, "SHIPPED_DRAFTERS", tmp_path / "shipped")
    name = local_target(str(folder)).name
    (tmp_path / "shipped").mkdir()
    saved(tmp_path / "shipped" / name, folder)
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / "shipped" / name / "eagle").rename(own / "eagle")
    kit = ready(folder, root=own).kit()
    assert kit.trained("eagle").folder == own / "eagle"
    assert kit.trained("eagle3").folder == tmp_path / "shipped" / name / "eagle3"


def test_without_weights_it_says_what_to_do(folder: Path, tmp_path: Path) -> None:
    kit = ready(folder, root=tmp_path).kit()
    with pytest.raises(ValueError, match=r"no trained eagle weights .* specviz train eagle"):
        kit.trained("eagle")


def test_a_drafter_of_another_tokenizer_is_refused(folder: Path, tmp_path: Path) -> None:
    root = saved(tmp_path, folder, tokenizer_sha256="0" * 64)
    with pytest.raises(ValueError, match="tokenizer_sha256 is 0000"):
        ready(folder, root=root).kit().trained("eagle")


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("tied", [False, True])
def test_rows_of_the_head_are_its_own(tmp_path: Path, tied: bool, precision: Precision) -> None:
    """Bit for bit, whether the head is packed, plain, or the embedding."""
    target = tiny_folder(tmp_path / "tiny", tie_word_embeddings=tied)
    lm = ready(target, precision).loaded.lm
    name = "model.embed_tokens.weight" if tied else "lm_head.weight"
    ids = torch.tensor([300, 2, 2, 17])
    rows = head_rows(lm, ids)
    assert rows.dtype == lm.dtype
    assert rows.is_contiguous()
    assert torch.equal(rows.bfloat16(), tensors_of(target)[name][ids])


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "nf4"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_all_lanes_write_the_same_text(
    folder: Path, tmp_path: Path, precision: Precision, temperature: float
) -> None:
    """With coupled sampling at any temperature, through the engine and both forward passes."""
    spec = local_target(str(folder))
    session = LiveSession(folder, drafters=saved(tmp_path, folder))
    names = ("autoregressive", "eagle", "eagle2", "eagle3")
    request = Request(
        "one, two, three",
        tuple(map(LaneSpec, names)),
        spec.name,
        is_chat=False,
        precision=precision,
        sampling=SamplingParams(temperature=temperature),
        verification="coupled",
        max_new_tokens=24,
    )
    events = drain(session.events(request))
    session.close()
    texts: dict[int, list[int]] = {lane: [] for lane in range(len(names))}
    for event in events:
        if isinstance(event, RoundTrace):
            texts[event.lane] += event.new_tokens
    assert {e.reason for e in events if isinstance(e, LaneEnd)} <= {"length", "stop"}
    assert all(text == texts[0] for text in texts.values()), texts
    told = [e.description for e in events if isinstance(e, LaneStart)]
    assert all("one trained layer" in text for text in told[1:])


def test_a_run_without_weights_fails_in_a_sentence(folder: Path, tmp_path: Path) -> None:
    spec = local_target(str(folder))
    engine = Engine([spec], drafters_root=tmp_path)
    request = Request("one", (LaneSpec("eagle3"),), spec.name, precision="float32")
    with pytest.raises(ValueError, match="no trained eagle3 weights"):
        drain(engine.run(replace(request, is_chat=False)))
