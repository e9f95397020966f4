"""The small draft model in training: against transformers' own Llama, on a cycle, as files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM

from specviz.drafters.draft_net import EVAL_DEPTH, DraftNet
from specviz.drafters.training import NUM_RANKS, FrozenTarget
from tests.drafters.cyclic import (
    DRAFT_IDS,
    LENGTHS,
    PROMPT,
    cyclic_batch,
    frozen_target,
    learn,
    random_batch,
)
from tests.models import family_config

RNG = torch.Generator()


def reference(net: DraftNet, frozen: FrozenTarget) -> Any:
    """transformers' model of the exported layers, with the target's embedding and head."""
    settings = frozen.config.to_dict() | {"num_hidden_layers": len(net.model.layers)}
    model = LlamaForCausalLM(type(frozen.config)(**settings)).eval()
    tensors = {name: t for name, t in net.state_dict().items()}
    tensors["model.embed_tokens.weight"] = frozen.embedding
    tensors["lm_head.weight"] = frozen.head
    model.load_state_dict(tensors)
    return model


def nudged(net: DraftNet) -> DraftNet:
    rng = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=rng)
    return net


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_loss_is_the_sum_by_hand(temperature: float) -> None:
    frozen = frozen_target()
    batch = random_batch(frozen)
    net = nudged(DraftNet(frozen, num_layers=2, temperature=temperature))
    with torch.no_grad():
        logits = reference(net, frozen)(batch.tokens).logits.double().numpy()
    states = batch.normed.double().numpy()
    ids, head = list(DRAFT_IDS), frozen.head.double().numpy()
    terms = []
    for row in range(2):
        for t in range(8):
            if batch.is_answer[row, t + 1]:
                p = softmax((head @ states[row, t])[ids] / temperature)
                q = softmax(logits[row, t, ids] / temperature)
                terms.append(-(p * np.log(q)).sum() * temperature**2)
    loss = net.losses(batch, RNG)["loss"].item()
    assert loss == pytest.approx(np.mean(terms), rel=1e-4)


def test_it_starts_from_the_first_layers_and_the_last() -> None:
    """With every layer of the target it would be the target: its logits are the same."""
    frozen = frozen_target(num_layers=3)
    batch = random_batch(frozen)
    whole = LlamaForCausalLM(frozen.config).eval()
    whole.load_state_dict(dict(frozen.tensors))
    net = DraftNet(frozen, num_layers=3)
    with torch.no_grad():
        wanted = whole(batch.tokens).logits[..., list(DRAFT_IDS)]
        torch.testing.assert_close(net._logits(net._hidden(batch)), wanted, atol=1e-4, rtol=1e-4)
    small, tensors = DraftNet(frozen, num_layers=2), frozen.tensors
    for layer, source in ((0, 0), (1, 2)):
        weight = small.model.layers[layer].mlp.up_proj.weight
        assert torch.equal(weight, tensors[f"model.layers.{source}.mlp.up_proj.weight"])


def test_it_learns_the_next_token_of_the_cycle() -> None:
    frozen = frozen_target()
    batch, net = cyclic_batch(frozen), DraftNet(frozen, num_layers=1)
    assert (net.ranks(batch)[:, 0] > 0).any()
    learn(net, batch, 60)
    ranks = net.ranks(batch)
    # Every answer token is guessed once at depth 0, the first one right behind the prompt.
    assert ranks.shape == (sum(length - PROMPT for length in LENGTHS), EVAL_DEPTH)
    assert (ranks == -1).sum().item() == len(LENGTHS) * (1 + 2 + 3)
    assert ((ranks == 0) | (ranks == -1)).all()


def test_ranks_by_hand() -> None:
    frozen = frozen_target()
    batch, net = random_batch(frozen), nudged(DraftNet(frozen, num_layers=2))
    greedy = (batch.normed @ frozen.head.T).argmax(-1)
    batch.tokens[0, 3:6] = greedy[0, 2:5]
    with torch.no_grad():
        logits = reference(net, frozen)(batch.tokens).logits[..., list(DRAFT_IDS)]
    wanted = []
    for row in range(2):
        for t in range(8):
            if not batch.is_answer[row, t + 1]:
                continue
            line = []
            for d in range(EVAL_DEPTH):
                inside = t + 1 + d < 9 and bool(batch.is_answer[row, t + 1 + d])
                true = all(batch.tokens[row, s + 1] == greedy[row, s] for s in range(t, t + d))
                if not (inside and true):
                    line.append(-1)
                    continue
                answer, scores = int(greedy[row, t + d]), logits[row, t + d].tolist()
                order = sorted(range(len(DRAFT_IDS)), key=lambda place: -scores[place])
                names = [DRAFT_IDS[place] for place in order]
                line.append(names.index(answer) if answer in names else NUM_RANKS)
            wanted.append(line)
    assert {-1, NUM_RANKS} < {rank for line in wanted for rank in line}
    assert net.ranks(batch).tolist() == wanted


def test_only_its_own_layers_are_trained_and_shipped() -> None:
    frozen = frozen_target()
    net = DraftNet(frozen, num_layers=2)
    config, tensors = net.export()
    own = sum(parameter.numel() for parameter in net.parameters())
    assert sum(t.numel() for name, t in tensors.items() if name != "d2t") == own
    layer = {name: t.numel() for name, t in frozen.tensors.items() if ".layers.0." in name}
    assert own == 2 * sum(layer.values()) + frozen.config.hidden_size
    assert set(tensors) - {"d2t"} == {
        name
        for name in frozen.tensors
        if name.startswith(("model.layers.0.", "model.layers.1.", "model.norm."))
    }
    assert config["num_hidden_layers"] == 2
    assert config["shares_embedding_and_head"] is True


def test_rope_settings_of_the_target_are_kept() -> None:
    """A base of 10,000 instead of the target's turns every position wrong."""
    frozen = frozen_target()
    scaled: Any = family_config(
        "llama_llama3_rope", hidden_size=32, intermediate_size=48, vocab_size=23
    )
    net = DraftNet(FrozenTarget(frozen.folder, scaled, frozen.tensors, frozen.draft_vocab), 1)
    assert net.export()[0]["rope_parameters"] == dict(scaled.rope_parameters)


def test_what_is_exported_can_be_adopted() -> None:
    frozen = frozen_target()
    batch, net = random_batch(frozen), nudged(DraftNet(frozen, num_layers=2))
    _, tensors = net.export()
    other = DraftNet(frozen, num_layers=2)
    other.adopt(tensors)
    net.load_state_dict({name: t.bfloat16().float() for name, t in net.state_dict().items()})
    assert torch.equal(other.losses(batch, RNG)["loss"], net.losses(batch, RNG)["loss"])
    with pytest.raises(ValueError, match="does not fit the network"):
        DraftNet(frozen, num_layers=1).adopt(tensors)


def test_bfloat16_targets_train_under_autocast() -> None:
    frozen = frozen_target()
    halves = {name: t.bfloat16() for name, t in frozen.tensors.items()}
    halved = FrozenTarget(frozen.folder, frozen.config, halves, frozen.draft_vocab)
    batch = random_batch(frozen)
    exact = DraftNet(frozen, 2).losses(batch, RNG)["loss"].item()
    net = DraftNet(halved, 2)
    rounded = type(batch)(
        batch.tokens, batch.is_answer, batch.features.bfloat16(), batch.normed.bfloat16()
    )
    with torch.autocast("cpu", torch.bfloat16):
        loss = net.losses(rounded, RNG)["loss"]
        net.ranks(rounded)
    loss.backward()
    assert loss.item() == pytest.approx(exact, rel=0.03)
