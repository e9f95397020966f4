"""What all tests share: when a skip is not acceptable, whose turn it is, and a Chromium to drive.

Two processes share the tests, each with one thread of torch: more threads cost a test of tiny
matrices fifty times what they give it, on a busy machine. A test marked `alone` has the machine
to itself.

`SPECVIZ_REQUIRE="browser,default_model"` names markers whose tests must run: a skip of one of
them is then a failure. Without it, what a machine lacks is skipped with the reason.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is loaded, here and in what a test starts

CHROMIUM = "/usr/bin/chromium"
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def required_markers() -> set[str]:
    return {name.strip() for name in os.environ.get("SPECVIZ_REQUIRE", "").split(",")} - {""}


def pytest_configure(config: pytest.Config) -> None:
    known = {line.split(":")[0].split("(")[0] for line in config.getini("markers")}
    if unknown := required_markers() - known:
        raise pytest.UsageError(f"SPECVIZ_REQUIRE names no marker of ours: {sorted(unknown)}")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Both processes must call a test the same, and packed bytes tell the time of day."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A browser shares its cores with what it shows and paints when it is let: a test of it is
    tried once more before it counts as failed, and the report names those that needed it."""
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    needed = [name for name in required_markers() if item.get_closest_marker(name)]
    if report.skipped and needed and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and {needed[0]} is required here: {reason}"
    return report


@pytest.fixture(autouse=True)
def turn(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Iterator[None]:
    """Tests marked `alone` run while no other does. Who waits for that holds the door, so that
    nobody else comes in meanwhile."""
    if worker_id == "master":
        yield
        return
    shared = tmp_path_factory.getbasetemp().parent
    is_alone = request.node.get_closest_marker("alone") is not None
    with ExitStack() as stay:
        with held(shared / "door", fcntl.LOCK_EX):
            stay.enter_context(held(shared / "room", fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH))
        yield


@contextmanager
def held(path: Path, how: int) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, how)
        yield


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A Playwright browser. Per module: its event loop must not outlive the tests that use it."""
    if not shutil.which(CHROMIUM):
        pytest.skip(f"there is no Chromium at {CHROMIUM}")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()
