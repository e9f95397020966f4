"""MTP: a module on the model's last state guesses token after token, going on from its own output
(DeepSeek-V3, arXiv:2412.19437; one module for all steps, as in FastMTP, arXiv:2509.18362). As
published it drafts a chain; SGLang's engine and this one grow a tree of its likeliest tokens too, as
EAGLE-2's, which the defaults do.

Module and model were trained together, so the lane decodes with its own tuned model (`backbone`),
which is what verifies it and what it is compared with. A checkpoint without an update of the model
works on the target as it is. The state is the one after the final norm, at the first step as at
those that follow, as engines have it. Names and order are `mtp_files`, training is `mtp_net`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from specviz.drafters.base import DraftContext, Proposal, TargetKit
from specviz.drafters.eagle import StaticDrafter
from specviz.drafters.growth import DynamicShape, grow_dynamic
from specviz.drafters.knobs import knob
from specviz.drafters.mtp_files import read_module
from specviz.drafters.parts import described, known_ids, target_head
from specviz.drafters.static_growth import StaticTree
from specviz.lm.base import FeatureTap
from specviz.lm.checkpoints import DrafterCheckpoint
from specviz.lm.linear import best_linear
from specviz.lm.low_rank import updates_of
from specviz.words import word

# n = rows of a pass, H = hidden size

STATES = ("normed", "raw")


@dataclass(frozen=True, slots=True)
class MtpConfig:
    num_draft_tokens: int = knob(3, 1, 8, help="Tokens drafted one after another in a round")
    top_k: int = knob(
        4, 1, 10, help="Children of a node: 1 drafts a chain, more a tree as EAGLE-2 grows it"
    )
    budget: int = knob(16, 2, 64, help="Rows the target reads in a round, the root included")
    state: str = knob(
        "normed",
        help="Which of the target's last states the module reads: after the final norm, or before "
        "it. The wrong one drafts worse, and changes nothing of the text",
        choices=STATES,
    )


class Mtp(StaticDrafter):
    Config: ClassVar[type] = MtpConfig
    title: ClassVar[str] = "MTP"
    summary: ClassVar[str] = (
        "A module trained together with its model guesses token after token; the lane decodes with "
        "that tuned model."
    )
    paper: ClassVar[str] = (
        "Gloeckle et al. 2024, arXiv:2404.19737; DeepSeek-AI 2024, arXiv:2412.19437"
    )

    def __init__(self, config: MtpConfig, kit: TargetKit) -> None:
        checkpoint, count = kit.trained("mtp"), config.num_draft_tokens
        self.backbone = "mtp" if updates_of(checkpoint) else ""
        is_raw = config.state == "raw"
        tap = FeatureTap("output", kit.num_layers - 1) if is_raw else FeatureTap("normed")
        length = min(count, config.budget - 1)
        chain = StaticTree((0,) * depth for depth in range(1, length + 1))
        super().__init__(chain, MtpNetwork(checkpoint, kit, is_raw=is_raw), (tap,), kit)
        self.tree = DynamicShape(config.top_k, count, config.budget)
        if config.top_k > 1:
            self.num_tree_rows = config.top_k * (count - 1)
        if self.backbone:
            self.description = word("drafts.tuned", network=self.description)

    def grow(self, context: DraftContext) -> Proposal:
        if self.tree.top_k == 1:
            return super().grow(context)
        assert self.rows is not None, "start comes first"
        return grow_dynamic(self.rows, self.tree, context.tokens[-1], context.max_depth)

    def _draws(self, context: DraftContext) -> bool:
        return self.tree.top_k == 1 and super()._draws(context)


class MtpNetwork:
    """The module; embedding and head are the model's, which its update leaves as they are."""

    def __init__(
        self, checkpoint: DrafterCheckpoint, kit: TargetKit, *, is_raw: bool = False
    ) -> None:
        """is_raw: it reads states before the final norm, and goes on from its own before it."""
        module = read_module(checkpoint, kit)
        self.ids = known_ids(checkpoint, kit)
        self.layer: Any = module.block  # what the rows of a lane ask of a layer, it has
        self.embed = kit.embed
        self._is_raw, self._module = is_raw, module
        self._projection = best_linear(module.projection)
        self._head = target_head(checkpoint, self.ids, kit)
        self.description = described(module.tensors, self.ids)

    def fused(self, features: Tensor) -> Tensor:
        return features

    def read(
        self, tokens: Tensor, features: Tensor, depths: Tensor, visible: Tensor, cache: Any
    ) -> Tensor:
        """(n, H): what the next step goes on from, and the head reads."""
        module = self._module
        embedded = self.embed(tokens)
        if module.spelling.hides_first:
            positions = self.layer.positions(depths, visible, cache)
            embedded = embedded * (positions > 0).to(embedded)[:, None]
        normed = [module.embedding_norm(embedded), module.state_norm(features)]
        if module.spelling.is_state_first:
            normed.reverse()
        x = self._projection(torch.cat(normed, dim=-1))
        out: Tensor = self.layer.run(x, depths, visible, cache)
        return out if self._is_raw else module.final_norm(out)

    def logits(self, hidden: Tensor) -> Tensor:
        return self._head(self._module.final_norm(hidden) if self._is_raw else hidden)
