"""Tiny random checkpoints of each method with weights, for any target: published names and shapes.

Weights are drawn wide, so that attention and every tensor matter to what is drafted. Drafters made
of them guess badly, which is what tests of losslessness want.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specviz.lm.base import LanguageModel
from specviz.lm.checkpoints import DrafterCheckpoint
from tests.lm.layer64 import random_layer

HEADS = 4
WIDE = 0.2


def draft_vocabulary(vocab_size: int) -> Tensor:
    """(Vd,) all ids but 1, 6, 11, ...: a drafter that cannot name all tokens."""
    return torch.tensor([i for i in range(vocab_size) if i % 5 != 1])


def eagle(lm: LanguageModel, *, seed: int = 1) -> DrafterCheckpoint:
    """EAGLE-1 and 2: fc and a layer without input norm; the target's head over the vocabulary."""
    size = lm.hidden_size
    tensors = random_layer("layers.0.", size, 24, inputs=size, kv=size // 2, scale=WIDE, seed=seed)
    return checkpoint(lm, {"fc.weight": wide((size, 2 * size), seed)} | tensors)


def eagle3(lm: LanguageModel, *, seed: int = 2) -> DrafterCheckpoint:
    """EAGLE-3 in the authors' dialect."""
    size = lm.hidden_size
    tensors = random_layer(
        "midlayer.", size, 24, inputs=2 * size, kv=size // 2, scale=WIDE, seed=seed
    )
    norms = ("norm", "midlayer.input_layernorm", "midlayer.hidden_norm")
    for i, name in enumerate(norms):
        tensors[f"{name}.weight"] = 1.0 + wide((size,), seed + i)
    tensors["fc.weight"] = wide((size, 3 * size), seed)
    tensors["lm_head.weight"] = wide((len(draft_vocabulary(lm.vocab_size)), size), seed + 9)
    return checkpoint(lm, tensors)


def mtp(lm: LanguageModel, *, seed: int = 3) -> DrafterCheckpoint:
    """A module with DeepSeek's names, and an update of one layer of the model."""
    size, prefix = lm.hidden_size, f"model.layers.{lm.num_layers}."
    tensors = random_layer(prefix, size, 24, inputs=size, kv=size // 2, scale=WIDE, seed=seed)
    norms = ("enorm", "hnorm", "input_layernorm", "shared_head.norm")
    for i, name in enumerate(norms):
        tensors[f"{prefix}{name}.weight"] = 1.0 + wide((size,), seed + i)
    tensors[f"{prefix}eh_proj.weight"] = wide((size, 2 * size), seed + 7)
    updated = "backbone.layers.0.self_attn.q_proj."
    tensors[f"{updated}lora_A"] = wide((2, size), seed + 8)
    tensors[f"{updated}lora_B"] = wide((size, 2), seed + 9)
    found = checkpoint(lm, tensors)
    found.config.update(lora_rank=2, lora_alpha=4.0)
    return found


def medusa(lm: LanguageModel, *, seed: int = 4) -> DrafterCheckpoint:
    """Three heads that share the target's head, and no measured hit rates."""
    size, tensors = lm.hidden_size, dict[str, Tensor]()
    for i in range(3):
        tensors[f"{i}.0.linear.weight"] = wide((size, size), seed + i)
        tensors[f"{i}.0.linear.bias"] = wide((size,), seed + 3 + i)
    return checkpoint(lm, tensors)


def draft_model(lm: LanguageModel, *, seed: int = 5) -> DrafterCheckpoint:
    """One layer with transformers' names, between the target's embedding and head."""
    size, prefix = lm.hidden_size, "model.layers.0."
    tensors = random_layer(prefix, size, 24, inputs=size, kv=size // 2, scale=WIDE, seed=seed)
    for i, name in enumerate((f"{prefix}input_layernorm", "model.norm")):
        tensors[f"{name}.weight"] = 1.0 + wide((size,), seed + i)
    return checkpoint(lm, tensors)


MAKERS: dict[str, Callable[[LanguageModel], DrafterCheckpoint]] = {
    "draft_model": draft_model,
    "eagle": eagle,
    "eagle3": eagle3,
    "medusa": medusa,
    "mtp": mtp,
}


def checkpoint(lm: LanguageModel, tensors: dict[str, Tensor]) -> DrafterCheckpoint:
    """With a draft vocabulary, and the config of its one layer."""
    ids = draft_vocabulary(lm.vocab_size)
    tensors["d2t"] = ids - torch.arange(len(ids))
    config: dict[str, Any] = {
        "hidden_size": lm.hidden_size,
        "num_attention_heads": HEADS,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500.0,
        "draft_vocab_size": len(ids),
    }
    return DrafterCheckpoint(Path("a-checkpoint"), config, tensors)


def wide(shape: tuple[int, ...], seed: int) -> Tensor:
    return WIDE * torch.randn(shape, generator=torch.Generator().manual_seed(100 + seed))
