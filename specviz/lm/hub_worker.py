"""Worker: one model repository from the Hub into a folder, each file checked against the listing.

Run as `python -m specviz.lm.hub_worker REPOSITORY REVISION FOLDER` by `sources`. A copy that the
Hub's own library already keeps on this machine is taken first, with no network.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import threading
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
from huggingface_hub.hf_api import RepoSibling

from specviz.lm.checkpoint_files import sha256_of
from specviz.lm.child import end_with_parent, say
from specviz.words import word

REQUIRED = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
OPTIONAL = (
    *("generation_config.json", "special_tokens_map.json", "chat_template.jinja"),
    *("vocab.json", "merges.txt"),
)
LISTING_SECONDS = 6.0  # a name look-up that hangs is not covered by any connect timeout


def main(repository: str, revision: str, folder: Path) -> None:
    end_with_parent()
    kept = _from_library_cache(repository, revision, folder)
    try:
        commit = kept or _download(repository, revision, folder)
    except HfHubHTTPError as error:
        sys.exit(f"the Hub answered with status {error.response.status_code}")
    key = "source.hub_kept" if kept else "source.hub"
    at = {"repository": repository, "revision": revision, "commit": commit[:12]}
    say(source=word(key, **at))


def _from_library_cache(repository: str, revision: str, folder: Path) -> str:
    """The commit whose files were copied into `folder`; empty if they are not all here."""
    try:
        kept = Path(
            snapshot_download(
                repository,
                revision=revision,
                local_files_only=True,
                allow_patterns=[*REQUIRED, *OPTIONAL],
            )
        )
    except LocalEntryNotFoundError:
        return ""
    if not all((kept / name).is_file() for name in REQUIRED):
        return ""
    blob = (kept / REQUIRED[-1]).resolve()
    if len(blob.name) == 64 and sha256_of(blob) != blob.name:  # blobs are named by their hash
        return ""
    for name in (*REQUIRED, *OPTIONAL):
        if (kept / name).is_file():
            shutil.copyfile(kept / name, folder / name)
    return kept.name


def _download(repository: str, revision: str, folder: Path) -> str:
    commit, files = _listing(repository, revision)
    missing = sorted(set(REQUIRED) - files.keys())
    if missing:
        raise ValueError(f"the repository has no {missing[0]}")
    say(total=sum(file.size or 0 for file in files.values()))
    for name, file in files.items():
        # Pinned to the commit of the listing, so that all files are of one state.
        hf_hub_download(repository, name, revision=commit, local_dir=folder, etag_timeout=5)
        _check(folder / name, file)
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    return commit


def _listing(repository: str, revision: str) -> tuple[str, dict[str, RepoSibling]]:
    """The commit that `revision` names now, and the files of it that we want."""
    found: list[tuple[str, dict[str, RepoSibling]]] = []
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            info = HfApi().model_info(repository, revision=revision, files_metadata=True, timeout=4)
        except Exception as error:  # noqa: BLE001 - raised again below, in the main thread
            errors.append(error)
            return
        wanted = {*REQUIRED, *OPTIONAL}
        files = {s.rfilename: s for s in info.siblings or () if s.rfilename in wanted}
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
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
