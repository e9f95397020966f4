"""How each method is trained: where its network lives, with what arguments, on what schedule.

Plain values, no torch: the command line reads them before anything is loaded. The loop is
`recipe`; each loss is in its network's own file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DEFAULT_BATCH_TOKENS = 2400


@dataclass(frozen=True, slots=True)
class Schedule:
    num_steps: int
    learning_rate: float = 8e-4
    batch_tokens: int = DEFAULT_BATCH_TOKENS  # padding included
    warmup_steps: int = 50
    clip: float = 0.5
    seed: int = 0
    eval_every: int = 200
    save_seconds: float = 180.0


@dataclass(frozen=True, slots=True)
class Phase:
    """One run of the loop. A later phase starts from the weights of the one before it."""

    epochs: float  # passes over the corpus, unless a person says otherwise
    learning_rate: float
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of the network's constructor


@dataclass(frozen=True, slots=True)
class Recipe:
    net: str  # module:class, below specviz.drafters
    title: str
    drafters: tuple[str, ...]  # lanes that decode with these weights
    how: str  # what is trained, and on what loss: for the model card
    phases: tuple[Phase, ...]


RECIPES: Mapping[str, Recipe] = {
    "draft_model": Recipe(
        "draft_net:DraftNet",
        "Draft model",
        ("draft_model",),
        "A few decoder layers of the target's own width, started from layers of the target, between "
        "its frozen embedding and head; forward KL to the target's distribution at every answer "
        "token.",
        (Phase(3.0, 8e-4),),
    ),
    "medusa": Recipe(
        "medusa_net:MedusaNet",
        "Medusa-1 heads",
        ("medusa",),
        "One residual block per head on the frozen target's last hidden state, read out by the "
        "target's own head; soft cross-entropy against the target, head i weighted by 0.8 ** i.",
        (Phase(2.0, 1e-3),),
    ),
    "mtp": Recipe(
        "mtp_net:MtpNet",
        "MTP: a tuned backbone and its module",
        ("mtp",),
        "A low-rank update of the target's upper layers and one multi-token-prediction module, used again "
        "at each step. First the module alone, on the frozen target; then both, with a KL term that "
        "keeps the tuned model near the original.",
        (Phase(2.0, 8e-4, {"freeze_backbone": True}), Phase(1.0, 4e-4)),
    ),
    "eagle": Recipe(
        "eagle_net:EagleNet",
        "EAGLE-1 and EAGLE-2",
        ("eagle", "eagle2"),
        "One decoder layer that continues the target's features: smooth L1 to the next feature, and "
        "cross-entropy of the target's frozen head on it against the target's own distribution; "
        "uniform noise on the features it reads. Then the same over three steps on its own output.",
        (Phase(2.0, 8e-4), Phase(1.0, 4e-4, {"num_steps": 3})),
    ),
    "eagle3": Recipe(
        "eagle3_net:Eagle3Net",
        "EAGLE-3",
        ("eagle3",),
        "One decoder layer on low, middle and high features of the target, with a head over the "
        "draft vocabulary; training-time test over two steps, then five, soft cross-entropy against the "
        "target at each, step k weighted by 0.8 ** k.",
        (Phase(2.5, 8e-4, {"num_steps": 2}), Phase(1.0, 4e-4)),
    ),
}
