"""Worker: one model repository from the Hub into a folder, each file checked against the listing.

Run as `python -m specviz.lm.hub_worker REPOSITORY REVISION FOLDER KIND` by `sources`; of a "target"
it brings model and tokenizer, of a "drafter" config.json and weights. A copy that the
Hub's own library already keeps on this machine is taken first, with no network. A target's pickles
are rewritten as safetensors when they are here.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
from huggingface_hub.hf_api import RepoSibling

from specviz.lm.checkpoint_files import (
    INDEX,
    PICKLED,
    PICKLED_INDEX,
    PICKLES,
    WEIGHTS,
    sha256_of,
    shards_of,
    tensor_shapes,
)
from specviz.lm.child import end_with_parent, megabytes, say
from specviz.words import word

CONFIG = "config.json"
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")  # one of them is needed
BESIDE = (
    *("generation_config.json", "special_tokens_map.json", "tokenizer_config.json"),
    *("chat_template.jinja", "merges.txt"),
)
SHARDS = re.compile(r"model-\d+-of-\d+\.safetensors")
PICKLED_SHARDS = re.compile(r"pytorch_model-\d+-of-\d+\.bin")
Wanted = Callable[[Iterable[str]], list[str]]  # names in a repository -> those to bring
LISTING_SECONDS = 6.0  # a name look-up that hangs is not covered by any connect timeout
REFUSALS = {
    401: "the Hub shows it to nobody unknown: it does not exist, is private, or is gated; if it is "
    "gated, accept its licence on its model page and log in here (hf auth login, or HF_TOKEN)",
    403: "it is gated: accept its licence on its model page with the account you are logged in as",
    404: "the Hub has no such repository or revision",
}


def main(repository: str, revision: str, folder: Path, wanted: Wanted) -> None:
    end_with_parent()
    kept = _from_library_cache(repository, revision, folder, wanted)
    try:
        commit = kept or _download(repository, revision, folder, wanted)
    except HfHubHTTPError as error:
        status = error.response.status_code
        sys.exit(REFUSALS.get(status, f"the Hub answered with status {status}"))
    if wanted is of_target and any(folder.glob("*.bin")):
        from specviz.lm.safe_copy import make_safe  # with torch, which all others do without

        make_safe(folder, folder)
    key = "source.hub_kept" if kept else "source.hub"
    at = {"repository": repository, "revision": revision, "commit": commit[:12]}
    say(source=word(key, **at))


def _from_library_cache(repository: str, revision: str, folder: Path, wanted: Wanted) -> str:
    """The commit whose files were copied into `folder`; empty if they are not all here."""
    try:
        kept = Path(snapshot_download(repository, revision=revision, local_files_only=True))
        names = wanted(path.name for path in kept.iterdir() if path.is_file())
        if INDEX in names:
            tensor_shapes(kept)  # all shards are there, whole
        if PICKLED_INDEX in names and not {f.name for f in shards_of(kept, PICKLED_INDEX)} <= set(
            names
        ):
            return ""
    except (LocalEntryNotFoundError, ValueError):
        return ""
    for name in names:
        blob = (kept / name).resolve()
        if len(blob.name) == 64 and sha256_of(blob) != blob.name:  # blobs are named by their hash
            return ""
    for name in names:
        _bring((kept / name).resolve(), folder / name)
    return kept.name


def _bring(blob: Path, place: Path) -> None:
    """A second name for the same bytes, or a copy on another disk: weights are large."""
    try:
        place.hardlink_to(blob)
    except OSError:
        shutil.copyfile(blob, place)


def of_target(names: Iterable[str]) -> list[str]:
    """The files of a repository that a target is made of: pickles only where nothing else is there.
    ValueError: one that it needs is missing."""
    there = set(names)
    weights = _safetensors(there) or _pickles(there)
    if CONFIG not in there:
        raise ValueError(f"the repository has no {CONFIG}")
    if not there & set(TOKENIZERS):
        raise ValueError(f"the repository has no {TOKENIZERS[0]}")
    if not weights:
        raise ValueError(
            f"the repository has neither {WEIGHTS} nor {PICKLED}; weights in other formats are "
            "not fetched"
        )
    return [CONFIG, *(name for name in (*TOKENIZERS, *BESIDE) if name in there), *weights]


def of_drafter(names: Iterable[str]) -> list[str]:
    """The same of a drafter. Pickles come only where nothing else is there; they are opened by a
    reader that knows tensors alone."""
    there = set(names)
    if CONFIG not in there:
        raise ValueError(f"the repository has no {CONFIG}")
    safe = _safetensors(there) or sorted(n for n in there if n.endswith(".safetensors"))
    pickled = sorted(n for n in there if n.endswith(PICKLES) or n == PICKLED_INDEX)
    if not safe and not pickled:
        raise ValueError("the repository has no weights")
    return [CONFIG, *(safe or pickled)]


def _safetensors(there: set[str]) -> list[str]:
    """The weight files under their usual names: one, or the index and its shards."""
    if WEIGHTS in there:
        return [WEIGHTS]
    shards = sorted(name for name in there if SHARDS.fullmatch(name))
    return [INDEX, *shards] if INDEX in there and shards else []


def _pickles(there: set[str]) -> list[str]:
    """The same of weights that `safe_copy` will rewrite."""
    if PICKLED in there:
        return [PICKLED]
    shards = sorted(name for name in there if PICKLED_SHARDS.fullmatch(name))
    return [PICKLED_INDEX, *shards] if PICKLED_INDEX in there and shards else []


def _download(repository: str, revision: str, folder: Path, wanted: Wanted) -> str:
    commit, listed = _listing(repository, revision)
    files = {name: listed[name] for name in wanted(listed)}
    sizes_of = {name: file.size or 0 for name, file in files.items()}
    total, needed = sum(sizes_of.values()), room_for(sizes_of, is_rewritten=wanted is of_target)
    if needed > (free := shutil.disk_usage(folder).free):
        sizes = f"it needs {megabytes(needed)}, {megabytes(free)} are free"
        raise ValueError(f"No space left on device: {sizes}")
    say(total=total)
    for name, file in files.items():
        # Pinned to the commit of the listing, so that all files are of one state.
        hf_hub_download(repository, name, revision=commit, local_dir=folder, etag_timeout=5)
        _check(folder / name, file)
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    return commit


def room_for(sizes: Mapping[str, int], *, is_rewritten: bool) -> int:
    """Bytes on the disk for files of these sizes; a pickle goes when its copy beside it is whole."""
    pickles = (size for name, size in sizes.items() if name.endswith(".bin"))
    return sum(sizes.values()) + (max(pickles, default=0) if is_rewritten else 0)


def _listing(repository: str, revision: str) -> tuple[str, dict[str, RepoSibling]]:
    """The commit that `revision` names now, and its files."""
    found: list[tuple[str, dict[str, RepoSibling]]] = []
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            info = HfApi().model_info(repository, revision=revision, files_metadata=True, timeout=4)
        except Exception as error:  # noqa: BLE001 - raised again below, in the main thread
            errors.append(error)
            return
        files = {s.rfilename: s for s in info.siblings or ()}
        found.append((info.sha or revision, files))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(LISTING_SECONDS)
    if errors:
        raise errors[0]
    if not found:
        raise TimeoutError(f"no answer within {LISTING_SECONDS:.0f} seconds")
    return found[0]


def _check(path: Path, file: RepoSibling) -> None:
    """Large files have their SHA-256 in the listing, small ones git's own hash of the content."""
    if file.lfs is not None:
        expected, got = file.lfs.sha256, sha256_of(path)
    elif file.blob_id is not None:
        content = path.read_bytes()
        git_blob = b"blob %d\0" % len(content) + content
        expected, got = file.blob_id, hashlib.sha1(git_blob, usedforsecurity=False).hexdigest()
    else:
        raise ValueError(f"the listing has no hash of {path.name}")
    if got != expected:
        path.unlink()
        raise ValueError(f"{path.name} has hash {got}, but the Hub lists {expected}")


if __name__ == "__main__":
    kinds: dict[str, Wanted] = {"target": of_target, "drafter": of_drafter}
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), kinds[sys.argv[4]])
