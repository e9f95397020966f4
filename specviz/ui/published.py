"""The page's table of published targets and drafters, in either language."""

from __future__ import annotations

from typing import Any

from specviz.config import Catalog
from specviz.fitting import TOKENS, WORKING_BYTES, gib
from specviz.ui.speaker import Spoken
from specviz.views.published import words_of
from specviz.words import Language, tell, word

COLUMNS = ("target", "drafter", "licence", "download", "memory", "fits")


def published_words(catalog: Catalog) -> Spoken:
    """What fits this machine, and why the rest does not, as a Markdown table."""

    def spoken(language: Language) -> dict[str, Any]:
        sizes = {"tokens": f"{TOKENS:,}", "working": gib(WORKING_BYTES)}
        heads = [word("models.column." + name, language) for name in COLUMNS]
        lines = [
            word("models.intro", language, **sizes),
            "",
            _row(heads),
            _row(["---"] * len(heads)),
        ]
        for one in catalog.fits:
            row = words_of(one)
            cells = (row.target, row.drafter, row.licence, row.download, row.memory, row.verdict)
            lines.append(_row([tell(cell, language) for cell in cells]))
        return {"value": "\n".join(lines)}

    return spoken


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
