"""A language whose next token is certain, and a target that speaks it: for tests of training.

The ids in CYCLE follow each other in that order, round and round. The target's state after a
token says the next one without doubt. A network that has learned it ranks the target's token
first at every depth; one that reads a row too early or too late never does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specviz.drafters.training import FrozenTarget, TrainBatch, Trainee
from tests.models import family_config, random_model

CYCLE = (3, 17, 4, 11, 8, 20, 5)
DRAFT_IDS = tuple(sorted((*CYCLE, 2, 13)))  # neither the whole vocabulary nor its beginning
PROMPT = 3  # tokens of each sequence's prompt
LENGTHS = (24, 17)


def frozen_target(num_layers: int = 3) -> FrozenTarget:
    """A random Llama of 23 ids and width 32, float32; its head is its own."""
    config: Any = family_config(
        "llama", vocab_size=23, hidden_size=32, intermediate_size=48, num_hidden_layers=num_layers
    )
    tensors = {name: t.detach() for name, t in random_model(config).state_dict().items()}
    return FrozenTarget(Path(), config, tensors, torch.tensor(DRAFT_IDS))


def cyclic_batch(frozen: FrozenTarget) -> TrainBatch:
    """Two sequences that start at different places of the cycle, the shorter one padded."""
    tokens = torch.zeros(len(LENGTHS), max(LENGTHS), dtype=torch.long)
    is_answer = torch.zeros(tokens.shape, dtype=torch.bool)
    states = torch.zeros(*tokens.shape, frozen.config.hidden_size)
    for row, length in enumerate(LENGTHS):
        text = [CYCLE[(3 * row + i) % len(CYCLE)] for i in range(length + 1)]
        tokens[row, :length] = torch.tensor(text[:length])
        is_answer[row, PROMPT:length] = True
        states[row, :length] = torch.stack([state_before(frozen, token) for token in text[1:]])
    return TrainBatch(tokens, is_answer, states, states)


def state_before(frozen: FrozenTarget, token: int) -> Tensor:
    """(H,) a state whose logits single `token` out: 20 for it, 0 for each other id."""
    wanted = torch.zeros(len(frozen.head))
    wanted[token] = 20.0
    state: Tensor = torch.linalg.pinv(frozen.head) @ wanted
    return state


def random_batch(frozen: FrozenTarget, seed: int = 0) -> TrainBatch:
    """States and tokens without any order, for losses computed by hand."""
    rng = torch.Generator().manual_seed(seed)
    tokens = torch.randint(len(frozen.head), (2, 9), generator=rng)
    is_answer = torch.zeros(2, 9, dtype=torch.bool)
    is_answer[0, 2:9] = is_answer[1, 4:7] = True
    states = torch.randn(2, 9, frozen.config.hidden_size, generator=rng)
    return TrainBatch(tokens, is_answer, states, states)


def learn(net: Any, batch: TrainBatch, num_steps: int, rate: float = 3e-3) -> Trainee:
    optimiser = torch.optim.Adam(net.parameters(), rate)
    random = torch.Generator().manual_seed(0)
    for _ in range(num_steps):
        optimiser.zero_grad()
        net.losses(batch, random)["loss"].backward()
        optimiser.step()
    trained: Trainee = net
    return trained
