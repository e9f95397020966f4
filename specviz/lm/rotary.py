"""Rotary positions of a config, as transformers computes them, for networks that are trained."""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding


def rotary(config: Any) -> nn.Module:
    """Called with x and positions (B, T), it returns cosines and sines (B, T, D) in x's dtype."""
    found: nn.Module = LlamaRotaryEmbedding(config)
    return found
