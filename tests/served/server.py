"""A small server that speaks like vLLM, SGLang, llama.cpp or none of them, from a script of passes.

Each pass is the texts of the tokens it makes, and how many tokens were drafted for it. What a server
of each kind sends for them is written here from its documentation, independently of the reader.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Pass = tuple[tuple[str, ...], int]  # texts of its tokens, drafted
PASSES: tuple[Pass, ...] = (
    (("The",), 0),  # the first comes of reading the prompt
    ((" sky", " is", " blue"), 4),
    ((",\u2028so",), 4),  # a line separator within a token
    ((" they", " say", "."), 2),
)
NUM_TOKENS, NUM_ROUNDS, NUM_DRAFTED, NUM_ACCEPTED = 8, 3, 10, 4
TEXT = "".join(text for texts, _ in PASSES for text in texts)


@dataclass
class FakeServer:
    kind: str = "vllm"
    passes: tuple[Pass, ...] = PASSES
    pause: float = 0.0  # before each pass
    dies_after: int | None = None  # passes; then the connection is cut
    complains_after: int | None = None  # passes; then an error is sent in the stream
    status: int = 200  # of the question
    speculates: bool = True
    has_metrics: bool = True
    for_others: int = 0  # tokens it makes for somebody else meanwhile
    models: object = None  # instead of the list of its models
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    has_been_left: threading.Event = field(default_factory=threading.Event)

    def listing(self) -> object:
        if self.models is not None:
            return self.models
        return {"data": [{"id": name, "owned_by": self.kind} for name in ("big", "small")]}

    def pieces(self) -> Iterator[dict[str, Any] | None]:
        """What is sent; None where the connection breaks."""
        made = drafted = accepted = 0
        yield self._piece("", 0, {})
        for number, (texts, tried) in enumerate(self.passes):
            if number == self.dies_after:
                yield None
            if number == self.complains_after:
                yield {"error": {"message": "out of memory"}}
            time.sleep(self.pause)
            made, drafted = made + len(texts), drafted + tried
            accepted += len(texts) - 1
            self._count(len(texts), tried, len(texts) - 1)
            timings = {"predicted_n": made, "predicted_ms": 1.0}
            if self.speculates:
                timings |= {"draft_n": drafted, "draft_n_accepted": accepted}
            parts = texts if self.kind == "llamacpp" else ("".join(texts),)
            for part in parts:
                yield self._piece(part, made, timings)
        yield self._piece("", made, timings, finish="length")
        if self.kind != "llamacpp":
            yield {"choices": [], "usage": {"completion_tokens": made}}

    def _piece(
        self, text: str, made: int, timings: dict[str, Any], finish: str | None = None
    ) -> dict[str, Any]:
        asked = self.asked[-1]
        words = {"delta": {"content": text}} if "messages" in asked else {"text": text}
        piece: dict[str, Any] = {"choices": [{**words, "index": 0, "finish_reason": finish}]}
        options = asked.get("stream_options", {})
        if options.get("continuous_usage_stats"):
            piece["usage"] = {"completion_tokens": made}
        if asked.get("timings_per_token") and timings:
            piece["timings"] = timings
        return piece

    def _count(self, made: int, drafted: int, accepted: int) -> None:
        grown = {"generation_tokens": made + self.for_others}
        if drafted and self.speculates:
            grown |= {"spec_decode_num_drafts": 1, "spec_decode_num_draft_tokens": drafted}
            grown |= {"spec_decode_num_accepted_tokens": accepted}
            for place in range(accepted):
                grown[f"spec_decode_num_accepted_tokens_per_pos/{place}"] = 1
        for name, value in grown.items():
            self.counters[name] = self.counters.get(name, 0) + value

    def metrics(self) -> str:
        if self.kind == "sglang":
            values = (2.5, 0.375) if self.speculates else (0.0, 0.0)
            lines = (
                f'sglang:spec_accept_{name}{{model_name="big",tp_rank="0"}} {value}'
                for name, value in zip(("length", "rate"), values, strict=True)
            )
            return "# HELP sglang:spec_accept_length How many.\n" + "\n".join(lines)
        lines = ["# TYPE vllm:generation_tokens_total counter", "vllm:up NaN"]
        for name, value in self.counters.items():
            name, _, place = name.partition("/")
            labels = f'engine="0",model_name="big"{f",position={chr(34)}{place}{chr(34)}" if place else ""}'
            lines.append(f"vllm:{name}_total{{{labels}}} {float(value)}")
        return "\n".join(lines)


class _Handler(BaseHTTPRequestHandler):
    fake: FakeServer

    def do_GET(self) -> None:
        self.fake.keys.append(self.headers["Authorization"])
        if self.path == "/v1/models":
            self._send(json.dumps(self.fake.listing()))
        elif self.path == "/metrics" and self.fake.has_metrics:
            self._send(self.fake.metrics())
        else:
            self._send("not here", 404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.fake.asked.append(json.loads(body) | {"path": self.path})
        if self.fake.status != 200:
            self._send('{"error": {"message": "too long by 3 tokens"}}', self.fake.status)
            return
        self.send_response(200)
        self.end_headers()
        try:
            self._stream()
        except OSError:
            self.fake.has_been_left.set()

    def _stream(self) -> None:
        for piece in self.fake.pieces():
            if piece is None:
                return
            self._write(f"data: {json.dumps(piece, ensure_ascii=False)}\n\n")
        self._write("data: [DONE]\n\n")

    def _write(self, text: str) -> None:
        self.wfile.write(text.encode())
        self.wfile.flush()

    def _send(self, text: str, status: int = 200) -> None:
        self.send_response(status)
        self.end_headers()
        self._write(text)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def serving(fake: FakeServer) -> Iterator[str]:
    handler = type("Handler", (_Handler,), {"fake": fake})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
