"""A person's own checkpoint folder whose weights are pickles: a safe copy of it in the cache.

The copy is named by the files it was made from, so it is made once, and anew when one of them
changes. The folder itself is only read; its pickles are opened by a process of their own
(`safe_copy`), whose memory goes back.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Generator
from pathlib import Path

from specviz.lm import child
from specviz.lm.checkpoint_files import (
    PICKLED,
    PICKLED_INDEX,
    check_folder,
    readable_size,
    shards_of,
)
from specviz.trace import Progress
from specviz.words import message

SILENCE_SECONDS = 300.0  # reading a file of many gigabytes from a slow disk says nothing
NO_MODEL = (".bin", ".pt", ".pth", ".safetensors", ".gguf")


def safe_folder(folder: Path, root: Path) -> Generator[Progress, None, Path]:
    """Progress, then a folder under `root` with the same model as safetensors.

    One at a time. ValueError: a file is missing, cut short, or holds more than tensors, whose code is
    not run; or there is no room.
    """
    pickles, name = _pickles_of(folder), _name_of(folder)
    place, part = root / f"{name}-{_state_of(folder)}", root / f"{name}.part"
    if place.is_dir():
        return place
    for old in root.glob(f"{name}*"):  # of other files, or left by a process that was ended
        shutil.rmtree(old, ignore_errors=True)
    part.mkdir()
    try:
        _copy_others(folder, part)
        yield from _rewritten(folder, part, sum(readable_size(path) for path in pickles))
        check_folder(part)
        part.rename(place)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return place


def _pickles_of(folder: Path) -> list[Path]:
    if (folder / PICKLED_INDEX).exists():
        return shards_of(folder, PICKLED_INDEX)
    return [folder / PICKLED]


def _name_of(folder: Path) -> str:
    """Two folders of one name have copies of their own."""
    where = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]
    name = re.sub(r"[^\w.-]+", "--", folder.name)
    return f"pickled--{name}-{where}"


def _state_of(folder: Path) -> str:
    """Of every file's name, size and time: other files are another copy."""
    known = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        status = path.stat()
        known.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return known.hexdigest()[:16]


def _copy_others(folder: Path, place: Path) -> None:
    for path in folder.iterdir():
        if path.is_file() and path.suffix not in NO_MODEL and path.name != PICKLED_INDEX:
            shutil.copyfile(path, place / path.name)


def _rewritten(folder: Path, place: Path, num_bytes: int) -> Generator[Progress, None, None]:
    free = shutil.disk_usage(place).free
    if free < num_bytes:
        raise ValueError(
            f"{folder.name} has its weights as pickles, of which a copy as safetensors is made "
            f"first: it needs {child.megabytes(num_bytes)}, {child.megabytes(free)} are free."
        )
    command, env = child.worker("specviz.lm.safe_copy", str(folder), str(place))
    told = message("progress.rewrite", title=folder.name)
    job = child.Job(command, env, place, told, total=num_bytes, patience_seconds=SILENCE_SECONDS)
    try:
        yield from child.run(job)
    except child.SourceError as error:
        raise ValueError(f"{error}.") from error
