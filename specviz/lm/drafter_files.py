"""Where a drafter's tensors lie, and reading them: safetensors first, pickles as bare tensors.

Heads are often published as pickles alone. A pickle is opened by a reader that knows tensors and
nothing else, so that no code of it can run; one that holds more is refused. Of targets the same
reader rewrites those that come from the Hub as pickles (`safe_copy`).
"""

from __future__ import annotations

import pickle
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from specviz.lm.checkpoint_files import (
    INDEX,
    PICKLED,
    PICKLED_INDEX,
    PICKLES,
    WEIGHTS,
    cut_short,
    readable_size,
    safetensors_shapes,
    shards_of,
    tensor_shapes,
)

SAFETENSORS = ".safetensors"
# Beside a published head lies what its training left behind.
NO_WEIGHTS = ("optimizer", "scheduler", "scaler", "rng_state", "training_args")
UNREADABLE = (RuntimeError, EOFError, KeyError, ValueError, OSError, AttributeError, IndexError)


def read_tensors(place: Path) -> dict[str, Tensor]:
    """All tensors of one file, or of a folder's weight files, as stored.

    ValueError: there are none, several candidates, or a file is cut, no such file, or holds more
    than tensors.
    """
    tensors: dict[str, Tensor] = {}
    for file in [place] if place.is_file() else _files_of(place):
        tensors |= read_pickle(file) if file.suffix in PICKLES else _safe(file)
    return tensors


def _files_of(folder: Path) -> list[Path]:
    if (folder / INDEX).exists():
        tensor_shapes(folder)  # ValueError unless every file is there, whole, with what it promises
        return shards_of(folder, INDEX)
    for name in (WEIGHTS, PICKLED_INDEX, PICKLED):
        if (folder / name).exists():
            return shards_of(folder, name) if name == PICKLED_INDEX else [folder / name]
    for suffixes in ((SAFETENSORS,), PICKLES):
        found = sorted(path for path in folder.iterdir() if _may_hold_weights(path, suffixes))
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise ValueError(
                f"{folder} holds several files that may be the drafter's weights ({names}): leave "
                f"the one to use, or name it {WEIGHTS}."
            )
        if found:
            return found
    raise ValueError(f"{WEIGHTS} is missing from {folder}: copy or fetch it again.")


def _may_hold_weights(path: Path, suffixes: tuple[str, ...]) -> bool:
    return path.suffix in suffixes and not path.name.startswith(NO_WEIGHTS)


def _safe(file: Path) -> dict[str, Tensor]:
    safetensors_shapes(file)  # ValueError, naming the fault, unless it is whole
    try:
        with safe_open(file, framework="pt") as shard:
            return {name: shard.get_tensor(name) for name in shard.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ValueError(cut_short(file.parent, error)) from error


def read_pickle(file: Path) -> dict[str, Tensor]:
    """The tensors of a pickled state dict. ValueError: it is cut short, or holds more than tensors."""
    readable_size(file)
    try:
        with warnings.catch_warnings(action="ignore"):  # of a pickle that is refused below
            # Mapped, a large head is read when it is used; the old form of file cannot be.
            mapped = zipfile.is_zipfile(file)
            held: Any = torch.load(file, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{file.name} in {file.parent} is a pickle that holds more than tensors, and reading "
            f"the rest could run code, so it is refused: convert it to {WEIGHTS}."
        ) from error
    except UNREADABLE as error:
        raise ValueError(
            f"{file.name} in {file.parent} is not a readable pickle of tensors; it may be cut "
            "short: fetch it again."
        ) from error
    if not isinstance(held, dict) or not all(isinstance(t, Tensor) for t in held.values()):
        raise ValueError(
            f"{file.name} in {file.parent} does not hold tensors by name: expected a "
            "state dict, as its authors publish it."
        )
    return {str(name): tensor for name, tensor in held.items()}
