"""Some tensors of a model's files, found by name: a drafter that was published inside its target.

Headers alone are read to look for them, and nothing else of the model is.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from specviz.lm.checkpoint_files import INDEX, WEIGHTS, cut_short, read_json, safetensors_shapes
from specviz.lm.drafter_files import SAFETENSORS, read_tensors


def names_in(folder: Path) -> dict[str, Path]:
    """Tensor name -> file; {} for a folder without safetensors.

    ValueError: the index or the file is broken.
    """
    if (folder / INDEX).exists():
        homes = read_json(folder / INDEX).get("weight_map") or {}
        return {str(name): folder / Path(str(home)).name for name, home in homes.items()}
    if not (folder / WEIGHTS).exists():
        return {}
    return dict.fromkeys(safetensors_shapes(folder / WEIGHTS), folder / WEIGHTS)


def names_at(place: Path) -> frozenset[str]:
    """Names of the tensors of a drafter's folder or of one weight file, pickles included."""
    if place.is_dir() and (found := names_in(place)):
        return frozenset(found)
    if place.suffix == SAFETENSORS:
        return frozenset(safetensors_shapes(place))
    return frozenset(read_tensors(place))


def read_some(folder: Path, is_wanted: Callable[[str], bool]) -> dict[str, Tensor]:
    """As stored. ValueError: a file is missing, cut short or broken."""
    homes = {name: file for name, file in names_in(folder).items() if is_wanted(name)}
    tensors: dict[str, Tensor] = {}
    try:
        for file in sorted(set(homes.values())):
            with safe_open(file, framework="pt") as shard:
                own = [name for name, home in homes.items() if home == file]
                tensors |= {name: shard.get_tensor(name) for name in own}
    except (OSError, SafetensorError) as error:
        raise ValueError(cut_short(folder, error)) from error
    return tensors
