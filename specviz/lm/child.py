"""Run a slow, chatty job in a process of its own, and tell how far it is by what it has written.

Downloads and conversions by other libraries can hang, print, and hold on to memory; a child can
be stopped at any moment, its output stays off the terminal, and its memory goes back.
A worker of ours (`hub_worker`, `gguf_worker`) answers in lines of JSON on its standard output.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import specviz
from specviz.trace import Progress
from specviz.words import Message, Told, message

POLL_SECONDS = 0.25


class SourceError(Told):
    """Why a source gave nothing: the words in brackets of a longer sentence."""


@dataclass(frozen=True, slots=True)
class Job:
    command: Sequence[str]
    env: Mapping[str, str]  # added to ours
    folder: Path  # what it writes lands under here: its size is the progress
    message: Message  # one sentence for people; its value `size` comes once the total is known
    total: int  # bytes; 0 if not known before the worker says so
    patience_seconds: float  # longest time without a word or a byte


def run(job: Job) -> Generator[Progress, None, list[str]]:
    """Progress a few times a second, then the job's output lines. Closing it ends the job.

    SourceError with the job's own last words if it fails or falls silent.
    """
    process = subprocess.Popen(
        job.command,
        env={**os.environ, **job.env},
        stdin=subprocess.PIPE,  # closes when we die, however we die: workers watch it
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    lines: deque[str] = deque(maxlen=200)
    reader = threading.Thread(target=_collect, args=(process, lines), daemon=True)
    reader.start()
    try:
        yield from _watch(process, job, lines)
    finally:
        _end(process)
        reader.join()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
    if process.returncode:
        raise SourceError(message("tried.said", text=_last_words(lines, process.returncode)))
    return list(lines)


def worker(module: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Command and environment that run one of our worker modules, wherever we were started."""
    root = str(Path(specviz.__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return [sys.executable, "-m", module, *arguments], {"PYTHONPATH": path}


def answer(lines: Sequence[str], key: str) -> object:
    """The last value a worker said under `key`; None if it never did."""
    said = [_json_object(line) for line in lines]
    return next((o[key] for o in reversed(said) if key in o), None)


def say(**values: object) -> None:
    """For workers: one line of JSON to whoever started us."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def end_with_parent() -> None:
    """For workers: end as soon as the process that started us is gone."""

    def wait() -> None:
        # Not sys.stdin: a thread waiting inside it would break the interpreter's own shutdown.
        while os.read(0, 1024):
            continue
        os._exit(3)

    threading.Thread(target=wait, daemon=True).start()


def folder_bytes(folder: Path) -> int:
    """Bytes of all files under `folder` now; files that vanish meanwhile count as nothing."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(base) / name).stat().st_size
            except FileNotFoundError:
                continue
    return total


def megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.1f} MB"


def _watch(
    process: subprocess.Popen[bytes], job: Job, lines: deque[str]
) -> Generator[Progress, None, None]:
    seen, since = (-1, -1), time.monotonic()
    while True:
        total = answer(tuple(lines), "total") or job.total
        assert isinstance(total, int)
        done = folder_bytes(job.folder)
        key, values = job.message
        size = message("progress.size", size=megabytes(total)) if total else ""
        shown = min(done, total) if total else 0
        yield Progress("fetch", (key, {**values, "size": size}), shown, total)
        if (done, len(lines)) != seen:
            seen, since = (done, len(lines)), time.monotonic()
        elif time.monotonic() - since > job.patience_seconds:
            raise SourceError(message("tried.silence", seconds=f"{job.patience_seconds:.0f}"))
        try:
            process.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        return


def _collect(process: subprocess.Popen[bytes], lines: deque[str]) -> None:
    assert process.stdout is not None
    for raw in process.stdout:
        text = raw.decode("utf-8", "replace").strip()
        if text:
            lines.append(text)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(3)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_words(lines: Sequence[str], code: int) -> str:
    errors = [line for line in lines if line.startswith("ERROR:")]
    words = (errors or list(lines) or [f"it ended with code {code}"])[-1]
    # "package.module.TimeoutError: [Errno 1] text" is for programmers: keep the text.
    words = re.sub(r"^(ERROR:|[\w.]+(Error|Exception|Enabled|Timeout):)\s*", "", words)
    return re.sub(r"^\[Errno -?\d+\]\s*", "", words).rstrip(". ")[:300]


def _json_object(line: str) -> dict[str, object]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
