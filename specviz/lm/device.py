"""The machine: which device, how time is read on it, and how to describe it to people."""

from __future__ import annotations

import os
import platform
import time
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from specviz.words import word

PACKAGES = ("torch", "transformers", "bitsandbytes", "gradio", "numpy")


def half_dtype(device: torch.device) -> torch.dtype:
    """The 16 bits that `device` computes in: bfloat16, but float16 on cards before Ampere, which only
    emulate bfloat16 and lack kernels for it."""
    if device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.float16
    return torch.bfloat16


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


class Laps:
    """Times between marks in a device's work, read once it is over: no mark waits for the device.

    Work that is captured (`graphs`) keeps its marks: they are set anew each time it is done again.
    """

    def __init__(self, device: torch.device) -> None:
        self._is_cuda = device.type == "cuda"
        self._events = list[Any]()
        self._times = list[float]()
        self._next = 0

    def start(self) -> None:
        self._next = 0
        self.mark()

    def resume(self) -> None:
        """The next mark is the first behind the start, however many there were."""
        self._next = 1

    def mark(self) -> None:
        if self._is_cuda:
            if self._next == len(self._events):
                event: Any = torch.cuda.Event(enable_timing=True, external=True)  # type: ignore[no-untyped-call]
                self._events.append(event)
            self._events[self._next].record()
        else:
            self._times[self._next :] = [time.perf_counter()]
        self._next += 1

    def seconds(self, count: int) -> tuple[float, ...]:
        """The first `count` laps. Waits for the device to pass their marks, if it has not yet."""
        if self._is_cuda:
            self._events[count].synchronize()
            pairs = zip(self._events, self._events[1 : count + 1], strict=False)
            return tuple(before.elapsed_time(after) / 1000 for before, after in pairs)
        pairs = zip(self._times, self._times[1 : count + 1], strict=False)
        return tuple(after - before for before, after in pairs)


def placed_on(device: torch.device) -> AbstractContextManager[Any]:
    """Makes new tensors there. Nothing on a CPU, where it would only cost time."""
    return nullcontext() if device.type == "cpu" else device


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
