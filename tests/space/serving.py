"""A Space on this machine: the app as its machines start it, and the proxy in front of it."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.ui.serving import free_port

ROOT = Path(__file__).parents[2]
PREFIX = "/spaces/me/specviz"
OURS = ("GRADIO_", "HF_", "SPACE", "SPECVIZ_", "XDG_", "PYTHON", "STANDIN_")
HOP_BY_HOP = {"transfer-encoding", "connection", "keep-alive", "host"}
BOOT_SECONDS = 300  # on a busy machine; an idle one takes a few


@contextmanager
def space(folder: Path, *options: str, **environment: str) -> Iterator[str]:
    """The address of `app.py`, started in an empty working folder by somebody without a home. It may
    write to `folder`/cache, and to `folder`/temp what it will not miss."""
    for name in ("work", "cache", "temp"):
        (folder / name).mkdir()
    port = str(free_port())
    told = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
    told |= {
        "HOME": os.devnull,  # nobody, root included, can make a file or folder under it
        "SPECVIZ_CACHE": str(folder / "cache"),
        "TMPDIR": str(folder / "temp"),
        "GRADIO_SERVER_NAME": "127.0.0.1",
        "GRADIO_SERVER_PORT": port,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        **environment,
    }
    command = [sys.executable, "-B", str(ROOT / "app.py"), *options]
    with (folder / "log").open("w") as log:
        app = subprocess.Popen(command, cwd=folder / "work", env=told, stdout=log, stderr=log)
        try:
            _wait_for(f"http://127.0.0.1:{port}/", app, folder / "log")
            yield f"http://127.0.0.1:{port}/"
        finally:
            app.terminate()
            app.wait()


def _wait_for(url: str, app: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + BOOT_SECONDS
    while time.monotonic() < end:
        assert app.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"no page after {BOOT_SECONDS} seconds: {log.read_text()}")


class _Proxy(BaseHTTPRequestHandler):
    """Answers what lies under PREFIX with what the app says, and knows nothing else."""

    upstream: str  # host:port

    def do_GET(self) -> None:
        if self.path == "/favicon.ico":  # which a browser asks any host for, whatever its pages say
            self.send_response_only(204)
            self.end_headers()
            return
        if not self.path.startswith(f"{PREFIX}/"):
            self.send_error(404, "outside of the prefix")
            return
        there = http.client.HTTPConnection(self.upstream)
        try:
            self._answer(self._asked(there))
        except (OSError, ValueError, http.client.HTTPException):
            pass  # one of the two has left
        finally:
            there.close()

    do_POST = do_HEAD = do_GET

    def _asked(self, there: http.client.HTTPConnection) -> http.client.HTTPResponse:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = {k: v for k, v in self.headers.items() if k.lower() not in HOP_BY_HOP}
        asked |= {"X-Forwarded-Host": self.headers["Host"], "X-Forwarded-Proto": "http"}
        there.request(self.command, self.path.removeprefix(PREFIX), body, asked)
        return there.getresponse()

    def _answer(self, answer: http.client.HTTPResponse) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        while piece := answer.read1(65536):  # as it comes: events are not held back
            self.wfile.write(piece)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def proxied(app: str) -> Iterator[str]:
    """An address under PREFIX, at a reverse proxy in front of `app`."""
    handler = type("Proxy", (_Proxy,), {"upstream": app.split("/")[2]})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}{PREFIX}/"
        finally:
            server.shutdown()
            thread.join()
