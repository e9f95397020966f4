"""The app's start: what it imports, what its options mean, and that a Space can run it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from specviz.trace_io import dump_events
from tests.traces import demo_run
from tests.ui.serving import free_port

ROOT = Path(__file__).parents[1]
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("GRADIO_", "HF_"))}
NO_TORCH = "import sys; sys.modules['torch'] = None; "


def test_importing_app_and_page_imports_no_torch_and_reports_to_nobody() -> None:
    """On ZeroGPU an import that touches the accelerator kills the app; replay needs no torch."""
    code = NO_TORCH + (
        "import app, os; "
        "assert not [m for m in sys.modules if m.startswith(('torch.', 'transformers'))]; "
        "assert os.environ['GRADIO_ANALYTICS_ENABLED'] == 'False'; "
        "assert os.environ['HF_HUB_DISABLE_TELEMETRY'] == '1'"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=CLEAN, check=True)


def test_replay_serves_a_trace_without_torch_on_the_port_it_is_told(tmp_path: Path) -> None:
    trace = tmp_path / "demo.jsonl"
    trace.write_text(dump_events(demo_run()), encoding="utf-8")
    port = free_port()
    code = NO_TORCH + f"sys.argv = ['app.py', '--replay', {str(trace)!r}]; import app; app.main()"
    server = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**CLEAN, "GRADIO_SERVER_PORT": str(port)},
        stdout=subprocess.DEVNULL,
    )
    try:
        assert "SpecViz" in _page(f"http://127.0.0.1:{port}/", server)
    finally:
        server.terminate()
        server.wait()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("not a trace", "This is not a trace: line 1 is not JSON"), (None, "No such file")],
)
def test_a_file_that_is_no_trace_is_refused_at_the_start(
    tmp_path: Path, text: str | None, sentence: str
) -> None:
    path = tmp_path / "x.jsonl"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "app.py", "--replay", path],
        cwd=ROOT,
        env=CLEAN,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def _page(url: str, server: subprocess.Popen[bytes]) -> str:
    for _ in range(300):
        assert server.poll() is None, "the app ended"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return str(answer.read().decode())
        except urllib.error.URLError:
            time.sleep(0.1)
    raise AssertionError(f"nothing is served at {url}")
