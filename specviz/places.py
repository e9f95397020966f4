"""Drafters as a person names them, `[METHOD=]PLACE`: a folder of trained drafters, a drafter's own
folder or weight file, or a repository of the Hub. Gathered into one folder with one for each method,
which is what the engine looks into.

What is here is linked, not copied; what is on the Hub is fetched. A checkpoint is read when a lane
asks for it.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from specviz.catalogue import PAIRS, PublishedDrafter
from specviz.presets import HUB_ID, hub_target, local_target
from specviz.trace import Progress
from specviz.words import Refusal, Told, message

DRAFT_MODEL = "draft_model"
METHODS = ("eagle", "eagle3", "medusa", "mtp", DRAFT_MODEL)
# What a drafter's tensors say it is (`lm.checkpoints.kind_of`) -> its method.
KINDS = {"EAGLE-1": "eagle", "EAGLE-3": "eagle3", "Medusa": "medusa", "MTP": "mtp"}
CONFIG = "config.json"
Tell = Callable[[Progress], None]
T = TypeVar("T")


@dataclass(slots=True)
class Gathered:
    """Where the engine finds what was named."""

    drafters: Path | None = None  # a folder with a folder for each method
    draft: Path | None = None  # a language model of its own to draft with


@dataclass(slots=True)
class _Found:
    folders: dict[str, Path] = field(default_factory=dict)  # by method: a folder, or a weight file
    draft: Path | None = None


def gathered(drafters: Sequence[str], draft: str | None, tell: Tell) -> Gathered:
    """tell: hears of downloads. ValueError: a place is none, it cannot be told what lies there, or a
    repository is gated, absent or out of reach."""
    found = _Found(draft=None if draft is None else _draft_folder(draft, tell))
    folders = [Path(text).expanduser() for text in drafters]
    if len(folders) == 1 and folders[0].is_dir() and not (folders[0] / CONFIG).is_file():
        return Gathered(folders[0], found.draft)  # as training leaves it: nothing is to be gathered
    for text in drafters:
        _find(text, found, tell)
    return Gathered(_linked(found.folders) if found.folders else None, found.draft)


def _draft_folder(text: str, tell: Tell) -> Path:
    folder = Path(text).expanduser()
    is_here = folder.is_dir() or not HUB_ID.fullmatch(text)
    if is_here and not (folder / CONFIG).is_file():
        raise ValueError(
            "--draft takes the folder of a checkpoint, or a repository of the Hub as "
            f"owner/name; {text!r} has no {CONFIG}."
        )
    return _whole_model(folder, tell) if is_here else _fetched(text, DRAFT_MODEL, tell)


def _find(text: str, found: _Found, tell: Tell) -> None:
    method, place = _split(text)
    path = Path(place).expanduser()
    if path.is_dir() and not (path / CONFIG).is_file():
        for folder in sorted(path.iterdir()):
            if folder.name in METHODS and folder.is_dir():
                _add(found, folder.name, folder)
        return
    if not path.exists():
        if not HUB_ID.fullmatch(place):
            raise Refusal(message("place.nothing", place=repr(text)))
        path = _fetched(place, method or _told_by_catalogue(place), tell)
        if not method and _kind_of(path) == DRAFT_MODEL:  # now with its tokenizer
            method, path = DRAFT_MODEL, _fetched(place, DRAFT_MODEL, tell)
    kind = method or _kind_of(path) or _told_by_catalogue(place)
    if not kind:
        raise Refusal(message("place.ambiguous", place=repr(place), methods=", ".join(METHODS)))
    if kind == DRAFT_MODEL and _is_whole_model(path):
        if found.draft is not None:
            both = {"first": str(found.draft), "second": place}
            raise Refusal(message("place.draft_twice", **both))
        found.draft = _whole_model(path, tell)
    else:
        _add(found, kind, path)


def _split(text: str) -> tuple[str, str]:
    """ "eagle3=owner/name" -> method and place; the method is "" where none was named."""
    method, equals, place = text.partition("=")
    if not equals or Path(text).expanduser().exists():
        return "", text
    if method not in METHODS:
        names = {"method": repr(method), "methods": ", ".join(METHODS)}
        raise Refusal(message("place.method", **names))
    return method, place


def _add(found: _Found, method: str, path: Path) -> None:
    if method in found.folders:
        both = {"first": str(found.folders[method]), "second": str(path)}
        raise Refusal(message("place.twice", method=method, **both))
    found.folders[method] = path


def _told_by_catalogue(repository: str) -> str:
    known = (p.drafter.method for p in PAIRS if p.drafter.repository == repository)
    return str(next(known, ""))


def _fetched(repository: str, method: str, tell: Tell) -> Path:
    """The folder of a repository's files; it may ask who you are, so your own account is named."""
    from specviz.lm.weights import fetch, fetch_drafter

    if method == DRAFT_MODEL:
        return _told(fetch(hub_target(repository)), tell).folder
    drafter = PublishedDrafter(repository, "eagle3", is_gated=True)  # fetched alike, whatever it is
    return _told(fetch_drafter(drafter), tell).folder


def _kind_of(path: Path) -> str:
    """The method that tensors are of, as far as their names tell; "" if they do not."""
    from specviz.lm.checkpoints import kind_of
    from specviz.lm.model_parts import names_at

    names = names_at(path)
    kind = kind_of(names)
    if kind is None and "model.embed_tokens.weight" in names:
        return DRAFT_MODEL
    return KINDS.get(kind or "", "")


def _whole_model(folder: Path, tell: Tell) -> Path:
    """The folder, checked; a copy of it as safetensors, if its weights are pickles."""
    from specviz.lm.weights import fetch

    return _told(fetch(local_target(str(folder))), tell).folder


def _is_whole_model(path: Path) -> bool:
    """Whether it brings the embedding and the tokenizer that ours borrow from their target."""
    return path.is_dir() and any(path.glob("tokenizer*"))


def _linked(folders: dict[str, Path]) -> Path:
    """A folder for as long as this program runs, with one for each method."""
    root = Path(tempfile.mkdtemp(prefix="specviz-drafters-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    for method, path in folders.items():
        (root / method).mkdir()
        own = [path, path.parent / CONFIG] if path.is_file() else sorted(path.iterdir())
        for file in own:
            if file.is_file():
                _link(file.resolve(), root / method / file.name)
    return root


def _link(file: Path, place: Path) -> None:
    """Without the right to link, or across disks, a copy."""
    try:
        place.symlink_to(file)
    except OSError:
        shutil.copyfile(file, place)


def _told(steps: Generator[Progress, None, T], tell: Tell) -> T:
    """The end of `steps`. Refusal: what a source says for itself."""
    while True:
        try:
            tell(next(steps))
        except StopIteration as end:
            value: T = end.value
            return value
        except Told as error:
            raise Refusal(error.message) from error
