"""A target to be tuned: frozen in bf16, with a trainable low-rank update beside every linear layer
(LoRA, arXiv:2106.09685). Adding a finished update to the weights is `low_rank`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from specviz.lm.folder import require_safetensors

TUNED = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class LoraLinear(nn.Module):
    """y = x W^T + b + scale (x A^T) B^T; W and b are the target's and stay as they are."""

    weight: Tensor
    bias: Tensor | None

    def __init__(
        self, base: nn.Linear, rank: int, scale: float, *, random: torch.Generator
    ) -> None:
        super().__init__()
        num_out, num_in = base.weight.shape
        self.register_buffer("weight", base.weight.detach(), persistent=False)
        self.register_buffer("bias", None if base.bias is None else base.bias.detach(), False)
        spread = torch.randn(rank, num_in, generator=random) * num_in**-0.5
        self.lora_A = nn.Parameter(spread)
        self.lora_B = nn.Parameter(torch.zeros(num_out, rank))  # so training starts at the target
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        low = F.linear(x, self.lora_A.to(x.dtype)) * self.scale
        return F.linear(x, self.weight, self.bias) + F.linear(low, self.lora_B.to(x.dtype))


def tunable_decoder(
    folder: Path, rank: int, scale: float, random: torch.Generator, *, num_layers: int
) -> nn.Module:
    """The target without its head, bf16 and frozen, a low-rank update beside every linear layer of
    the uppermost `num_layers` decoder layers (all, if it has no more). ValueError: that is none.

    What is frozen is held in buffers, so that its parameters and its saved state are the update.
    """
    if num_layers < 1:
        raise ValueError(f"At least one layer must be tuned; got {num_layers}.")
    require_safetensors(folder)
    model = AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=torch.bfloat16,
        local_files_only=True,
        use_safetensors=True,
        trust_remote_code=False,
    )
    decoder: Any = model.get_decoder()
    for layer in decoder.layers[-num_layers:]:
        for part in (layer.self_attn, layer.mlp):
            for name in TUNED:
                if hasattr(part, name):
                    tuned = LoraLinear(getattr(part, name), rank, scale, random=random)
                    setattr(part, name, tuned)
    for module in decoder.modules():
        if not isinstance(module, LoraLinear):
            for name, parameter in list(module.named_parameters(recurse=False)):
                delattr(module, name)
                module.register_buffer(name, parameter.detach(), persistent=False)
    frozen: nn.Module = decoder.eval()
    return frozen
