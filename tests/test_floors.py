"""Who may import whom, and how long a file or function may be. Reads source text, runs nothing."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "specviz"
FACTS = {"tree", "trace", "trace_io", "metrics", "config", "words"}
FACTS |= {
    "theory",
    "roofline",
    "cost",
    "what_if",
    "best",
    "verdict",
    "shapes",
    "catalogue",
    "fitting",
}
MODELS = FACTS | {"presets", "lm", "torch", "safetensors"}
LIBRARIES = {"transformers", "accelerate", "bitsandbytes", "huggingface_hub", "tokenizers"}
LIBRARIES |= {"filelock", "jinja2", "gguf", "numpy", "safetensors"}
# Unit -> the units of specviz and third-party packages it names.
MAY_IMPORT: dict[str, set[str]] = {
    "tree": set(),
    "words": set(),
    "shapes": set(),
    "catalogue": {"shapes"},
    "fitting": {"shapes", "catalogue", "words"},
    "config": {"words", "fitting"},
    "trace": {"tree", "config", "words"},
    "trace_io": {"tree", "config", "trace", "words"},
    "metrics": {"tree", "trace"},
    "theory": {"metrics"},
    "roofline": set(),
    "cost": {"trace", "config", "metrics", "theory"},
    "replays": {"tree", "trace"},
    "what_if": {"trace", "config", "words", "metrics", "theory", "cost", "replays"},
    "best": {"what_if"},
    "verdict_rules": {"trace", "words", "metrics", "cost"},
    "verdict": {"trace", "words", "cost", "what_if", "best", "verdict_rules"},
    "presets": {"config", "catalogue"},
    "views": FACTS,
    "lm": MODELS | LIBRARIES,
    "drafters": MODELS,
    "engine": MODELS | {"drafters"},
    "places": {"catalogue", "presets", "trace", "words"},
    "session": FACTS | {"presets"},
    "zero": FACTS | {"session"},
    "served": FACTS | {"httpx"},
    "bench": FACTS | {"presets", "session"},
    "labs": FACTS | {"numpy"},
    "train": MODELS | LIBRARIES | {"drafters", "session"},
    "ui": FACTS | {"labs", "presets", "views", "session", "served", "bench", "gradio", "plotly"},
    "cli": FACTS | {"places", "presets", "views", "session", "served", "bench", "tqdm"},
    "__main__": {"cli"},
    "app": FACTS | {"places", "presets", "views", "session", "zero", "served", "ui"},
}
MAY_IMPORT_INSIDE_A_CALL = {
    "places": {"lm"},
    "session": {"engine", "drafters", "lm"},
    "zero": {"lm"},
    "labs": {"engine", "lm", "torch"},  # exactness is tried on our own verify
    "bench": {
        "lm",
        "drafters",
        "engine",
        "torch",
        "transformers",
    },  # it times passes, and generate beside them
    "cli": {"train", "ui", "lm"},  # inside the chosen command
}
FOR_TYPES_ALONE = {
    "session": {"engine"},
    "labs": {"torch"},
    "bench": {"lm", "drafters", "engine", "torch"},
    "cli": {"train"},
}  # under TYPE_CHECKING: nothing is loaded
SOURCES = [p for p in sorted(PACKAGE.rglob("*.py")) if p != PACKAGE / "__init__.py"]
SOURCES += [p for p in [ROOT / "app.py"] if p.exists()]
ALL_PYTHON = [*sorted(PACKAGE.rglob("*.py")), *sorted((ROOT / "tests").rglob("*.py"))]
MAX_LINES = 350
MAX_STATEMENTS = 40


def unit_of(path: Path) -> str:
    if path.name == "app.py":
        return "app"
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(unit or package, where it stands: "top", "call" or "types") for each import."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    in_call = {inner for function in functions for inner in ast.walk(function)}
    guards = [n for n in ast.walk(tree) if isinstance(n, ast.If) and _is_for_types(n.test)]
    for_types = {inner for guard in guards for inner in ast.walk(guard)}
    for node in ast.walk(tree):
        where = "call" if node in in_call else "types" if node in for_types else "top"
        for name in _dotted(node):
            yield _unit_named(name), where


def _is_for_types(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def _dotted(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "absolute imports only, so that a line shows its floor"
        if node.module == "specviz":  # `from specviz import x` names a unit
            return [f"specviz.{alias.name}" for alias in node.names]
        return [node.module or ""]
    return []


def _unit_named(dotted: str) -> str:
    parts = dotted.split(".")
    return parts[1] if parts[0] == "specviz" and len(parts) > 1 else parts[0]


def broken_rules(unit: str, source: str) -> list[str]:
    """A sentence per import that points up or sideways."""
    found = []
    for name, where in imports(ast.parse(source)):
        allowed = MAY_IMPORT[unit] | {unit, "specviz"} | sys.stdlib_module_names
        if where == "call":
            allowed = allowed | MAY_IMPORT_INSIDE_A_CALL.get(unit, set())
        if where == "types":
            allowed = allowed | FOR_TYPES_ALONE.get(unit, set())
        if name not in allowed:
            found.append(f"{unit} may not import {name} ({where})")
    return found


def functions_of(source: str) -> Iterator[tuple[str, int]]:
    """(name, statements below it) of each function."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, sum(isinstance(n, ast.stmt) for n in ast.walk(node)) - 1


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    assert broken_rules(unit_of(path), path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("unit", "source"),
    [
        ("tree", "import torch"),
        ("views", "from specviz.session import LiveSession"),
        ("drafters", "from specviz.engine.verify import verify"),
        ("drafters", "from specviz.drafters.base import Drafter\nimport transformers"),
        ("lm", "def f():\n    from specviz.engine import Engine"),
        ("session", "from specviz.engine import Engine"),
        ("session", "import torch"),
        ("ui", "def f():\n    from specviz import engine"),
        ("ui", "import torch.nn.functional as F"),
    ],
)
def test_an_import_that_points_up_is_found(unit: str, source: str) -> None:
    """A rule that cannot fail would hold nothing."""
    assert len(broken_rules(unit, source)) == 1


def test_relative_imports_are_found() -> None:
    with pytest.raises(AssertionError, match="absolute"):
        broken_rules("ui", "from . import copy")


@pytest.mark.parametrize("path", ALL_PYTHON, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_and_functions_are_short(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= MAX_LINES
    assert {name: size for name, size in functions_of(source) if size > MAX_STATEMENTS} == {}


def test_statements_of_a_function_are_counted() -> None:
    source = "def f():\n    if x:\n        a = 1\n    for b in c:\n        pass\n"
    assert list(functions_of(source)) == [("f", 4)]
