"""What a start on two cores needs: `python -m tests.space.startup`, with the default model kept here.

The app is started as a Space starts it: weights in the Hub's cache as `preload_from_hub` leaves
them, nothing of ours kept, no home. Printed: seconds until the page was answered and until a first
run of two lanes had ended, and the largest memory of the app and of what it started.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gradio_client import Client

from specviz.lm.checkpoint_files import sha256_of
from specviz.lm.weights import RECEIPT, cache_root
from specviz.presets import DEFAULT_SOURCES, DEFAULT_TARGET
from specviz.trace import RunEnd
from specviz.trace_io import load_events
from tests.space.serving import space

CORES = 2
POLL_SECONDS = 0.05
COMMIT = "0" * 40
RUN = {"lanes": ["autoregressive", "eagle3"], "max_new_tokens": 64}


def main() -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with tempfile.TemporaryDirectory() as folder:
        preloaded(cache_root() / DEFAULT_TARGET.name, Path(folder) / "hub")
        threads = {"OMP_NUM_THREADS": str(CORES), "HF_HUB_CACHE": f"{folder}/hub"}
        (Path(folder) / "space").mkdir()
        begin = time.monotonic()
        with largest_memory() as memory, space(Path(folder) / "space", **threads) as url:
            page = time.monotonic() - begin
            client = Client(url, verbose=False, httpx_kwargs={"timeout": 600})
            events = list(
                load_events(client.predict("Why is the sky blue?", RUN, api_name="/trace"))
            )
            assert isinstance(events[-1], RunEnd), events[-1]
            run = time.monotonic() - begin
    sys.stdout.write(
        f"page answered after {page:.1f} s, first run ended after {run:.1f} s\n"
        f"largest memory {max(memory) / 1e9:.2f} GB, of {len(memory)} looks\n"
    )


def preloaded(kept: Path, hub: Path) -> None:
    """The default model's files as the Hub's own library keeps them: blobs named by their hash."""
    owner, name = DEFAULT_SOURCES.hub.repository.split("/")
    root = hub / f"models--{owner}--{name}"
    snapshot, blobs = root / "snapshots" / COMMIT, root / "blobs"
    for made in (snapshot, blobs, root / "refs"):
        made.mkdir(parents=True)
    (root / "refs" / DEFAULT_SOURCES.hub.revision).write_text(COMMIT)
    for file in json.loads((kept / RECEIPT).read_text("utf-8"))["files"]:
        blob = blobs / sha256_of(kept / file)
        blob.write_bytes((kept / file).read_bytes())
        (snapshot / file).symlink_to(blob)


@contextmanager
def largest_memory() -> Iterator[list[int]]:
    """Bytes that all processes we started hold together, at many moments; shared pages count once
    for each that holds them."""
    seen, is_over = [0], threading.Event()

    def look() -> None:
        while not is_over.wait(POLL_SECONDS):
            seen.append(sum(map(resident, offspring(os.getpid()))))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()


def offspring(process: int) -> list[int]:
    found = []
    for tasks in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = [int(child) for child in tasks.read_text().split()]
        except OSError:  # it has ended
            continue
        found += [each for child in children for each in (child, *offspring(child))]
    return found


def resident(process: int) -> int:
    """0 if it has ended."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
