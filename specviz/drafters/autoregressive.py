"""The baseline: propose nothing, so that a round is one plain decoding step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from specviz.config import Exactness
from specviz.drafters.base import DraftContext, Outcome, Proposal, TargetKit
from specviz.lm.base import FeatureTap
from specviz.tree import DraftTree


@dataclass(frozen=True, slots=True)
class AutoregressiveConfig:
    """Nothing to set."""


class Autoregressive:
    Config: ClassVar[type] = AutoregressiveConfig
    title: ClassVar[str] = "Plain decoding"
    summary: ClassVar[str] = "One token per pass of the target. The 1x line of every comparison."
    paper: ClassVar[str] = ""
    exactness: ClassVar[Exactness] = "exact"
    taps: tuple[FeatureTap, ...] = ()
    description = "no drafter: every token is the target's own"

    def __init__(self, config: AutoregressiveConfig, kit: TargetKit) -> None:
        del config, kit

    def start(self, context: DraftContext) -> None: ...

    def propose(self, context: DraftContext) -> Proposal:
        return Proposal(DraftTree.chain(context.tokens[-1]), draft_probs=(1.0,))

    def observe(self, outcome: Outcome) -> None: ...
