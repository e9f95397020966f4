"""Muon for the matrices of a network, AdamW for all else, as one optimizer.

Muon makes each update of a matrix orthogonal (Jordan et al. 2024; scaled as in Liu et al. 2025,
arXiv:2502.16982). On our drafters it needs well under half of AdamW's steps (DECISIONS.md). A head
over a vocabulary and the thin factors of a low-rank update stay with AdamW, as published.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

MATRIX_RATE = 2.5  # Muon's learning rate, times AdamW's
NO_MATRICES = ("lm_head.", ".lora_")  # parts of names


class MatrixOptimizer:
    """`learning_rate` is AdamW's; it is set before each step."""

    def __init__(self, net: nn.Module) -> None:
        named = [(name, p) for name, p in net.named_parameters() if p.requires_grad]
        matrices = [p for name, p in named if _is_matrix(name, p)]
        rest = [p for name, p in named if not _is_matrix(name, p)]
        self._parts: dict[str, tuple[torch.optim.Optimizer, float]] = {}
        if matrices:
            muon = torch.optim.Muon(matrices, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
            self._parts["muon"] = muon, MATRIX_RATE
        if rest:
            adamw = torch.optim.AdamW(rest, betas=(0.9, 0.95), weight_decay=0.0)
            self._parts["adamw"] = adamw, 1.0

    def zero_grad(self) -> None:
        for optimizer, _ in self._parts.values():
            optimizer.zero_grad(set_to_none=True)

    def step(self, learning_rate: float) -> None:
        for optimizer, factor in self._parts.values():
            for group in optimizer.param_groups:
                group["lr"] = factor * learning_rate
            optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        return {name: optimizer.state_dict() for name, (optimizer, _) in self._parts.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """ValueError: it is another optimizer's."""
        if state.keys() != self._parts.keys():
            raise ValueError("the state is another optimizer's")
        for name, (optimizer, _) in self._parts.items():
            optimizer.load_state_dict(state[name])


def _is_matrix(name: str, parameter: nn.Parameter) -> bool:
    return parameter.ndim == 2 and not any(part in f".{name}" for part in NO_MATRICES)
