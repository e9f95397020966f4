"""A skip is a failure where the marker is required, and stays a skip elsewhere. A browser test is
tried twice. What must be alone is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SKIPPED = """
import pytest

@pytest.mark.browser
def test_skips():
    pytest.skip("there is none here")

@pytest.mark.browser
@pytest.mark.xfail(strict=True)
def test_fails_as_expected():
    assert False

def test_skips_unmarked():
    pytest.skip("of no interest")
"""


@pytest.mark.parametrize(
    ("required", "code", "outcome"),
    [
        ("", 0, "2 skipped, 1 xfailed"),
        ("browser, alone", 1, "1 failed, 1 skipped, 1 xfailed"),
        ("default_model", 0, "2 skipped, 1 xfailed"),
        ("browzer", 4, "names no marker of ours: ['browzer']"),
    ],
)
def test_skips_of_required_markers_fail(
    tmp_path: Path, required: str, code: int, outcome: str
) -> None:
    done = pytest_of(tmp_path, SKIPPED, SPECVIZ_REQUIRE=required)
    assert outcome in done.stdout + done.stderr
    assert done.returncode == code


FAILING = """
import pytest

tried = []

@pytest.mark.browser
def test_once():
    tried.append(1)
    assert len(tried) > 1

@pytest.mark.browser
def test_twice():
    assert False

def test_without_a_browser():
    assert False
"""


def test_a_browser_test_is_tried_twice_and_no_other(tmp_path: Path) -> None:
    done = pytest_of(tmp_path, FAILING)
    assert "2 failed, 1 passed, 2 rerun" in done.stdout
    assert "RERUN test_it.py::test_once" in done.stdout  # and it is named


SPAN = """
import json, time
import pytest

def span(seconds):
    begun = time.time()
    time.sleep(seconds)
    with open("spans.jsonl", "a") as file:
        file.write(json.dumps([begun, time.time()]) + "\\n")
"""
ALONE = """
@pytest.mark.alone
def test_alone():
    span(0.6)
"""
BESIDE = """
@pytest.mark.parametrize("index", range(30))
def test_beside(index):
    span(0.05)
"""


def test_a_test_that_is_alone_has_no_other_beside_it(tmp_path: Path) -> None:
    (tmp_path / "test_beside.py").write_text(SPAN + BESIDE)
    done = pytest_of(tmp_path, SPAN + ALONE, num_processes=2)
    assert "31 passed" in done.stdout
    spans = [json.loads(line) for line in (tmp_path / "spans.jsonl").read_text().splitlines()]
    begun, ended = max(spans, key=lambda span: span[1] - span[0])
    others = [span for span in spans if span != [begun, ended]]
    assert len(others) == 30
    assert all(other[1] <= begun or ended <= other[0] for other in others)


def pytest_of(
    folder: Path, text: str, num_processes: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What pytest says of a test file of this text under our conftest and settings."""
    (folder / "test_it.py").write_text(text, encoding="utf-8")
    (folder / "conftest.py").write_text("from tests.conftest import *\n", encoding="utf-8")
    (folder / "pytest.ini").write_bytes((ROOT / ".pytest.ini").read_bytes())
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            f"--numprocesses={num_processes}",
            folder,
        ],
        cwd=folder,
        env={**os.environ, "SPECVIZ_REQUIRE": "", "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
