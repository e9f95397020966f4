"""EAGLE-1 and EAGLE-3 in training: losses computed again in float64, one sequence at a time, and
networks that learn a language whose next token is certain."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.drafters.eagle3_net import Eagle3Net
from specviz.drafters.eagle_net import EagleNet
from specviz.drafters.layers import shifted
from specviz.drafters.training import FrozenTarget, TrainBatch, draft_layer_config
from specviz.lm.base import FeatureTap
from specviz.lm.draft_layer import rope_of
from specviz.lm.packed_attention import HeadShape
from specviz.lm.rotary import rotary
from tests.drafters.cyclic import (
    DRAFT_IDS,
    LENGTHS,
    PROMPT,
    cyclic_batch,
    frozen_target,
    learn,
    random_batch,
)
from tests.lm.layer64 import layer64, rms_norm
from tests.models import family_config


@pytest.fixture(scope="module")
def frozen() -> FrozenTarget:
    return frozen_target(num_layers=6)


def thrice(batch: TrainBatch) -> TrainBatch:
    """Three different layers' worth of features for EAGLE-3."""
    return replace(
        batch, features=torch.cat((batch.normed, batch.normed.flip(-1), batch.normed), -1)
    )


def moved(net: Any) -> Any:
    """Away from the start, where much is zero or one."""
    rng = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=rng)
    return net


def last_row(net: Any, prefix: str, x: Tensor, residual: Tensor) -> Tensor:
    """(H,) of the layer's last row, which sees all rows."""
    tensors = {name: t.detach() for name, t in net.state_dict().items()}
    return layer64(
        tensors,
        prefix,
        x,
        residual,
        positions=torch.arange(len(x)),
        visible=torch.ones(len(x), len(x)).tril().bool(),
        heads=net.config.num_attention_heads,
        eps=net.config.rms_norm_eps,
        theta=net.config.rope_parameters["rope_theta"],
    )[-1]


def cross_entropy(logits: Tensor, frozen: FrozenTarget, state: Tensor) -> Tensor:
    """Against what the target's head says of `state`, over the draft vocabulary."""
    said = torch.softmax(frozen.head[list(DRAFT_IDS)].double() @ state.double(), dim=-1)
    return -(said * torch.log_softmax(logits, dim=-1)).sum()


def test_eagle_loss_by_hand(frozen: FrozenTarget) -> None:
    batch, net = random_batch(frozen), moved(EagleNet(frozen))
    random = torch.Generator().manual_seed(8)
    found = net.losses(batch, torch.Generator().manual_seed(8))
    spread = 0.1 * batch.features.std()
    noisy = batch.features + spread * torch.empty(batch.features.shape).uniform_(
        -1, 1, generator=random
    )
    weight, tokens, features = net.fc.weight.detach().double(), [], []
    for row in range(2):
        for t in range(7):  # token t + 2 is guessed, and must exist
            if not batch.is_answer[row, t + 2]:
                continue
            embedded = frozen.embedding[batch.tokens[row, 1 : t + 2]]
            x = torch.cat((embedded, noisy[row, : t + 1]), -1).double() @ weight.T
            out = last_row(net, "layers.0.", x, x)
            logits = frozen.head[list(DRAFT_IDS)].double() @ out
            tokens.append(cross_entropy(logits, frozen, batch.normed[row, t + 1]))
            gap = (out - batch.normed[row, t + 1].double()).abs()
            features.append(torch.where(gap < 1, gap**2 / 2, gap - 0.5).mean())
    token, feature = torch.stack(tokens).mean().item(), torch.stack(features).mean().item()
    assert found["token 1"].item() == pytest.approx(token, rel=1e-4)
    assert found["feature 1"].item() == pytest.approx(feature, rel=1e-4)
    assert found["loss"].item() == pytest.approx(token + feature, rel=1e-4)


def test_eagle3_loss_by_hand(frozen: FrozenTarget) -> None:
    batch, net = thrice(random_batch(frozen)), moved(Eagle3Net(frozen, num_steps=3))
    found = net.losses(batch, torch.Generator())
    t_of = {name: t.detach().double() for name, t in net.state_dict().items()}
    eps = net.config.rms_norm_eps
    terms: list[list[Tensor]] = [[], [], []]
    for row in range(2):
        first = batch.features[row].double() @ t_of["fc.weight"].T
        for start in range(9):
            rows, inputs = [first[i] for i in range(start + 1)], batch.tokens[row]
            for step in range(3):
                if start + 2 + step > 8:
                    break
                embedded = frozen.embedding[inputs[1 : start + 2 + step]].double()
                both = torch.cat(
                    (
                        rms_norm(embedded, t_of["midlayer.input_layernorm.weight"], eps),
                        rms_norm(torch.stack(rows), t_of["midlayer.hidden_norm.weight"], eps),
                    ),
                    -1,
                )
                out = last_row(net, "midlayer.", both, torch.stack(rows))
                rows.append(out)
                if batch.is_answer[row, start + 2 + step]:
                    logits = t_of["lm_head.weight"] @ rms_norm(out, t_of["norm.weight"], eps)
                    state = batch.normed[row, start + 1 + step]
                    terms[step].append(cross_entropy(logits, frozen, state))
    means = [torch.stack(part).mean().item() for part in terms]
    for step, mean in enumerate(means):
        assert found[f"step {step + 1}"].item() == pytest.approx(mean, rel=1e-4)
    total = (means[0] + 0.8 * means[1] + 0.64 * means[2]) / (1 + 0.8 + 0.64)
    assert found["loss"].item() == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize(
    ("build", "steps", "depths"),
    [
        pytest.param(EagleNet, 200, 5, id="eagle"),
        pytest.param(lambda frozen: Eagle3Net(frozen, num_steps=4), 60, 4, id="eagle3"),
    ],
)
def test_it_learns_the_tokens_that_follow_at_every_depth(
    frozen: FrozenTarget, build: Callable[[FrozenTarget], Any], steps: int, depths: int
) -> None:
    """Off by one anywhere, and the cycle's neighbour would be learned instead."""
    batch = cyclic_batch(frozen)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = build(frozen)
    batch = thrice(batch) if isinstance(net, Eagle3Net) else batch
    assert (net.ranks(batch) > 0).any()
    learn(net, batch, steps)
    ranks = net.ranks(batch)
    # Starts are rows whose token two further on is an answer token, the first and the last too.
    assert ranks.shape == (sum(length - PROMPT for length in LENGTHS), depths)
    behind_the_end = len(LENGTHS) * sum(range(depths))
    assert int((ranks == -1).sum()) == behind_the_end
    assert int((ranks == 0).sum()) == ranks.numel() - behind_the_end


