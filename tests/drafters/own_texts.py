"""Texts a tiny model writes itself, as training sees them and as lanes write them again.

Networks trained on them for a moment know them by heart, so lanes over the same prompts accept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from specviz.drafters.base import Drafter, TargetKit
from specviz.drafters.training import FrozenTarget, TrainBatch
from specviz.lm.base import FeatureTap, LanguageModel
from specviz.lm.checkpoints import DrafterCheckpoint
from specviz.lm.plain import PlainLM

PROMPTS = ([5, 6, 7, 8, 9, 10], [40, 41, 42, 40, 41], [77, 3, 60])
BUDGET = 40


def greedy_text(lm: PlainLM, prompt: Sequence[int], count: int) -> list[int]:
    """What transformers' own `generate` writes after the prompt."""
    with torch.random.fork_rng():
        ids = lm.model.generate(
            torch.tensor([list(prompt)]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False,
            max_new_tokens=count,
            pad_token_id=0,
            eos_token_id=None,
        )
    answer: list[int] = ids[0, len(prompt) :].tolist()
    return answer


def frozen_of(lm: PlainLM, draft_ids: Sequence[int]) -> FrozenTarget:
    tensors = {name: t.detach() for name, t in lm.model.state_dict().items()}
    return FrozenTarget(Path(), lm.model.config, tensors, torch.tensor(sorted(draft_ids)))


def own_batch(lm: LanguageModel, answers: Sequence[Sequence[int]]) -> TrainBatch:
    """The model's answers to PROMPTS, with its states."""
    texts = [[*prompt, *answer] for prompt, answer in zip(PROMPTS, answers, strict=True)]
    tokens = torch.zeros(len(texts), max(map(len, texts)), dtype=torch.long)
    is_answer = torch.zeros(tokens.shape, dtype=torch.bool)
    states = torch.zeros(*tokens.shape, lm.hidden_size)
    for row, text in enumerate(texts):
        tokens[row, : len(text)] = torch.tensor(text)
        is_answer[row, len(PROMPTS[row]) : len(text)] = True
        normed = lm.prefill(text, lm.new_cache(len(text)), (FeatureTap("normed"),))
        assert normed is not None
        states[row, : len(text)] = normed
    return TrainBatch(tokens, is_answer, states, states)


def checkpoint_of(net: Any, **settings: Any) -> DrafterCheckpoint:
    """What a network exports, as a drafter gets it. The network takes over the same rounding."""
    config, tensors = net.export()
    net.adopt(tensors)
    return DrafterCheckpoint(Path("trained"), config | settings, dict(tensors))


def with_weights(
    make: Callable[[TargetKit], Drafter], checkpoints: Mapping[str, DrafterCheckpoint]
) -> Callable[[TargetKit], Drafter]:
    """The same drafter, where these are the trained weights at hand."""

    def trained(method: str) -> DrafterCheckpoint:
        if method not in checkpoints:
            raise ValueError(f"There are no trained {method} weights in this test.")
        return checkpoints[method]

    return lambda kit: make(replace(kit, trained=trained))
