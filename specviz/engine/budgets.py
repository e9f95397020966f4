"""The width of a lane's tree where nobody set one: the last row that still pays on this machine.

A row pays if it raises tokens per round by more than it raises the round's cost (`theory`). What
reads cost was measured (`lm.reads`). How likely rows are kept is not known before a run, so the rates
assumed for static trees stand in; draft passes are taken as a layer and a head of that weight.
"""

from __future__ import annotations

from math import prod
from typing import Any

from specviz.config import BUDGET_KNOB, WIDTH_KNOB, LaneSpec
from specviz.drafters.base import Drafter
from specviz.drafters.eagle import ASSUMED_RATES
from specviz.drafters.knobs import knobs_of
from specviz.drafters.static_growth import likeliest_paths
from specviz.lm.reads import Curve
from specviz.theory import Costs, paying_rows

DEPTH_KNOBS = ("depth", "num_draft_tokens")  # what a tree's levels are called, if they can be set
LAYERS_PER_STEP = 2  # what a pass of a drafter weighs, in layers of the target


def lane_config(
    drafter: type[Drafter], spec: LaneSpec, reads: Curve, num_layers: int, *, is_adaptive: bool
) -> Any:
    """The drafter's Config: the lane's knobs, and if asked for the budget that pays here."""
    given: dict[str, Any] = dict(spec.knobs)
    config = drafter.Config(**given)
    limits = {knob.name: knob for knob in knobs_of(drafter.Config)}
    is_sized = BUDGET_KNOB in limits and BUDGET_KNOB not in given
    is_chain = getattr(config, WIDTH_KNOB, None) == 1  # which has a length, but no width
    if not is_adaptive or not reads or not is_sized or is_chain:
        return config
    depths = [getattr(config, name) for name in DEPTH_KNOBS if name in limits]
    budget = fitted_budget(reads, num_layers, *depths)
    least, most = int(limits[BUDGET_KNOB].minimum), int(limits[BUDGET_KNOB].maximum)
    return drafter.Config(**given, budget=max(least, min(budget, most)))


def fitted_budget(reads: Curve, num_layers: int, depth: int = len(ASSUMED_RATES)) -> int:
    """Rows, the root included, by the assumed rates down to `depth`. 1: no draft pays here."""
    costs = Costs(draft_step=LAYERS_PER_STEP / num_layers, host=0.0, reads=reads)
    rates = ASSUMED_RATES[:depth]
    paths = likeliest_paths(rates, reads[-1][0] - 1)
    chances = [prod(rates[d][rank] for d, rank in enumerate(path)) for path in paths]
    return paying_rows(chances, costs, num_steps=len(rates))
