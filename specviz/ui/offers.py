"""What the page offers ready-made: example prompts and presets. Values alone; their names and the
one line why stand in the words tables under `example.` and `preset.`."""

from __future__ import annotations

from typing import Any

from specviz.config import PLAIN_DRAFTER, Catalog
from specviz.fitting import CARD_PRESETS

EXAMPLES = {  # chosen to differ in how well they can be guessed
    "chat": "Explain how rainbows form, step by step.",
    "code": "Write a Python function that returns the n-th Fibonacci number with a loop.",
    "copying": "Copy this text exactly, twice: The lighthouse on the cliff turns its lamp at dusk. "
    "The lamp on the cliff warns the ships at dusk. The ships turn at dusk.",
    "list": "List the planets from the sun outwards, one per line, each with one fact.",
    "maths": "A train covers 60 km in its first hour and 45 km in its second. "
    "What is its average speed? Show each step.",
    "prose": "Write a short story about a lighthouse keeper who finds a letter.",
    "language": "Écris une courte lettre à un ami pour l'inviter à la mer cet été.",
}
DEFAULT_PROMPT = EXAMPLES["chat"]
MAX_FIRST = 6  # more lanes than this are a race to ask for, not one to begin with
PREFERRED = (PLAIN_DRAFTER, "eagle3", "draft_model", "prompt_lookup", "lookahead", "medusa")


def presets(catalog: Catalog) -> dict[str, dict[str, Any]]:
    """Settings by preset name, in the form that `read_request` takes; only what exists here.
    A prompt among them stands for a visitor who has chosen none."""
    able = runnable(catalog, catalog.targets[0].name)
    quick = [n for n in (PLAIN_DRAFTER, "draft_model", "prompt_lookup", "eagle3") if n in able]
    settings: dict[str, dict[str, Any]] = {
        "teaching": {
            "lanes": [n for n in (PLAIN_DRAFTER, "draft_model") if n in able],
            "knobs": {"draft_model": {"num_draft_tokens": 4}} if "draft_model" in able else {},
            "max_new_tokens": 32,
        },
        "dice": {
            "lanes": [n for n in (PLAIN_DRAFTER, "draft_model") if n in able],
            "max_new_tokens": 48,
            "temperature": 1.0,
            "verification": "rejection",
        },
        "fast": {"prompt": EXAMPLES["copying"], "lanes": quick, "max_new_tokens": 48},
        "quality": {
            "lanes": first_lanes(catalog),
            "max_new_tokens": 256,
            "precision": "float32",
            "temperature": 0.7,
            "top_p": 0.95,
            "verification": "coupled",
        },
    }
    settings |= _card_presets(catalog)
    return {name: {**values, "is_adaptive": True} for name, values in settings.items()}


def _card_presets(catalog: Catalog) -> dict[str, dict[str, Any]]:
    """What suits a graphics card of so many GB, as far as it fits this machine."""
    able = {
        (fit.pair.target.name, fit.pair.drafter.repository): fit.pair.drafter.method
        for fit in catalog.fits
        if fit.why_not is None and fit.device == "cuda"
    }
    found: dict[str, dict[str, Any]] = {}
    for size, wanted in CARD_PRESETS.items():
        target, drafter, form = wanted[0]
        if (method := able.get((target, drafter))) is not None and catalog.can_run(target, method):
            lanes = [PLAIN_DRAFTER, method]
            precision = "auto" if form == "bfloat16" else form  # which it is where it fits
            found[f"card_{size}"] = {"target": target, "precision": precision, "lanes": lanes}
    return found


def runnable(catalog: Catalog, target: str) -> list[str]:
    """The drafters that can run on `target` here."""
    return [d.name for d in catalog.drafters if catalog.can_run(target, d.name)]


def first_lanes(catalog: Catalog) -> list[str]:
    """The lanes a new visitor gets: a few that differ, plain decoding first."""
    able = runnable(catalog, catalog.targets[0].name)
    ranked = sorted(able, key=lambda n: PREFERRED.index(n) if n in PREFERRED else len(PREFERRED))
    chosen = set(ranked[:MAX_FIRST])
    return [name for name in able if name in chosen]
