"""Which parameters Muon moves, which AdamW, and that the state of both goes on."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from specviz.train.optimizer import MatrixOptimizer

RATE = 0.01


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(0)
        self.inner = nn.Linear(8, 8)
        self.lm_head = nn.Linear(8, 12, bias=False)
        self.q_proj = nn.Module()
        self.q_proj.lora_A = nn.Parameter(torch.zeros(2, 8))
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=random)


def step(net: Net, optimizer: MatrixOptimizer, seed: int = 0) -> None:
    """One step on gradients of chance."""
    random = torch.Generator().manual_seed(seed)
    optimizer.zero_grad()
    for parameter in net.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=random)
    optimizer.step(RATE)


def test_a_matrix_moves_alike_in_all_directions_and_all_else_by_its_sign() -> None:
    net = Net()
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    step(net, MatrixOptimizer(net))
    moved = {name: p.detach() - before[name] for name, p in net.named_parameters()}
    sizes = torch.linalg.svdvals(moved["inner.weight"])
    assert sizes.max() < 2 * sizes.min()  # five Newton-Schulz steps bring them near one another
    for name in ("inner.bias", "lm_head.weight", "q_proj.lora_A"):  # AdamW's first step
        assert torch.allclose(moved[name].abs(), torch.tensor(RATE), rtol=1e-3), name


def test_a_state_goes_on_as_if_nothing_had_happened() -> None:
    whole, first, second = Net(), Net(), Net()
    optimizer, early, late = (MatrixOptimizer(net) for net in (whole, first, second))
    step(whole, optimizer, 1)
    step(whole, optimizer, 2)
    step(first, early, 1)
    second.load_state_dict(first.state_dict())
    late.load_state_dict(early.state_dict())
    step(second, late, 2)
    for ours, theirs in zip(second.parameters(), whole.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_state_of_another_optimizer_is_refused() -> None:
    net = Net()
    other = torch.optim.AdamW(net.parameters()).state_dict()
    with pytest.raises(ValueError, match="another optimizer"):
        MatrixOptimizer(net).load_state_dict(other)
