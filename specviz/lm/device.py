"""The machine: which device, how time is read on it, and how to describe it to people."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from specviz.words import word

PACKAGES = ("torch", "transformers", "bitsandbytes", "gradio", "numpy")


class Stopwatch:
    """Laps in seconds. The device is made to finish first, so that a lap is the work's own time."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._started = self._now()

    def lap(self) -> float:
        """Seconds since the last lap, or since the start."""
        now = self._now()
        seconds, self._started = now - self._started, now
        return seconds

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


def pick_device() -> torch.device:
    """A CUDA device if there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def describe_machine(device: torch.device) -> str:
    """One line: what computes, how many threads or how much memory."""
    if device.type == "cuda":
        facts = torch.cuda.get_device_properties(device)
        return f"{facts.name}, {facts.total_memory / 2**30:.0f} GiB"
    capability = torch.backends.cpu.get_cpu_capability()
    threads = torch.get_num_threads()
    return word("machine.cpu", name=_cpu_name(), threads=threads, kind=capability)


def library_versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or f"{platform.machine()} CPU with {os.cpu_count()} cores"
