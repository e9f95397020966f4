"""The machine a measurement is made on, and what it can run: for people and for a report.

Torch is imported inside the calls, so that naming a benchmark does not load it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime

from specviz.config import TargetSpec


@dataclass(frozen=True, slots=True)
class Machine:
    description: str  # what computes, with how many threads or how much memory
    device: str
    versions: dict[str, str]
    date: str  # ISO 8601, UTC
    packed: str  # whether the packed forward pass runs here, and if not, why
    int4: str  # the same of 4-bit copies that draft


@dataclass(frozen=True, slots=True)
class KeptWeights:
    """A target's checkpoint in the cache."""

    num_bytes: int
    source: str


def describe_here() -> Machine:
    from specviz.lm.device import describe_machine, library_versions, pick_device
    from specviz.lm.int4 import why_not_int4
    from specviz.lm.linear import why_not_packed

    device = pick_device()
    is_cpu = device.type == "cpu"
    return Machine(
        description=describe_machine(device),
        device=str(device),
        versions=library_versions(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        packed=_verdict(why_not_packed() if is_cpu else "it is made for CPUs"),
        int4=_verdict((why_not_packed() or why_not_int4()) if is_cpu else "they are made for CPUs"),
    )


def load_average() -> float | None:
    """Of the last minute; None where the system keeps none. Above 0 somebody else was computing."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def kept_weights(spec: TargetSpec) -> KeptWeights | None:
    """What the cache holds of a target fetched by name; None if nothing whole."""
    from specviz.lm.weights import RECEIPT, cache_root

    receipt = cache_root() / spec.name / RECEIPT
    try:
        facts = json.loads(receipt.read_text("utf-8"))
        sizes = [receipt.with_name(name).stat().st_size for name in facts["files"]]
        return KeptWeights(sum(sizes), str(facts["source"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _verdict(reason: str | None) -> str:
    return "yes" if reason is None else f"no: {reason}"
