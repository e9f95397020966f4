"""Charts of the further pages: Plotly figures without colours of a theme, which the page's own style
gives them (`assets/side.css`), so that they read in light and in dark. They compute nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unicodedata import east_asian_width

import plotly.graph_objects as go

# Okabe and Ito's, in an order in which neighbours differ; each with a dash and a mark of its own.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
MARKS = ("circle", "square", "diamond", "triangle-up", "x", "cross")
HEIGHT = 340
LONGEST = 34  # of a title's line on a phone, in Latin letters
BREAKS = " ，：、"  # after these a title may go on below


def figure(x: str, y: str, **more: Any) -> Any:
    """An empty chart with titled axes."""
    layout = {
        "height": HEIGHT,
        "margin": {"l": 60, "r": 16, "t": 16, "b": 48},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "legend": {"orientation": "h", "y": -0.3, "yanchor": "top"},
        "font": {"family": "system-ui, sans-serif", "size": 12},
        "xaxis": _axis(broken(x), 8),
        "yaxis": _axis(y, 6),
    }
    chart = go.Figure(layout=layout)
    chart.update_layout(template="none", **more)
    return chart


def _axis(title: str, standoff: int) -> dict[str, Any]:
    words = {"text": title, "standoff": standoff, "font": {"size": 13}}
    return {"title": words, "zeroline": False, "automargin": True}


def broken(title: str) -> str:
    """A title in two lines of about the same width if one would not fit a phone."""
    widths = [2 if east_asian_width(letter) in "WF" else 1 for letter in title]
    whole = sum(widths)
    places = [i for i, letter in enumerate(title) if letter in BREAKS]
    if whole <= LONGEST or not places:
        return title
    at = min(places, key=lambda i: abs(sum(widths[: i + 1]) - whole / 2)) + 1
    return f"{title[:at].rstrip()}<br>{title[at:]}"


def line(chart: Any, name: str, x: Sequence[float], y: Sequence[float | None], number: int) -> None:
    style = {"color": COLOURS[number % 6], "dash": DASHES[number % 6], "width": 2.5}
    chart.add_scatter(x=list(x), y=list(y), name=name, mode="lines", line=style)


def points(
    chart: Any,
    name: str,
    at: Sequence[tuple[float, float]],
    number: int,
    *,
    texts: Sequence[str] = (),
    halves: Sequence[float] = (),
) -> None:
    """Marks, with a text when one points at them and the half of an interval where given."""
    style = {"color": COLOURS[number % 6], "symbol": MARKS[number % 6], "size": 9}
    error = {"type": "data", "array": list(halves)} if halves else None
    chart.add_scatter(
        x=[x for x, _ in at],
        y=[y for _, y in at],
        name=name,
        mode="markers",
        marker=style,
        hovertext=list(texts) or None,
        error_y=error,
    )


def bars(chart: Any, name: str, x: Sequence[Any], y: Sequence[float], number: int) -> None:
    pattern = ("", "/", "x", ".", "-", "|")[number % 6]
    style = {"color": COLOURS[number % 6], "pattern": {"shape": pattern}}
    chart.add_bar(x=list(x), y=list(y), name=name, marker=style)


def cells(chart: Any, values: Sequence[Sequence[int]], shades: Sequence[str]) -> None:
    """A grid of whole numbers, the first row on top; `shades` has a colour for each number."""
    last = max(1, len(shades) - 1)
    scale = [[i / last, shade] for i, shade in enumerate(shades)]
    chart.add_heatmap(
        z=[list(row) for row in values],
        colorscale=scale,
        zmin=0,
        zmax=last,
        showscale=False,
        xgap=1,
        ygap=1,
        hovertemplate="%{y} → %{x}<extra></extra>",
    )
    step = 1 if len(values) < 20 else 5
    chart.update_yaxes(autorange="reversed", scaleanchor="x", constrain="domain", dtick=step)
    chart.update_xaxes(constrain="domain", dtick=step, side="top")


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Markdown. Cells hold no line feed; a bar in one is escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_cell(value) for value in row)} |" for row in lines)


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def csv_text(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows of numbers and of names as CSV (RFC 4180)."""
    return "".join(",".join(_field(value) for value in row) + "\r\n" for row in (header, *rows))


def _field(value: object) -> str:
    text = str(value)
    if text[:1] in "=+-@" and not _is_number(text):
        text = f"'{text}"  # a spreadsheet would run it
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if set(text) & set(',"\r\n') else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
