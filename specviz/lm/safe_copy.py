"""A checkpoint's pickled weights written anew as safetensors, which everything else here reads.

Models of 2023 are often published as pickles alone. Each file is opened by the reader that knows
tensors and nothing else (`drafter_files`), so no code of it can run. What was fetched is gone when
its tensors are written; a person's own file stays. Run as `python -m specviz.lm.safe_copy FOLDER
PLACE` by `own_pickles`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from specviz.lm.checkpoint_files import (
    INDEX,
    PICKLED,
    PICKLED_INDEX,
    WEIGHTS,
    has_only_pickles,
    shards_of,
)
from specviz.lm.child import end_with_parent
from specviz.lm.drafter_files import read_pickle


def make_safe(folder: Path, place: Path) -> None:
    """The pickles of `folder` as safetensors in `place`; where both are one, the pickles go.

    Nothing is done where there are safetensors, or no weights at all. ValueError: a file is cut
    short, or holds more than tensors.
    """
    if not has_only_pickles(folder):
        return
    if (folder / PICKLED_INDEX).exists():
        _rewrite_shards(folder, place)
    else:
        _rewrite(folder / PICKLED, place / WEIGHTS)


def _rewrite_shards(folder: Path, place: Path) -> None:
    homes = dict[str, str]()
    for shard in shards_of(folder, PICKLED_INDEX):
        name = shard.name.replace("pytorch_model", "model").replace(".bin", ".safetensors")
        homes |= dict.fromkeys(_rewrite(shard, place / name), name)
    total = sum(path.stat().st_size for path in place.glob("*.safetensors"))
    index = {"metadata": {"total_size": total}, "weight_map": homes}
    (place / INDEX).write_text(json.dumps(index, indent=1), "utf-8")
    if folder == place:
        (folder / PICKLED_INDEX).unlink()


def _rewrite(pickled: Path, safe: Path) -> list[str]:
    """The names of its tensors."""
    tensors = read_pickle(pickled)
    save_file(_apart(tensors), safe, {"format": "pt"})
    if pickled.parent == safe.parent:
        pickled.unlink()
    return list(tensors)


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Each in memory of its own: safetensors takes none that shares it, as a tied head does."""
    seen, apart = set[int](), dict[str, Tensor]()
    for name, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        apart[name] = tensor.clone() if place in seen else tensor.contiguous()
        seen.add(place)
    return apart


if __name__ == "__main__":
    end_with_parent()
    make_safe(Path(sys.argv[1]), Path(sys.argv[2]))
