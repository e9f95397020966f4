"""What the page needs to teach beside the stage: code, style, and the registry's facts of each method.

Chapters and method panel live in the browser (`assets/learn*.js`); they read the stage's own items
and drive it as a visitor would. What they say stands in `assets/words/learn.*` and `methods.*`.
"""

from __future__ import annotations

import re
from typing import Any

from specviz.config import Catalog
from specviz.words import ASSETS

SCRIPTS = (  # after the stage's own, whose parts they use; each needs those before it
    "learn_place.js",
    "learn_pick.js",
    "learn_chapters.js",
    "learn_card.js",
    "learn_code.js",
    "learn_drawing.js",
    "learn_method.js",
    "learn.js",
)
STYLES = ("learn.css", "learn_method.css")
ARXIV = "https://arxiv.org/abs/"


def learn_code() -> str:
    return "\n".join((ASSETS / name).read_text("utf-8") for name in SCRIPTS)


def learn_style() -> str:
    return "\n".join((ASSETS / name).read_text("utf-8") for name in STYLES)


def method_facts(catalog: Catalog) -> dict[str, dict[str, Any]]:
    """By drafter, what its registry says of it; empty for a page that only plays."""
    return {
        drafter.name: {
            "title": drafter.title,
            "summary": drafter.summary,
            "paper": drafter.paper,
            "links": {
                f"arXiv:{n}": ARXIV + n for n in re.findall(r"arXiv:([\d.]+\d)", drafter.paper)
            },
            "exactness": drafter.exactness,
        }
        for drafter in catalog.drafters
    }
