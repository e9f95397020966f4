"""Medusa's heads in training: the loss by hand, which token each head learns, files."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specviz.drafters.medusa_net import MedusaNet
from specviz.drafters.training import NUM_RANKS
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

RNG = torch.Generator()


def moved(net: MedusaNet) -> MedusaNet:
    """Heads away from zero."""
    rng = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=rng)
    return net


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def test_the_loss_is_the_sum_by_hand() -> None:
    frozen = frozen_target()
    batch, net = random_batch(frozen), moved(MedusaNet(frozen, num_heads=3))
    head = frozen.head[list(DRAFT_IDS)].double().numpy()
    states = batch.normed.double().numpy()
    total = 0.0
    for i in range(3):
        linear = net.heads[i][0].linear
        weight = linear.weight.detach().double().numpy()
        bias = linear.bias.detach().double().numpy()
        terms = []
        for row in range(2):
            for t in range(9):
                if t + 2 + i < 9 and batch.is_answer[row, t + 2 + i]:
                    x = weight @ states[row, t] + bias
                    q = softmax(head @ (states[row, t] + x / (1 + np.exp(-x))))
                    p = softmax(head @ states[row, t + 1 + i])
                    terms.append(-(p * np.log(q)).sum())
        total += 0.8**i * np.mean(terms)
    assert net.losses(batch, RNG)["loss"].item() == pytest.approx(total, rel=1e-5)


def test_a_new_head_says_what_the_target_says() -> None:
    frozen = frozen_target()
    net, states = MedusaNet(frozen), random_batch(frozen).normed[0]
    for i in range(4):
        own = states @ frozen.head[list(DRAFT_IDS)].T
        torch.testing.assert_close(net._logits(i, states), own)


def test_heads_learn_the_tokens_two_and_more_ahead() -> None:
    """Off by one anywhere, and the cycle's neighbour would be learned instead."""
    frozen = frozen_target()
    batch, net = cyclic_batch(frozen), MedusaNet(frozen, num_heads=4)
    before = net.ranks(batch)
    assert (before[:, 0] > 0).all()  # untrained, head 0 repeats the token the target chose before
    learn(net, batch, 150)
    ranks = net.ranks(batch)
    # Token t + 2 is an answer token, the first one as well as the last.
    assert len(ranks) == sum(length - PROMPT for length in LENGTHS)
    assert (ranks == -1).sum().item() == len(LENGTHS) * (1 + 2 + 3)  # behind the end
    assert ((ranks == 0) | (ranks == -1)).all()


def test_ranks_by_hand() -> None:
    """Where the target's greedy token stands in each head's list, if all before it was greedy."""
    frozen = frozen_target()
    batch, net = random_batch(frozen), moved(MedusaNet(frozen, num_heads=3))
    greedy = (batch.normed @ frozen.head.T).argmax(-1)
    batch.tokens[0, 3:7] = greedy[0, 2:6]  # tokens 3 to 6 greedily written, 7 and 8 not
    wanted = []
    for row in range(2):
        for t in range(7):
            if not batch.is_answer[row, t + 2]:
                continue
            line = []
            for i in range(3):
                inside = t + 2 + i < 9 and bool(batch.is_answer[row, t + 2 + i])
                true = all(
                    batch.tokens[row, s + 1] == greedy[row, s] for s in range(t + 1, t + 1 + i)
                )
                if not (inside and true):
                    line.append(-1)
                    continue
                answer = int(greedy[row, t + 1 + i])
                logits = net._logits(i, batch.features[row, t][None])[0].tolist()
                order = sorted(range(len(DRAFT_IDS)), key=lambda place: -logits[place])
                names = [DRAFT_IDS[place] for place in order]
                line.append(names.index(answer) if answer in names else NUM_RANKS)
            wanted.append(line)
    assert {-1, NUM_RANKS} < {rank for line in wanted for rank in line}
    assert net.ranks(batch).tolist() == wanted


def test_what_is_exported_can_be_adopted() -> None:
    frozen = frozen_target()
    batch, net = random_batch(frozen), moved(MedusaNet(frozen, num_heads=2))
    config, tensors = net.export()
    assert config["medusa_num_heads"] == 2
    assert config["draft_vocab_size"] == len(DRAFT_IDS)
    names = {f"{i}.0.linear.{kind}" for i in range(2) for kind in ("weight", "bias")}
    assert set(tensors) == names | {"d2t"}
    assert all(tensors[name].dtype == torch.bfloat16 for name in names)
    assert [i + int(step) for i, step in enumerate(tensors["d2t"])] == list(DRAFT_IDS)
    other = MedusaNet(frozen, num_heads=2)
    other.adopt(tensors)
    rounded = {name: t.bfloat16().float() for name, t in net.state_dict().items()}
    net.load_state_dict(rounded)
    assert torch.equal(other.losses(batch, RNG)["loss"], net.losses(batch, RNG)["loss"])


def test_published_heads_with_logits_of_their_own_go_on_training() -> None:
    frozen = frozen_target()
    batch, shared = cyclic_batch(frozen), moved(MedusaNet(frozen, num_heads=2))
    _, tensors = shared.export()
    del tensors["d2t"]
    published = tensors | {f"{i}.1.weight": frozen.head.clone() for i in range(2)}
    net = MedusaNet(frozen, num_heads=2)
    net.adopt(published)
    rows = net.heads[0][1].weight
    assert torch.equal(rows, frozen.head[list(DRAFT_IDS)])
    assert rows.requires_grad
    learn(net, batch, 100)
    assert (net.ranks(batch) <= 0).all()
    _, own = net.export()
    assert own["1.1.weight"].shape == (len(DRAFT_IDS), frozen.config.hidden_size)
    again = MedusaNet(frozen, num_heads=2)
    again.adopt(own)
    assert torch.equal(again.heads[1][1].weight, own["1.1.weight"].float())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"2.0.linear.weight": torch.zeros(32, 32)}, "has 3 heads and 2 are trained"),
        ({"0.0.linear.weight": torch.zeros(16, 16)}, "does not fit the network"),
        ({"d2t": torch.zeros(len(DRAFT_IDS), dtype=torch.long)}, "another vocabulary"),
        ({"0.1.linear.weight": torch.zeros(32, 32)}, "several residual blocks"),
    ],
)
def test_heads_of_another_shape_are_refused(change: dict[str, torch.Tensor], words: str) -> None:
    net = MedusaNet(frozen_target(), num_heads=2)
    _, tensors = net.export()
    with pytest.raises(ValueError, match=words):
        net.adopt(tensors | change)


def test_bfloat16_targets_train_with_and_without_autocast() -> None:
    frozen = frozen_target()
    tensors = {name: t.bfloat16() for name, t in frozen.tensors.items()}
    halved = type(frozen)(frozen.folder, frozen.config, tensors, frozen.draft_vocab)
    states = random_batch(frozen)
    rounded = type(states)(
        states.tokens, states.is_answer, states.features.bfloat16(), states.normed.bfloat16()
    )
    exact = moved(MedusaNet(frozen)).losses(states, RNG)["loss"].item()
    for is_on in (False, True):
        net = moved(MedusaNet(halved))
        with torch.autocast("cpu", torch.bfloat16, enabled=is_on):
            loss = net.losses(rounded, RNG)["loss"]
        loss.backward()
        assert loss.item() == pytest.approx(exact, rel=0.02)
        assert net.heads[0][0].linear.weight.grad.dtype == torch.float32


def test_the_cycle_is_long_enough_to_tell_places_apart() -> None:
    assert len(set(CYCLE)) == len(CYCLE) > 5
