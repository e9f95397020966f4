"""Captured passes on a real GPU: against the plain path there, and against float64."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import torch
import transformers

from specviz.engine.store import ModelStore
from specviz.lm.base import FeatureTap
from specviz.lm.graphed import graphed
from specviz.lm.graphs import GraphRecorder, Staging
from specviz.lm.lean import LeanBody
from specviz.lm.plain import PlainLM
from specviz.lm.quantised import why_not_quantised
from specviz.lm.split_attention import attend, parts_of
from specviz.lm.static import StaticLM
from specviz.lm.stock import StockBody
from specviz.tree import DraftTree
from tests.engine.lanes import PLAIN, Setup, finish, registered
from tests.lm.on_device import (
    assert_models_switch,
    assert_reads_alike,
    quantised_pair,
    sampled_answers,
)
from tests.lm.test_plain import random_tokens, random_tree
from tests.models import family_config, random_model, tiny_folder

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]
GPU = torch.device("cuda")
TAPS = (FeatureTap("input", 1), FeatureTap("normed"))


def both(family: str, dtype: torch.dtype = torch.float32) -> tuple[PlainLM, StaticLM]:
    plain, other = (
        PlainLM(random_model(family_config(family, head_dim=16)).to(GPU, dtype), 128)
        for _ in range(2)
    )
    fast = graphed(other)
    assert isinstance(fast, StaticLM), fast.path
    assert isinstance(fast._recorder, GraphRecorder)
    return plain, fast


@pytest.mark.parametrize("family", ["llama_llama3_rope", "qwen2", "qwen3", "olmo2"])
def test_graphs_read_as_the_plain_path(family):
    plain, fast = both(family)
    assert isinstance(fast.body, StockBody if family == "olmo2" else LeanBody)
    rng = Random(5)
    for num_rows, num_cached in ((1, 0), (3, 9), (20, 1), (64, 40), (70, 20)):
        prefix, tree = random_tokens(rng, fast, num_cached), random_tree(rng, 97, num_rows)
        outputs = []
        for lm in (fast, plain):
            cache = lm.new_cache(num_cached + num_rows)
            lm.prefill(prefix, cache, TAPS)
            outputs.append(lm.read(tree, cache, TAPS))
        ours, truth = outputs
        torch.testing.assert_close(ours.logits, truth.logits, rtol=0.0, atol=1e-3)
        torch.testing.assert_close(ours.features, truth.features, rtol=0.0, atol=1e-3)


def test_lanes_take_turns_and_end_as_they_do_alone():
    plain, fast = both("llama")
    prompts = ([3, 4, 5, 6], list(range(60)))
    alone = [Setup(plain, prompt, 40).answer(PLAIN) for prompt in prompts]
    lanes = [Setup(fast, prompt, 40).lane(PLAIN) for prompt in prompts]
    while any(lane.end_reason is None for lane in lanes):
        for lane in lanes:
            if lane.end_reason is None:
                lane.play_round()
    answers = [list(lane.tokens[len(p) :]) for lane, p in zip(lanes, prompts, strict=True)]
    assert answers == alone


@pytest.mark.parametrize("form", ["nf4", "fp4"])
def test_four_bit_layers_are_captured(tmp_path: Path, form):
    """bitsandbytes' own kernels; they must wait for nothing while they are captured."""
    if (reason := why_not_quantised(GPU)) is not None:
        pytest.skip(reason)
    folder = tiny_folder(tmp_path, intermediate_size=128)
    plain, fast = quantised_pair(folder, form, GPU)
    assert isinstance(fast, StaticLM), fast.path
    assert_reads_alike(fast, plain, 0.03)


def test_sampled_lanes_share_a_captured_model():
    model = random_model(family_config("llama", num_hidden_layers=6, head_dim=16))
    fast = graphed(PlainLM(model.to(GPU), 128))
    assert isinstance(fast, StaticLM), fast.path
    answers = sampled_answers(fast, GraphRecorder(GPU))
    assert len(set(answers[0])) > 3
    assert answers == answers[:1] * 4


