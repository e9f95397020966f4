"""EAGLE-3: one layer reads three of the target's hidden states and names the next tokens itself
(Li et al. 2025, arXiv:2503.01840).

The dialect is the authors' own: `midlayer`, a head and a norm of the drafter's own, a draft
vocabulary, features that enter layers 2, L // 2 and L - 3. A draft goes on from the layer's
output, not normed. Rows, trees and cache are EAGLE-2's. Training is in `eagle3_net`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from specviz.drafters.base import TargetKit
from specviz.drafters.eagle import DynamicConfig, DynamicDrafter
from specviz.drafters.parts import (
    LAYER,
    described,
    embedding_of,
    known_ids,
    layer_of,
    layer_shapes,
    optional_shapes,
    placed,
    setting,
)
from specviz.lm.base import FeatureTap
from specviz.lm.checkpoints import DrafterCheckpoint, check_tensors
from specviz.lm.draft_layer import norm_of
from specviz.lm.linear import best_linear
from specviz.lm.packed_cache import PackedCache
from specviz.words import Refusal, message

# n = rows of a pass, H = hidden size, F = 3 H (low, mid, high), Vd = draft vocabulary

MIN_LAYERS = 5  # of a target: in a shallower one the layers to read do not exist
OTHER_DIALECTS = ("norm_before_residual", "norm_before_fc", "norm_output", "fc_norm")


class Eagle3(DynamicDrafter):
    Config: ClassVar[type] = DynamicConfig
    title: ClassVar[str] = "EAGLE-3"
    summary: ClassVar[str] = "One layer reads low, middle and high states; the tree grows by need."
    paper: ClassVar[str] = "Li et al. 2025, arXiv:2503.01840"

    def __init__(self, config: DynamicConfig, kit: TargetKit) -> None:
        if kit.num_layers < MIN_LAYERS:
            counts = {"layers": kit.num_layers, "needed": MIN_LAYERS}
            raise Refusal(message("refusal.too_few_layers", **counts))
        low_mid_high = (2, kit.num_layers // 2, kit.num_layers - 3)
        taps = tuple(FeatureTap("input", layer) for layer in low_mid_high)
        super().__init__(config, Eagle3Network(kit.trained("eagle3"), kit), taps)


class Eagle3Network:
    """fc over three features, one layer over (embedding, feature), norm and head of its own."""

    def __init__(self, checkpoint: DrafterCheckpoint, kit: TargetKit) -> None:
        checkpoint = _renamed(checkpoint)
        _check(checkpoint, kit)
        tensors = placed(checkpoint.tensors, kit)
        eps = float(setting(checkpoint, "rms_norm_eps"))
        self.ids = known_ids(checkpoint, kit)
        self.layer = layer_of(checkpoint, tensors)
        self.embed = embedding_of(tensors, kit)
        self._fc = best_linear(tensors["fc.weight"])
        self._embedding_norm = norm_of(tensors[LAYER + "input_layernorm.weight"], eps)
        self._feature_norm = norm_of(tensors[LAYER + "hidden_norm.weight"], eps)
        self._final_norm = norm_of(tensors["norm.weight"], eps)
        self._head = best_linear(tensors["lm_head.weight"][: len(self.ids)])
        self.description = described(tensors, self.ids)

    def fused(self, features: Tensor) -> Tensor:
        return self._fc(features)

    def read(
        self, tokens: Tensor, features: Tensor, depths: Tensor, visible: Tensor, cache: PackedCache
    ) -> Tensor:
        normed = (self._embedding_norm(self.embed(tokens)), self._feature_norm(features))
        return self.layer.run(torch.cat(normed, dim=-1), features, depths, visible, cache)

    def logits(self, hidden: Tensor) -> Tensor:
        return self._head(self._final_norm(hidden))


def _renamed(checkpoint: DrafterCheckpoint) -> DrafterCheckpoint:
    tensors = {
        LAYER + name.removeprefix("midlayer.") if name.startswith("midlayer.") else name: tensor
        for name, tensor in checkpoint.tensors.items()
    }
    return replace(checkpoint, tensors=tensors)


def _check(checkpoint: DrafterCheckpoint, kit: TargetKit) -> None:
    """ValueError: these are not the weights of such a drafter for this target."""
    size = kit.hidden_size
    ids = checkpoint.tensors.get("d2t")
    num_ids = kit.vocab_size if ids is None else len(ids)
    required = layer_shapes(size, 2 * size) | {
        "fc.weight": (size, 3 * size),
        LAYER + "input_layernorm.weight": (size,),
        LAYER + "hidden_norm.weight": (size,),
        "norm.weight": (size,),
        "lm_head.weight": (num_ids, size),
    }
    check_tensors(checkpoint, required, optional_shapes(kit), "EAGLE-3")
    if others := [flag for flag in OTHER_DIALECTS if checkpoint.config.get(flag)]:
        raise ValueError(
            f"The EAGLE-3 drafter in {checkpoint.folder} was trained with {others[0]}, which "
            "changes what its layer computes and is not supported; choose another drafter."
        )
