"""MTP in training: the loss by hand, the update beside the weights, what is learned, files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from specviz.drafters.mtp_net import MtpNet
from specviz.drafters.training import FrozenTarget, TrainBatch
from tests.drafters.cyclic import (
    CYCLE,
    DRAFT_IDS,
    LENGTHS,
    PROMPT,
    cyclic_batch,
    frozen_target,
    learn,
    random_batch,
)
from tests.drafters.mtp_reference import Reference
from tests.models import random_model

RNG = torch.Generator()


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> FrozenTarget:
    """The cyclic tests' target with a folder, since its backbone is loaded from there."""
    folder: Path = tmp_path_factory.mktemp("target")
    target = frozen_target()
    random_model(target.config).save_pretrained(folder)
    return replace(target, folder=folder)


def moved(net: MtpNet) -> MtpNet:
    """Every trained number away from where it starts; rounded, as its checkpoint rounds."""
    rng = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=rng)
            parameter.copy_(parameter.bfloat16())
    return net


def inside(net: MtpNet) -> dict[str, Tensor]:
    return dict(net.module.named_parameters())


def step_losses(
    net: MtpNet, frozen: FrozenTarget, states: Tensor, batch: TrainBatch
) -> list[float]:
    """Each step's mean over the places whose next token the target wrote, row by row."""
    reference = Reference(inside(net), frozen.embedding, frozen.config)
    head = frozen.head[list(DRAFT_IDS)].double()
    terms: list[list[float]] = [[] for _ in range(net.num_steps)]
    for row in range(2):
        tokens = batch.tokens[row].tolist()
        for t in range(8):
            outs = reference.outputs(states[row, : t + 1], tokens[: t + 2 + net.num_steps])
            for k, out in enumerate(outs[: net.num_steps]):
                if t + 2 + k < 9 and batch.is_answer[row, t + 2 + k]:
                    p = torch.softmax(head @ states[row, t + 1 + k].double(), dim=0)
                    q = torch.log_softmax(head @ out, dim=0)
                    terms[k].append(-float(p @ q))
    return [sum(each) / len(each) for each in terms]


def test_the_frozen_loss_is_the_sum_by_hand(frozen: FrozenTarget) -> None:
    batch = random_batch(frozen)
    net = moved(MtpNet(frozen, rank=4, freeze_backbone=True))
    steps = step_losses(net, frozen, batch.normed, batch)
    losses = net.losses(batch, RNG)
    for k, step in enumerate(steps, start=1):
        assert losses[f"step {k}"].item() == pytest.approx(step, rel=1e-4)
    total = (steps[0] + 0.8 * steps[1] + 0.64 * steps[2]) / 2.44
    assert losses["loss"].item() == pytest.approx(total, rel=1e-4)


def test_the_joint_loss_adds_the_divergence_from_the_original(frozen: FrozenTarget) -> None:
    """The module must say what the tuned model says; the tuned model, what the original said."""
    batch, net = random_batch(frozen), moved(MtpNet(frozen, rank=4, draft_weight=0.5))
    with torch.no_grad():
        states = net.backbone(input_ids=batch.tokens).last_hidden_state
    steps = step_losses(net, frozen, states, batch)
    head, kept = frozen.head[list(DRAFT_IDS)].double(), []
    for row in range(2):
        for t in range(8):
            if batch.is_answer[row, t + 1]:
                p = torch.softmax(head @ batch.normed[row, t].double(), dim=0)
                q = torch.softmax(head @ states[row, t].double(), dim=0)
                kept.append(float((p * (p / q).log()).sum()))
    losses = net.losses(batch, RNG)
    assert losses["kl"].item() == pytest.approx(sum(kept) / len(kept), rel=1e-4)
    drafts = (steps[0] + 0.8 * steps[1] + 0.64 * steps[2]) / 2.44
    assert losses["loss"].item() == pytest.approx(sum(kept) / len(kept) + 0.5 * drafts, rel=1e-4)


def test_a_new_update_changes_nothing(frozen: FrozenTarget) -> None:
    batch, net = random_batch(frozen), MtpNet(frozen, rank=4)
    model: Any = AutoModelForCausalLM.from_pretrained(frozen.folder, dtype=torch.bfloat16)
    original = model.model(input_ids=batch.tokens).last_hidden_state
    assert torch.equal(net.states(batch), original.float())


def test_an_update_beside_the_weights_is_the_update_in_them(frozen: FrozenTarget) -> None:
    """W + alpha / r B A, which is what decoding merges, by the exported names."""
    batch, net = random_batch(frozen), moved(MtpNet(frozen, rank=4))
    config, tensors = net.export()
    scale = config["lora_alpha"] / config["lora_rank"]
    model: Any = AutoModelForCausalLM.from_pretrained(frozen.folder, dtype=torch.float32)
    for name in {n.rpartition(".")[0] for n in tensors if n.startswith("backbone.")}:
        down, up = tensors[f"{name}.lora_A"].float(), tensors[f"{name}.lora_B"].float()
        layer = model.model.get_submodule(name.removeprefix("backbone."))
        with torch.no_grad():
            layer.weight += scale * up @ down
    with torch.no_grad():
        merged = model.model(input_ids=batch.tokens).last_hidden_state
        beside = net.states(batch)
        net.freeze_backbone = True
        original = MtpNet(frozen, rank=4).states(batch)
    error = (beside - merged).norm() / merged.norm()
    assert error < 0.02  # of bfloat16 against float32
    assert (original - merged).norm() / merged.norm() > 0.3