@pytest.mark.parametrize(
    ("build", "names"),
    [
        pytest.param(
            EagleNet,
            {"fc.weight"}
            | {f"layers.0.self_attn.{name}_proj.weight" for name in "qkvo"}
            | {f"layers.0.mlp.{name}_proj.weight" for name in ("gate", "up", "down")}
            | {"layers.0.post_attention_layernorm.weight"},
            id="eagle",
        ),
        pytest.param(
            Eagle3Net,
            {"fc.weight", "norm.weight", "lm_head.weight"}
            | {f"midlayer.self_attn.{name}_proj.weight" for name in "qkvo"}
            | {f"midlayer.mlp.{name}_proj.weight" for name in ("gate", "up", "down")}
            | {f"midlayer.{name}.weight" for name in ("input_layernorm", "hidden_norm")}
            | {"midlayer.post_attention_layernorm.weight"},
            id="eagle3",
        ),
    ],
)
def test_it_is_stored_by_its_published_names_and_read_again(
    frozen: FrozenTarget, build: Callable[[FrozenTarget], Any], names: set[str]
) -> None:
    net, again = moved(build(frozen)), build(frozen)
    config, tensors = net.export()
    assert tensors.keys() == names | {"d2t", "t2d"}
    assert config["method"] == net.method
    assert config["draft_vocab_size"] == len(DRAFT_IDS)
    again.adopt(tensors)
    for name, parameter in again.named_parameters():
        assert torch.equal(parameter, tensors[name])
    assert {name for name, p in net.named_parameters() if p.requires_grad} == names


def test_what_they_read_of_the_target(frozen: FrozenTarget) -> None:
    assert EagleNet(frozen).taps == (FeatureTap("normed"),)
    assert Eagle3Net(frozen).taps == tuple(FeatureTap("input", layer) for layer in (2, 3, 3))


def test_a_new_network_stands_near_the_target(frozen: FrozenTarget) -> None:
    """EAGLE-1 first hands the feature through: its layer, the target's last, adds nothing yet.
    What that layer adds is made for the residual stream; on normed states it cost a loss of 300."""
    net, last = EagleNet(frozen), frozen.layer(5)
    own = dict(net.named_parameters())
    assert torch.equal(own["layers.0.mlp.up_proj.weight"], last["mlp.up_proj.weight"])
    state = torch.randn(32, generator=torch.Generator().manual_seed(2)).double()
    normed = state * frozen.tensors["model.norm.weight"].double()
    query = last["self_attn.q_proj.weight"].double() @ (
        state * last["input_layernorm.weight"].double()
    )
    ours = own["layers.0.self_attn.q_proj.weight"].double() @ normed
    assert torch.allclose(ours, query, rtol=1e-2, atol=1e-2)
    batch = random_batch(frozen)
    feature = batch.features.float()
    following = F.embedding(shifted(batch.tokens, 1), frozen.embedding).float()
    through = net.fc(torch.cat((following, feature), -1))
    assert torch.allclose(next(net._steps(batch, feature, 1)), through)
    assert F.cosine_similarity(through, feature, dim=-1).min() > 0.9


def test_more_steps_each_add_both_losses(frozen: FrozenTarget) -> None:
    batch, one, two = random_batch(frozen), EagleNet(frozen), EagleNet(frozen, num_steps=2)
    two.load_state_dict(one.state_dict())
    first = one.losses(batch, torch.Generator().manual_seed(3))
    both = two.losses(batch, torch.Generator().manual_seed(3))
    assert both["token 1"] == first["token 1"]
    second = both["token 2"] + both["feature 2"]
    assert both["loss"].item() == pytest.approx(
        (first["loss"].item() + 0.8 * second.item()) / 1.8, rel=1e-5
    )
    assert second > first["loss"]  # its own output tells it less than the truth does


@pytest.mark.parametrize(
    "family", ["llama", "llama_llama3_rope", "llama_linear_rope", "llama_yarn_rope"]
)
def test_the_stored_config_turns_positions_as_training_did(family: str) -> None:
    """A target's scaled rotary embedding was trained with, and left out of config.json: drafts of
    such a target would have been made with other angles."""
    config = family_config(family)
    stored = json.loads(json.dumps(draft_layer_config(config, "any")))
    shape = HeadShape(4, 2, 16)
    cos, sin = rotary(config)(torch.zeros(1), torch.arange(100)[None])
    factors = rope_of(stored, shape).at(torch.arange(100), 100)[:, 0]
    torch.testing.assert_close(factors.real, cos[0, :, :8], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(factors.imag, sin[0, :, :8], atol=1e-5, rtol=1e-4)
