"""A skip is a failure where the marker is required, and stays a skip elsewhere."""

from __future__ import annotations

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
        ("browser, slow", 1, "1 failed, 1 skipped, 1 xfailed"),
        ("default_model", 0, "2 skipped, 1 xfailed"),
        ("browzer", 4, "names no marker of ours: ['browzer']"),
    ],
)
def test_skips_of_required_markers_fail(
    tmp_path: Path, required: str, code: int, outcome: str
) -> None:
    (tmp_path / "test_it.py").write_text(SKIPPED, encoding="utf-8")
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n", encoding="utf-8")
    (tmp_path / "pytest.ini").write_bytes((ROOT / ".pytest.ini").read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", tmp_path],
        env={**os.environ, "SPECVIZ_REQUIRE": required, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome in done.stdout + done.stderr
    assert done.returncode == code