def test_models_take_turns_in_the_store(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path / "cache"))
    folders = [tiny_folder(tmp_path / name, seed=i) for i, name in enumerate(("first", "second"))]
    store = ModelStore()
    assert store.device.type == "cuda"
    assert_models_switch(store, folders, StaticLM)


def test_bfloat16_stays_near_the_plain_path():
    plain, fast = both("llama", torch.bfloat16)
    tree = random_tree(Random(3), 97, 20)
    ours, truth = (lm.read(tree, lm.new_cache(20)).logits.float() for lm in (fast, plain))
    spread = float(truth.max() - truth.min())
    assert float((ours - truth).abs().max()) < 0.03 * spread


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("num_keys", "num_rows", "size"), [(256, 1, 64), (1024, 33, 128)])
def test_parts_join_to_the_whole(dtype, num_keys, num_rows, size):
    rng = torch.Generator(GPU).manual_seed(0)
    heads, kv_heads, seen = 8, 2, num_keys // 3
    assert parts_of(num_keys, 4 * num_rows, kv_heads) > 1
    drawn = [
        torch.randn(shape, generator=rng, device=GPU).to(dtype)
        for shape in ((num_rows, heads, size), *[(kv_heads, num_keys, size)] * 2)
    ]
    queries, keys, values = drawn
    mask = torch.zeros(num_rows, num_keys, dtype=dtype, device=GPU)
    mask[:, seen:] = torch.finfo(dtype).min / 2
    ours = attend(queries, keys, values, mask.repeat(4, 1)).view(num_rows, heads, size)
    tolerance = 1e-4 if dtype == torch.float32 else 2e-2
    for head in range(heads):
        scores = queries[:, head].double() @ keys[head // 4, :seen].double().T / size**0.5
        truth = scores.softmax(-1) @ values[head // 4, :seen].double()
        torch.testing.assert_close(ours[:, head].double(), truth, rtol=0.0, atol=tolerance)


@pytest.mark.parametrize("name", ["eagle", "eagle2", "eagle3", "mtp"])
def test_captured_drafts_are_those_that_are_called(name):
    """Nothing of it falls back; each level's time is told, and adds up to less than the draft's."""
    lm = PlainLM(random_model(family_config("llama", num_hidden_layers=6)).to(GPU), 128)
    played = []
    for recorder in (GraphRecorder(GPU), None):
        setup = Setup(lm, list(range(3, 40)), 40, recorder=recorder)
        lane = setup.lane(registered(name))
        rounds = finish(lane)
        assert "called step by step" not in lane.parts.drafter.description
        played.append([(round_.tree, round_.new_tokens) for round_ in rounds])
        for round_ in rounds:
            assert all(seconds > 0.0 for seconds in round_.draft_step_seconds)
            assert sum(round_.draft_step_seconds) <= round_.draft_seconds
    assert played[0] == played[1]


def test_numbers_in_flight_are_not_overwritten():
    staging, seen = Staging(4, GPU), []
    busy = torch.randn(2048, 2048, device=GPU)
    for number in range(50):
        busy = busy @ busy / 50.0
        seen.append(staging.send([number, number + 1]).clone())
    assert [row.tolist() for row in seen] == [[n, n + 1] for n in range(50)]


def test_ties_go_to_the_lowest_id_on_the_device():
    logits = torch.zeros(3, 50_000, dtype=torch.bfloat16, device=GPU)
    logits[0, [7, 40_000]] = 1.0
    logits[1, [49_999, 30_000, 123]] = 2.0
    assert logits.max(-1).indices.tolist() == [7, 123, 0]


def test_a_layer_that_waits_for_the_device_stays_plain():
    class Waiting(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * float(x.abs().max() > -1)

    model = random_model(transformers.LlamaConfig(**family_config("llama").to_dict())).to(GPU)
    for layer in model.model.layers:
        layer.mlp.down_proj = torch.nn.Sequential(layer.mlp.down_proj, Waiting())
    plain = PlainLM(model, 128)
    assert graphed(plain) is plain
    assert "its pass cannot be captured" in plain.path
    assert plain.read(DraftTree.chain(3), plain.new_cache(4)).logits.isfinite().all()
