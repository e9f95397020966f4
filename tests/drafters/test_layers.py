"""The layer to train: at each step of a draft it attends as the drafter will when it decodes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from specviz.drafters.layers import Norm, Past, TrainLayer, shifted
from tests.lm.layer64 import layer64, random_layer, rms_norm
from tests.models import family_config

BATCH, LENGTH, STEPS = 2, 7, 4


def random_train_layer(inputs: int) -> tuple[TrainLayer, dict[str, Tensor], Any]:
    config = family_config("llama", hidden_size=32, intermediate_size=48)
    tensors = random_layer("", 32, 48, inputs=inputs, kv=16, scale=0.3, seed=2)
    layer = TrainLayer(config, inputs)
    layer.load_state_dict(tensors)
    return layer, tensors, config


@pytest.mark.parametrize("inputs", [32, 64])
def test_a_step_sees_true_rows_up_to_its_start_then_its_own_steps(inputs: int) -> None:
    """For each row a draft starts from, the sequence is written out: that is what decoding reads."""
    layer, tensors, config = random_train_layer(inputs)
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(STEPS, BATCH, LENGTH, inputs, generator=rng)
    residual = torch.randn(STEPS, BATCH, LENGTH, 32, generator=rng)
    past = Past()
    for step in range(STEPS):
        out = layer(x[step], residual[step], past).detach()
        for row in range(BATCH):
            for start in range(LENGTH):
                own = [x[k, row, start][None] for k in range(1, step + 1)]
                rows = torch.cat([x[0, row, : start + 1], *own])
                own = [residual[k, row, start][None] for k in range(1, step + 1)]
                residuals = torch.cat([residual[0, row, : start + 1], *own])
                wanted = layer64(
                    tensors,
                    "",
                    rows,
                    residuals,
                    positions=torch.arange(len(rows)),
                    visible=torch.ones(len(rows), len(rows)).tril().bool(),
                    heads=config.num_attention_heads,
                    eps=config.rms_norm_eps,
                    theta=config.rope_parameters["rope_theta"],
                )[-1]
                torch.testing.assert_close(out[row, start].double(), wanted, atol=3e-5, rtol=1e-4)


def test_gradients_reach_every_step() -> None:
    layer, _, _ = random_train_layer(32)
    x = torch.randn(STEPS, 1, LENGTH, 32, requires_grad=True)
    past = Past()
    for step in range(STEPS):
        out = layer(x[step], torch.zeros(1, LENGTH, 32), past)
    out[0, 3].sum().backward()
    moved = x.grad[:, 0].abs().sum(-1) > 0  # type: ignore[index]
    assert moved[0].tolist() == [True] * 4 + [False] * 3  # the true rows up to its own
    assert moved[1:].tolist() == [[t == 3 for t in range(LENGTH)]] * (STEPS - 1)


def test_the_norm_is_the_published_one() -> None:
    norm = Norm(32, 1e-5)
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2.0, generator=torch.Generator().manual_seed(0))
    x = torch.randn(3, 32, generator=torch.Generator().manual_seed(1))
    wanted = rms_norm(x.double(), norm.weight.detach(), 1e-5)
    torch.testing.assert_close(norm(x).double(), wanted, atol=1e-6, rtol=1e-6)


def test_rows_are_shifted_to_what_comes_later() -> None:
    x = torch.arange(1, 9).view(2, 4)
    assert shifted(x, 1).tolist() == [[2, 3, 4, 0], [6, 7, 8, 0]]
    assert shifted(x, 3).tolist() == [[4, 0, 0, 0], [8, 0, 0, 0]]
    assert shifted(x, 5).tolist() == [[0] * 4] * 2


def test_a_layer_starts_from_the_targets() -> None:
    """What reads the feature is the target's; what reads the embedding starts at nothing."""
    layer, _, _ = random_train_layer(64)
    source = random_layer("", 32, 48, inputs=32, kv=16, scale=0.3, seed=9)
    layer.start_from(source, slice(32, None))
    assert torch.equal(layer.self_attn.q_proj.weight[:, 32:], source["self_attn.q_proj.weight"])
    assert not layer.self_attn.k_proj.weight[:, :32].any()
    assert torch.equal(layer.mlp.up_proj.weight, source["mlp.up_proj.weight"])
