"""Name -> "module:Class". A new drafter is one file here and one line below; the tests find it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from specviz.config import DrafterInfo
from specviz.drafters.knobs import knobs_of

if TYPE_CHECKING:
    from specviz.drafters.base import Drafter

DRAFTERS = {
    "autoregressive": "specviz.drafters.autoregressive:Autoregressive",
    "draft_model": "specviz.drafters.draft_model:DraftModel",
    "prompt_lookup": "specviz.drafters.prompt_lookup:PromptLookup",
    "lookahead": "specviz.drafters.lookahead:Lookahead",
    "eagle": "specviz.drafters.eagle:Eagle",
    "eagle2": "specviz.drafters.eagle:Eagle2",
    "eagle3": "specviz.drafters.eagle3:Eagle3",
    "medusa": "specviz.drafters.medusa:Medusa",
    "mtp": "specviz.drafters.mtp:Mtp",
}
# Drafter -> the method of the trained weights without which it cannot be built (`TargetKit.trained`).
NEEDS_WEIGHTS = {
    "eagle": "eagle",
    "eagle2": "eagle",
    "eagle3": "eagle3",
    "medusa": "medusa",
    "mtp": "mtp",
}


def drafter_class(name: str) -> type[Drafter]:
    if name not in DRAFTERS:
        raise ValueError(f"There is no drafter {name!r}; there are: {', '.join(DRAFTERS)}.")
    module, cls = DRAFTERS[name].split(":")
    drafter: type[Drafter] = getattr(import_module(module), cls)
    return drafter


def drafter_info(name: str) -> DrafterInfo:
    cls = drafter_class(name)
    return DrafterInfo(name, cls.title, cls.summary, cls.paper, knobs_of(cls.Config), cls.exactness)
