"""What a lab shows of its code: the text itself, as it runs here.

Nothing is imported for it: code of the engine is read from its file, as a page that only plays has
no torch.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1]


def source_of(*functions: Callable[..., Any]) -> str:
    return "\n\n".join(inspect.getsource(function) for function in functions)


def source_in(file: str, *names: str) -> str:
    """Functions of a file of the package, by name."""
    text = (PACKAGE / file).read_text("utf-8")
    found = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    pieces = [ast.get_source_segment(text, found[name]) or "" for name in names]
    return "\n\n".join(piece + "\n" for piece in pieces)
