"""MTP: a module on the model's last state guesses token after token, going on from its own output
(DeepSeek-V3, arXiv:2412.19437; one module for all steps, as in FastMTP, arXiv:2509.18362).

Module and model were trained together, so the lane decodes with its own tuned model (`backbone`),
which is what verifies it and what it is compared with. A checkpoint without an update of the model
works on the target as it is. Names and order are DeepSeek's: [embedding, state], the state after
the final norm, at the first step as at those that follow. Training is in `mtp_net`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from specviz.drafters.base import DraftContext, Proposal, TargetKit
from specviz.drafters.eagle import DraftRows, FeatureDrafter, draft_static
from specviz.drafters.growth import StaticTree
from specviz.drafters.knobs import knob
from specviz.drafters.parts import (
    LAYER,
    described,
    known_ids,
    layer_of,
    layer_shapes,
    optional_shapes,
    placed,
    setting,
    target_head,
)
from specviz.lm.base import FeatureTap
from specviz.lm.checkpoints import DrafterCheckpoint, Shape, check_tensors
from specviz.lm.device import Stopwatch
from specviz.lm.draft_layer import norm_of
from specviz.lm.linear import best_linear
from specviz.lm.low_rank import updates_of
from specviz.lm.packed_cache import PackedCache
from specviz.words import word

# n = rows of a pass, H = hidden size, Vd = draft vocabulary

NORMS = ("enorm", "hnorm", "input_layernorm", "shared_head.norm")
REPEATED = ("embed_tokens.weight", "shared_head.head.weight")  # the model's, in published files


@dataclass(frozen=True, slots=True)
class MtpConfig:
    num_draft_tokens: int = knob(3, 1, 8, help="Tokens drafted one after another in a round")


class Mtp(FeatureDrafter):
    Config: ClassVar[type] = MtpConfig
    title: ClassVar[str] = "MTP"
    summary: ClassVar[str] = (
        "A module trained together with its model guesses a chain; the lane decodes with that "
        "tuned model."
    )
    paper: ClassVar[str] = "DeepSeek-AI 2024, arXiv:2412.19437"

    def __init__(self, config: MtpConfig, kit: TargetKit) -> None:
        checkpoint, count = kit.trained("mtp"), config.num_draft_tokens
        self.backbone = "mtp" if updates_of(checkpoint) else ""
        super().__init__(MtpNetwork(checkpoint, kit), (FeatureTap("normed"),), count - 1)
        self.chain = StaticTree((0,) * length for length in range(1, count + 1))
        self.vocab_size = kit.vocab_size
        if self.backbone:
            self.description = word("drafts.tuned", network=self.description)

    def grow(self, rows: DraftRows, context: DraftContext, watch: Stopwatch) -> Proposal:
        """Greedy: the likeliest token of each step. Else drawn under the run's own settings."""
        return draft_static(rows, self.chain, context, self.vocab_size, watch)


class MtpNetwork:
    """The module; embedding and head are the model's, which its update leaves as they are."""

    def __init__(self, checkpoint: DrafterCheckpoint, kit: TargetKit) -> None:
        checkpoint = _module_of(checkpoint, kit.num_layers)
        _check(checkpoint, kit)
        tensors = placed(checkpoint.tensors, kit)
        eps = float(setting(checkpoint, "rms_norm_eps"))
        self.ids = known_ids(checkpoint, kit)
        self.layer = layer_of(checkpoint, tensors)
        self.embed = kit.embed
        self._embedding_norm, self._state_norm, self._input_norm, self._final_norm = (
            norm_of(tensors[f"{LAYER}{name}.weight"], eps) for name in NORMS
        )
        self._projection = best_linear(tensors[LAYER + "eh_proj.weight"])
        self._head = target_head(checkpoint, self.ids, kit)
        self.description = described(tensors, self.ids)

    def fused(self, features: Tensor) -> Tensor:
        return features

    def read(
        self, tokens: Tensor, features: Tensor, depths: Tensor, visible: Tensor, cache: PackedCache
    ) -> Tensor:
        """(n, H) after the module's own final norm: what the head reads, and the next step."""
        normed = (self._embedding_norm(self.embed(tokens)), self._state_norm(features))
        x = self._projection(torch.cat(normed, dim=-1))
        return self._final_norm(self.layer.run(self._input_norm(x), x, depths, visible, cache))

    def logits(self, hidden: Tensor) -> Tensor:
        return self._head(hidden)


def _module_of(checkpoint: DrafterCheckpoint, num_layers: int) -> DrafterCheckpoint:
    """The module alone, its layer under the name that layers of drafters have here."""
    prefix = f"model.layers.{num_layers}."
    tensors = {
        LAYER + name.removeprefix(prefix) if name.startswith(prefix) else name: tensor
        for name, tensor in checkpoint.tensors.items()
        if not name.startswith("backbone.") and name.removeprefix(prefix) not in REPEATED
    }
    return replace(checkpoint, tensors=tensors)


def _check(checkpoint: DrafterCheckpoint, kit: TargetKit) -> None:
    """ValueError: these are not the weights of such a module for this target."""
    size = kit.hidden_size
    norms: dict[str, Shape] = {f"{LAYER}{name}.weight": (size,) for name in NORMS}
    projection: dict[str, Shape] = {LAYER + "eh_proj.weight": (size, 2 * size)}
    required = layer_shapes(size, size) | norms | projection
    check_tensors(checkpoint, required, optional_shapes(kit), "MTP")