@pytest.mark.parametrize("freeze_backbone", [True, False])
def test_the_cycle_is_learned_at_every_depth(frozen: FrozenTarget, freeze_backbone: bool) -> None:
    """Off by one anywhere, and the cycle's neighbour would be learned instead. Trained together,
    the backbone learns the cycle from the states that it is kept near to."""
    batch = cyclic_batch(frozen)
    net = MtpNet(frozen, rank=8, freeze_backbone=freeze_backbone)
    assert (net.ranks(batch) > 0).any()
    learn(net, batch, 60 if freeze_backbone else 120)
    ranks = net.ranks(batch)
    assert len(ranks) == sum(length - PROMPT for length in LENGTHS)
    assert (ranks == -1).sum().item() == len(LENGTHS) * (1 + 2)  # behind the end
    assert ((ranks == 0) | (ranks == -1)).all()
    with torch.no_grad():
        said = (net.states(batch)[0, PROMPT:-1] @ frozen.head.T).argmax(-1).tolist()
    assert said == batch.tokens[0, PROMPT + 1 :].tolist()


def test_what_the_tuned_model_says_is_ranked_not_the_original(frozen: FrozenTarget) -> None:
    batch = cyclic_batch(frozen)
    net = learn(MtpNet(frozen, rank=8, freeze_backbone=True), batch, 60)
    assert isinstance(net, MtpNet)
    assert (net.ranks(batch)[:, 0] == 0).all()
    net.freeze_backbone = False  # a random model's states: it says other tokens than the cycle
    assert (net.ranks(batch)[:, 0] > 0).any()


def test_only_update_and_module_are_trained(frozen: FrozenTarget) -> None:
    batch = random_batch(frozen)
    net = moved(MtpNet(frozen, rank=4))
    net.losses(batch, RNG)["loss"].backward()
    assert all(p.requires_grad and p.grad is not None for p in net.parameters())
    names = {name for name, _ in net.named_parameters()}
    assert names == set(net.state_dict())
    assert sum("lora" in name for name in names) == 3 * 7 * 2
    frozen_net = moved(MtpNet(frozen, rank=4, freeze_backbone=True))
    frozen_net.losses(batch, RNG)["loss"].backward()
    assert all(p.grad is None for n, p in frozen_net.named_parameters() if "lora" in n)


def test_only_the_uppermost_layers_are_tuned_if_so_asked(frozen: FrozenTarget) -> None:
    """What was trained without an update goes on into it; what was updated below cannot."""
    upper = MtpNet(frozen, rank=4, tuned_layers=1)
    assert {n.split(".")[2] for n, _ in upper.named_parameters() if "lora" in n} == {"2"}
    _, whole = MtpNet(frozen, rank=4).export()
    upper.adopt(whole)
    whole["backbone.layers.0.mlp.up_proj.lora_B"] += 1
    with pytest.raises(
        ValueError, match=r"backbone\.layers\.0\.mlp\.up_proj\.lora_A is .* missing here"
    ):
        upper.adopt(whole)
    with pytest.raises(ValueError, match="At least one layer must be tuned; got 0"):
        MtpNet(frozen, tuned_layers=0)


def test_the_loss_trains_under_autocast_on_a_bfloat16_target(frozen: FrozenTarget) -> None:
    tensors = {name: tensor.bfloat16() for name, tensor in frozen.tensors.items()}
    halved, batch = replace(frozen, tensors=tensors), random_batch(frozen)
    states = batch.normed.bfloat16()
    rounded = replace(batch, features=states, normed=states)
    exact = moved(MtpNet(frozen, rank=4)).losses(batch, RNG)["loss"].item()
    for is_on in (False, True):
        net = moved(MtpNet(halved, rank=4))
        with torch.autocast("cpu", torch.bfloat16, enabled=is_on):
            loss = net.losses(rounded, RNG)["loss"]
            assert net.ranks(rounded).shape[1] == 3
        loss.backward()
        assert loss.item() == pytest.approx(exact, rel=0.03)
        assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in net.parameters())


def test_what_is_exported_can_be_adopted(frozen: FrozenTarget) -> None:
    batch, net = random_batch(frozen), moved(MtpNet(frozen, rank=4))
    config, tensors = net.export()
    assert config["num_nextn_predict_layers"] == 1
    assert config["num_hidden_layers"] == 3
    assert config["rope_parameters"] == frozen.config.rope_parameters  # scaling included
    assert config["draft_vocab_size"] == len(DRAFT_IDS)
    assert tensors["backbone.layers.2.mlp.down_proj.lora_A"].shape == (4, 48)
    assert tensors["backbone.layers.0.self_attn.k_proj.lora_B"].shape == (16, 4)
    assert tensors["model.layers.3.eh_proj.weight"].shape == (32, 64)
    for name in ("enorm", "hnorm", "shared_head.norm", "input_layernorm"):
        assert tensors[f"model.layers.3.{name}.weight"].shape == (32,)
    assert [i + int(step) for i, step in enumerate(tensors["d2t"])] == list(DRAFT_IDS)
    other = MtpNet(frozen, rank=4)
    other.adopt(tensors)
    assert torch.equal(other.losses(batch, RNG)["loss"], net.losses(batch, RNG)["loss"])


def test_an_update_of_another_rank_is_refused(frozen: FrozenTarget) -> None:
    _, tensors = MtpNet(frozen, rank=8).export()
    with pytest.raises(ValueError, match="does not fit the network"):
        MtpNet(frozen, rank=4).adopt(tensors)


def test_the_cycle_is_long_enough_to_tell_places_apart() -> None:
    assert len(set(CYCLE)) == len(CYCLE) > 5
