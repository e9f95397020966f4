"""The README's generated part. `python -m tests.readme` writes it; a test holds it to the code."""

from __future__ import annotations

import re
from pathlib import Path

from specviz.config import DrafterInfo, Knob
from specviz.drafters import DRAFTERS, drafter_info

README = Path(__file__).parents[1] / "README.md"
TABLE = re.compile(r"(<!-- drafters: .*? -->\n)(.*?)(<!-- /drafters -->)", re.DOTALL)


def drafter_table() -> str:
    """Markdown: every drafter of the registry, in its order."""
    rows = [_row(drafter_info(name)) for name in DRAFTERS]
    return "\n".join(
        ["| drafter | how it drafts | paper | knobs |", "|---|---|---|---|", *rows, ""]
    )


def _row(info: DrafterInfo) -> str:
    knobs = ", ".join(map(_knob, info.knobs))
    return f"| `{info.name}` | {info.summary} | {info.paper} | {knobs} |"


def _knob(knob: Knob) -> str:
    default = ("on" if knob.default else "off") if isinstance(knob.default, bool) else knob.default
    return f"`{knob.name}` ({default})"


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    new = TABLE.sub(lambda m: m[1] + drafter_table() + m[3], text)
    README.write_text(new, encoding="utf-8")
