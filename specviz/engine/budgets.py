"""The width of a lane's tree where nobody set one: the last row that still pays on this machine.

A row pays if it raises tokens per round by more than it raises the round's cost (`theory`). What
reads cost was measured (`lm.reads`). How likely rows are kept is not known before a run, so the rates
assumed for static trees stand in; draft passes are taken as a layer and a head of that weight.
"""

from __future__ import annotations

from math import prod
from typing import Any

from specviz.config import LaneSpec
from specviz.drafters.base import Drafter
from specviz.drafters.eagle import ASSUMED_RATES
from specviz.drafters.knobs import knobs_of
from specviz.drafters.static_growth import likeliest_paths
from specviz.lm.reads import Curve
from specviz.theory import Costs, paying_rows

BUDGET, DEPTH = "budget", "depth"  # knobs of drafters that grow trees
LAYERS_PER_STEP = 2  # what a pass of a drafter weighs, in layers of the target


def lane_config(
    drafter: type[Drafter], spec: LaneSpec, reads: Curve, num_layers: int, *, is_adaptive: bool
) -> Any:
    """The drafter's Config: the lane's knobs, and if asked for the budget that pays here."""
    given: dict[str, Any] = dict(spec.knobs)
    config = drafter.Config(**given)
    limits = {knob.name: knob for knob in knobs_of(drafter.Config)}
    if not is_adaptive or not reads or BUDGET not in limits or BUDGET in given:
        return config
    budget = fitted_budget(reads, num_layers, getattr(config, DEPTH, len(ASSUMED_RATES)))
    least, most = int(limits[BUDGET].minimum), int(limits[BUDGET].maximum)
    return drafter.Config(**given, budget=max(least, min(budget, most)))


def fitted_budget(reads: Curve, num_layers: int, depth: int) -> int:
    """Rows, the root included, by the assumed rates down to `depth`. 1: no draft pays here."""
    costs = Costs(draft_step=LAYERS_PER_STEP / num_layers, host=0.0, reads=reads)
    rates = ASSUMED_RATES[:depth]
    paths = likeliest_paths(rates, reads[-1][0] - 1)
    chances = [prod(rates[d][rank] for d, rank in enumerate(path)) for path in paths]
    return paying_rows(chances, costs, num_steps=len(rates))
