"""The checks that are made on a GPU (`test_graphs_gpu`), with stand-ins for graphs on this CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from specviz.engine.store import ModelStore
from specviz.lm.graphed import graphed
from specviz.lm.plain import PlainLM
from specviz.lm.static import StaticLM
from tests.lm.captured import CallingRecorder
from tests.lm.on_device import (
    assert_models_switch,
    assert_reads_alike,
    quantised_pair,
    sampled_answers,
)
from tests.models import tiny, tiny_folder

CPU = torch.device("cpu")
CLOSE = 0.01  # of the spread: at 64 rows and more the library multiplies in another order


@pytest.mark.parametrize("form", ["nf4", "fp4"])
def test_four_bit_layers_are_captured(tmp_path: Path, form):
    folder = tiny_folder(tmp_path, intermediate_size=128)
    plain, fast = quantised_pair(folder, form, CPU, CallingRecorder())
    assert isinstance(fast, StaticLM), fast.path
    assert_reads_alike(fast, plain, CLOSE)


def test_sampled_lanes_share_a_captured_model():
    fast = graphed(tiny(num_hidden_layers=6), CallingRecorder())
    assert isinstance(fast, StaticLM), fast.path
    alone = sampled_answers(tiny(num_hidden_layers=6))[0]
    assert len(set(alone)) > 3
    assert sampled_answers(fast, CallingRecorder()) == [alone] * 4


def test_models_take_turns_in_the_store(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path / "cache"))
    folders = [tiny_folder(tmp_path / name, seed=i) for i, name in enumerate(("first", "second"))]
    store = ModelStore()
    store.device = CPU
    assert_models_switch(store, folders, PlainLM)
