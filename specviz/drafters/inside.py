"""Drafters published inside their target's own checkpoint: MTP modules, and Medusa-2's heads.

Such a model needs no drafter of its own: its folder is asked for one. Only the drafter's tensors
are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from specviz.drafters import medusa_files, mtp_files
from specviz.lm.checkpoint_files import read_json
from specviz.lm.checkpoints import DrafterCheckpoint, load_checkpoint
from specviz.lm.model_parts import names_in, read_some

WHOLE_MODEL = "model.embed_tokens.weight"
# Method -> whether there is one among a model's names, and what its tensors are called.
_KNOWN: dict[str, tuple[Callable[[Iterable[str]], bool], str]] = {
    "medusa": (medusa_files.are_heads, rf"{re.escape(medusa_files.INSIDE_A_MODEL)}.*"),
    "mtp": (mtp_files.are_module, r"(mtp|model\.mtp_layers)\..*"),
}


def is_inside(method: str, folder: Path) -> bool:
    """Whether the model in `folder` brings such a drafter. What is in it is checked when it is
    built; a folder that cannot be read has none."""
    if method not in _KNOWN:
        return False
    try:
        return _KNOWN[method][0](names_in(folder))
    except ValueError:
        return False


def load_drafter(method: str, place: Path) -> DrafterCheckpoint:
    """Of a drafter's own folder or file, or out of a whole model. ValueError: what is wrong."""
    if place.is_dir() and WHOLE_MODEL in names_in(place) and is_inside(method, place):
        return load_inside(method, place)
    return load_checkpoint(place)


def load_inside(method: str, folder: Path) -> DrafterCheckpoint:
    """ValueError: the model's files are broken."""
    config, pattern = read_json(folder / "config.json"), _KNOWN[method][1]
    if method == "mtp":  # DeepSeek's is the layer behind the last
        count = (config.get("text_config") or config).get("num_hidden_layers")
        pattern = rf"{pattern}|model\.layers\.{count}\..*"
    tensors = read_some(folder, lambda name: re.fullmatch(pattern, name) is not None)
    return DrafterCheckpoint(folder, config, tensors)
