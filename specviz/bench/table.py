"""A table as lines: aligned for a terminal, or Markdown. The first column is words, the rest numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from specviz.metrics import Spread

NONE = "-"  # a cell that nothing was measured for
TableLines: TypeAlias = Callable[[Sequence[str], Sequence[Sequence[str]]], list[str]]


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    lines = [_aligned_line(row, widths) for row in (header, *rows)]
    return [lines[0], "-" * len(lines[0]), *lines[1:]]


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---", *["--:"] * (len(header) - 1)]
    return [_markdown_line(row) for row in (header, rule, *rows)]


def spread_cell(spread: Spread | None) -> str:
    """A ratio over prompts: its median, and its quartiles."""
    if spread is None:
        return NONE
    return f"{spread.median:.2f}x ({spread.low:.2f} to {spread.high:.2f})"


def _aligned_line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = row
    cells = [first.ljust(widths[0])]
    cells += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
    return "  ".join(cells)


def _markdown_line(row: Sequence[str]) -> str:
    cells = [cell.replace("|", r"\|") for cell in row]  # a category may hold anything
    return f"| {' | '.join(cells)} |"
