"""Quantised targets on this CPU: nf4 against its published table, all forms through the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from specviz.engine import store
from specviz.engine.store import ModelStore, ReadyTarget
from specviz.fitting import gib
from specviz.lm import quantised
from specviz.lm.base import FeatureTap
from specviz.lm.loading import LoadedLM, load_target
from specviz.lm.plain import PlainLM
from specviz.lm.quantised import QUANTISED
from specviz.presets import local_target
from specviz.tree import DraftTree
from specviz.words import Refusal
from tests.models import tiny_folder

CPU = torch.device("cpu")
PREFIX, TREE = (5, 9, 40, 41), DraftTree((3, 5, 2, 8, 1), (-1, 0, 0, 1, 3))
# The sixteen values of NormalFloat4 (Dettmers et al. 2023, arXiv:2305.14314, appendix E).
NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
BLOCK = 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("quantised") / "tiny", intermediate_size=128)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path / "cache"))


def nf4(weight: Tensor) -> Tensor:
    """Rounded to the nearest of the sixteen values, in blocks scaled by their largest; the scales
    are exact here, where the real ones have 8 bits."""
    blocks = weight.flatten().view(-1, BLOCK)
    scale = blocks.abs().amax(1, keepdim=True)
    table = torch.tensor(NF4)
    nearest = ((blocks / scale)[..., None] - table).abs().argmin(-1)
    return (table[nearest] * scale).view_as(weight)


def logits_of(lm: Any) -> Tensor:
    cache = lm.new_cache(32)
    lm.prefill(PREFIX, cache)
    found: Tensor = lm.read(TREE, cache).logits.float()
    return found


def gap(ours: Tensor, truth: Tensor) -> float:
    return float((ours - truth).abs().max() / (truth.max() - truth.min()))


def test_four_bits_compute_what_their_table_says(folder: Path) -> None:
    whole = load_target(folder, "float32", CPU).lm
    assert isinstance(whole, PlainLM)
    before = logits_of(whole)
    for name, module in whole.decoder.named_modules():
        if isinstance(module, nn.Linear):
            assert "layers." in name
            module.weight.copy_(nf4(module.weight))
    ours = logits_of(load_target(folder, "nf4", CPU).lm)
    assert gap(ours, logits_of(whole)) < 0.03 < 2 * gap(ours, before)


@pytest.mark.parametrize("form", QUANTISED)
def test_layers_are_quantised_and_nothing_else(folder: Path, form: Any) -> None:
    loaded = load_target(folder, form, CPU)
    lm = loaded.lm
    assert isinstance(lm, PlainLM)
    assert loaded.form == form
    assert loaded.quantisation.startswith(form)
    assert f"layers in {form}" in lm.path
    assert type(lm.model.get_output_embeddings()) is nn.Linear
    kinds = {type(m).__name__ for m in lm.decoder.modules() if isinstance(m, nn.Linear)}
    assert kinds == {"Linear8bitLt" if form == "int8" else "Linear4bit"}
    features = lm.prefill(PREFIX, lm.new_cache(32), (FeatureTap("output", 0), FeatureTap("normed")))
    assert features is not None
    assert features.dtype == lm.dtype == lm.embed(torch.tensor([1])).dtype == torch.float32
    head = lm.head(features[:, lm.hidden_size :])
    assert head.dtype == torch.float32
    assert gap(logits_of(lm), logits_of(load_target(folder, "float32", CPU).lm)) < 0.5


def test_layers_that_would_stay_whole_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers of a class that the library does not know were silently left as they are."""
    skipping = transformers.BitsAndBytesConfig(
        load_in_4bit=True, llm_int8_skip_modules=["lm_head", "gate_proj"]
    )
    monkeypatch.setattr(quantised, "_config", lambda form, dtype: skipping)
    with pytest.raises(Refusal, match=r"2 matrices of this model, layers.0.mlp.gate_proj among"):
        load_target(folder, "nf4", CPU)


def test_without_the_library_it_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantised, "find_spec", lambda name: None)
    with pytest.raises(Refusal, match="nf4 here: the package bitsandbytes is not installed"):
        load_target(folder, "nf4", CPU)


def test_kernels_that_compute_nonsense_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4-bit kernels for CPU were wrong on some machines."""
    monkeypatch.setattr("bitsandbytes.nn.Linear4bit.forward", lambda self, rows: rows * 3)
    with pytest.raises(Refusal, match="a small quantised layer is off by"):
        load_target(folder, "nf4", CPU)


def got(models: ModelStore, target: Path, precision: Any) -> ReadyTarget:
    loading = models.get(local_target(str(target)), precision)
    try:
        while True:
            next(loading)
    except StopIteration as done:
        found: ReadyTarget = done.value
        return found


def test_what_cannot_fit_is_refused_while_the_model_before_it_stays(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = ModelStore()
    first = got(models, folder, "float32")
    monkeypatch.setattr(store, "free_bytes", lambda device: 1000)
    larger = tiny_folder(tmp_path / "larger", num_hidden_layers=12)
    with pytest.raises(Refusal, match=r"larger needs about .* as nf4, and .* can be had"):
        got(models, larger, "nf4")
    assert got(models, folder, "float32") is first


def test_out_of_memory_is_told_and_the_model_before_it_comes_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = ModelStore()
    got(models, folder, "float32")

    def full(*_: Any) -> LoadedLM:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")

    with monkeypatch.context() as patch:
        patch.setattr(store, "load_target", full)
        with pytest.raises(Refusal, match="did not fit: the device ran out of memory") as error:
            got(models, folder, "nf4")
    assert error.value.__cause__ is None
    assert error.value.__context__ is None  # its traceback would hold what was loaded
    again = got(models, folder, "float32")
    assert again.loaded.lm.read(TREE, again.loaded.lm.new_cache(8)).logits.shape[0] == len(TREE)


def test_loading_quantised_tells_how_far_it_is(folder: Path) -> None:
    told = []
    loading = ModelStore().get(local_target(str(folder)), "nf4")
    try:
        while True:
            told.append(next(loading))
    except StopIteration:
        pass
    assert {step.stage for step in told} == {"load"}
    assert any(step.message[0] == "progress.load_part" for step in told)


def test_a_person_reads_sizes_in_gib() -> None:
    assert gib(3 * 2**29) == "1.5 GiB"
