"""What this machine has for models: memory of the device, disk of the cache folder, kernels.

Nothing here wakes a GPU: on a shared one (ZeroGPU) the process that serves the page may not, so
the card's memory is asked of the driver's own tool. Weighing a model that is about to load asks
torch itself (`free_bytes`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import torch

from specviz.fitting import Room
from specviz.lm.device import pick_device
from specviz.lm.linear import why_not_packed
from specviz.lm.quantised import why_not_quantised
from specviz.lm.spread import free_on_cards
from specviz.lm.weights import cache_root

MEMORY_INFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")  # a container's own limit
DRIVER_SECONDS = 5.0


def room_here() -> Room:
    device = pick_device()
    is_gpu = device.type == "cuda"
    return Room(
        device=device.type,
        free_bytes=_free_of_card() if is_gpu else _free_of_host(),
        disk_bytes=_free_of_disk(),
        is_packed=not is_gpu and why_not_packed() is None,
        is_quantising=why_not_quantised(device) is None,
    )


def free_bytes(device: torch.device) -> int | None:
    """What a model loaded on `device` now could take; None: not known."""
    if device.type != "cuda":
        return _free_of_host()
    return sum(free_on_cards())  # a model that one card cannot hold is spread over all of them


def _free_of_card() -> int | None:
    """Free memory of the first visible card, by the driver's tool; None if there is none."""
    command = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    if first := os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip():
        command.append(f"--id={first}")
    try:
        told = subprocess.run(
            command, capture_output=True, text=True, timeout=DRIVER_SECONDS, check=True
        ).stdout
        return int(told.splitlines()[0]) * 2**20
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def _free_of_host() -> int | None:
    """Memory a new model could take: what the system counts as available, less where a container's
    limit is nearer."""
    found = [_available(), _left_of_container()]
    return min((f for f in found if f is not None), default=None)


def _available() -> int | None:
    with suppress(OSError, ValueError, IndexError):
        for line in MEMORY_INFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(OSError, ValueError, AttributeError):  # macOS and others tell all of it alone
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def _left_of_container() -> int | None:
    """Its limit less what its processes hold; files it has read can be dropped again."""
    with suppress(OSError, ValueError):  # "max" is no number: no limit
        limit = int((CGROUP / "memory.max").read_text())
        held = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        return limit - int(held.get("anon", 0))
    return None


def _free_of_disk() -> int | None:
    """Of the cache folder, or of the nearest folder above it that exists."""
    root = cache_root()
    folder = next((f for f in (root, *root.parents) if f.is_dir()), None)
    return None if folder is None else shutil.disk_usage(folder).free
