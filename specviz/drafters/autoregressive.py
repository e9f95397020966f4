"""The baseline: propose nothing, so that a round is one plain decoding step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from specviz.config import Exactness
from specviz.drafters.base import DraftContext, Outcome, Proposal, TargetKit
from specviz.drafters.knobs import knob
from specviz.lm.base import FeatureTap
from specviz.tree import DraftTree
from specviz.words import word


@dataclass(frozen=True, slots=True)
class AutoregressiveConfig:
    backbone: str = knob(
        "target",
        help="What decodes: the target, or the model tuned together with its MTP module, which is "
        "what the mtp lane is compared with",
        choices=("target", "mtp"),
    )


class Autoregressive:
    Config: ClassVar[type] = AutoregressiveConfig
    title: ClassVar[str] = "Plain decoding"
    summary: ClassVar[str] = "One token per pass of the target. The 1x line of every comparison."
    paper: ClassVar[str] = ""
    exactness: ClassVar[Exactness] = "exact"
    taps: tuple[FeatureTap, ...] = ()

    def __init__(self, config: AutoregressiveConfig, kit: TargetKit) -> None:
        self.backbone = "" if config.backbone == "target" else config.backbone
        self.description = word("drafts.plain")
        if self.backbone:
            kit.trained(self.backbone)  # ValueError: there is no such model here
            self.description = word("drafts.plain_tuned", method=self.backbone)

    def start(self, context: DraftContext) -> None: ...

    def propose(self, context: DraftContext) -> Proposal:
        return Proposal(DraftTree.chain(context.tokens[-1]), draft_probs=(1.0,))

    def observe(self, outcome: Outcome) -> None: ...
