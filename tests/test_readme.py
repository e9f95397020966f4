"""The README says what is so: versions, tables, files, commands."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from specviz.presets import DEFAULT_SOURCES
from tests.readme import README, TABLE, drafter_table

ROOT = README.parent
TEXT = README.read_text(encoding="utf-8")
SETTINGS = dict(re.findall(r"^(\w+): (.+)$", TEXT.split("---")[1], re.MULTILINE))
COMMANDS = re.findall(r"^```sh\n(python3 -m venv .*)\n```$", TEXT, re.MULTILINE)
TREE = TEXT.split("```text\n")[1].split("```")[0].splitlines()


def pins(path: Path) -> dict[str, str]:
    lines = [line.split(";")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    pinned = [line.split("==") for line in lines if line and line[0] not in "#-"]
    return {name.split("[")[0]: version for name, version in pinned}


def test_the_space_runs_the_gradio_that_is_pinned() -> None:
    assert SETTINGS["sdk"] == "gradio"
    assert SETTINGS["sdk_version"] == pins(ROOT / "requirements.txt")["gradio"]
    assert (ROOT / SETTINGS["app_file"]).is_file()
    assert len(SETTINGS["short_description"]) <= 60
    assert f"- {DEFAULT_SOURCES.hub.repository}\n" in TEXT


@pytest.mark.parametrize("path", ["requirements.txt", "tests/requirements.txt"])
def test_every_requirement_is_pinned(path: str) -> None:
    for line in (ROOT / path).read_text(encoding="utf-8").splitlines():
        assert re.match(r"#|-r |[\w-]+(\[\w+\])?==[\d.]+(; |$)", line), line


def test_the_drafter_table_is_the_registrys() -> None:
    found = TABLE.search(TEXT)
    assert found is not None
    assert found[2] == drafter_table(), "run python -m tests.readme"


def listed() -> list[str]:
    """Paths of the file tree: a name per line, two spaces per level."""
    paths: list[str] = []
    folder = ""
    for line in TREE:
        name = line.split()[0]
        if not line.startswith(" "):
            folder = name if name.endswith("/") else ""
            paths.append(name)
        else:
            paths.append(folder + name)
    return paths


def test_every_file_of_the_tree_exists() -> None:
    assert [path for path in listed() if not (ROOT / path).exists()] == []


def test_the_tree_lacks_nothing_that_is_committed_at_the_top_or_in_the_package() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if tracked.returncode:
        pytest.skip("this is no git checkout")
    names = set()
    for path in tracked.stdout.splitlines():
        depth = 2 if path.startswith("specviz/") else 1
        parts = path.split("/")
        names.add("/".join(parts[:depth]) + ("/" if len(parts) > depth else ""))
    names -= {"specviz/__init__.py"}
    assert sorted(n for n in names if not n.startswith(".") and n not in listed()) == []


def test_each_command_is_one_line_that_makes_its_own_environment() -> None:
    app, tests = COMMANDS
    assert app.endswith("-r requirements.txt && .venv/bin/python app.py")
    assert "-r tests/requirements.txt" in tests
    assert tests.endswith(" && .venv/bin/python -m pytest")


def test_the_gate_runs_the_readmes_own_test_command() -> None:
    """What it would run, as it finds it itself: the two cannot drift apart."""
    found = subprocess.run(
        [ROOT / ".ci/run", "--test-command"], capture_output=True, text=True, check=True
    )
    assert found.stdout == f"{COMMANDS[1]}\n"


def test_the_command_lines_of_the_readme_are_understood() -> None:
    from specviz.cli.parser import parser

    lines = re.findall(r"^\.venv/bin/python -m specviz (.*)$", TEXT, re.MULTILINE)
    assert len(lines) == 13
    for line in lines:
        parser().parse_args(re.findall(r'"[^"]*"|\S+', line))
