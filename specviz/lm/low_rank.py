"""A tuned model, kept as its difference from the target: low-rank factors (LoRA, arXiv:2106.09685),
added to the weights once, when it is loaded. Training them is `drafters.mtp_net`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.lm.checkpoints import DrafterCheckpoint

_PREFIX, _DOWN, _UP = "backbone.", ".lora_A", ".lora_B"


@dataclass(frozen=True, slots=True)
class LowRank:
    """What is added to one weight (out, in)."""

    down: Tensor  # (r, in)
    up: Tensor  # (out, r)
    scale: float

    def added_to(self, weight: Tensor) -> Tensor:
        """bf16, whatever the dtype of `weight`: the tuned model is the same in every precision.

        Worked out in float32. ValueError: the factors do not fit.
        """
        if (len(self.up), self.down.shape[1]) != weight.shape or len(self.down) != len(self.up.T):
            raise ValueError(
                f"factors of {tuple(self.up.shape)} and {tuple(self.down.shape)} do not fit a "
                f"weight of {tuple(weight.shape)}"
            )
        down, up = (t.to(weight.device, torch.float32) for t in (self.down, self.up))
        return (weight.float() + self.scale * (up @ down)).bfloat16()


Updates = Mapping[str, LowRank]  # by transformers' names of the weights


def updates_of(checkpoint: DrafterCheckpoint) -> dict[str, LowRank]:
    """Of `backbone.layers.0.mlp.up_proj.lora_A` and `.lora_B`, and all like them; {} if it has none.

    ValueError: half of a pair is missing, or config.json lacks its rank.
    """
    factors = {n: t for n, t in checkpoint.tensors.items() if n.startswith(_PREFIX)}
    found: dict[str, LowRank] = {}
    for name in sorted(n.removesuffix(_DOWN).removesuffix(_UP) for n in factors):
        pair = factors.get(name + _DOWN), factors.get(name + _UP)
        down, up = pair
        if down is None or up is None:
            raise ValueError(f"The checkpoint in {checkpoint.folder} has half an update of {name}.")
        found[f"model.{name.removeprefix(_PREFIX)}.weight"] = LowRank(down, up, _scale(checkpoint))
    return found


def tuned(tensors: Mapping[str, Tensor], updates: Updates) -> dict[str, Tensor]:
    """The target's tensors, the updated ones replaced. ValueError: an update fits none of them."""
    changed = dict(tensors)
    for name, update in updates.items():
        if name not in tensors:
            raise ValueError(f"The tuned model changes {name}, which the target does not have.")
        try:
            changed[name] = update.added_to(tensors[name])
        except ValueError as error:
            raise ValueError(f"The tuned model is of another target: {name}, {error}.") from error
    return changed


def _scale(checkpoint: DrafterCheckpoint) -> float:
    try:
        return float(checkpoint.config["lora_alpha"]) / int(checkpoint.config["lora_rank"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise ValueError(
            f"config.json in {checkpoint.folder} does not say lora_alpha and lora_rank."
        ) from error
