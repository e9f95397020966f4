"""A model over several GPUs of one machine, where one has no room: accelerate places its layers.

A pass then walks from card to card, so no graph holds it and it is read by the plain path. Layers
in main memory or on disk are refused: each pass would fetch them anew, and a draft saves passes only
where a pass over a few rows costs what a pass over one row does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from specviz.words import Refusal, message

USED_SHARE = 0.9  # of a card's free memory: the rest is for cache, activations and drafter


def free_on_cards() -> list[int]:
    """Bytes free on each GPU, what this process has reserved and not used included."""
    found = []
    for index in range(torch.cuda.device_count()):
        unused = torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index)
        found.append(int(torch.cuda.mem_get_info(index)[0]) + unused)
    return found


def placing(needed: int | None, free: Sequence[int]) -> Mapping[str, Any]:
    """What transformers is told so that a model of `needed` bytes finds room: nothing where the
    first GPU has enough, or alone is there; else how much each of them may take."""
    if needed is None or len(free) < 2 or needed <= free[0]:
        return {}
    most = {index: int(USED_SHARE * size) for index, size in enumerate(free)}
    return {"device_map": "auto", "max_memory": most}


def check_places(model: Any) -> None:
    """Refusal: some layers did not come to lie on a GPU."""
    places: Mapping[str, Any] = getattr(model, "hf_device_map", None) or {}
    away = sorted({str(place) for place in places.values()} & {"cpu", "disk"})
    is_split = len(set(places.values())) > 1
    if is_split and away:
        lost = [name for name, place in places.items() if str(place) in away]
        told = {"count": len(lost), "place": away[0]}
        raise Refusal(message("refusal.offloaded", **told))
