"""The recorded races that the page opens on: `python -m tests.races` records them anew, some or all.

Every drafter on one prompt after another, as `python -m specviz run` would; with nothing else
running, as what is recorded is also how long everything took.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from specviz.__main__ import main
from specviz.config import PLAIN_DRAFTER
from specviz.drafters import DRAFTERS
from specviz.ui.offers import EXAMPLES

FOLDER = Path(__file__).parents[1] / "assets" / "traces"
MAX_BYTES = 300_000
MAX_NEW_TOKENS = {"chat_with_dice": 40}  # of the others 64: drawn numbers do not pack as well
RACES = {  # the first by name is the page's first picture
    "chat_rainbows": EXAMPLES["chat"],
    "chat_with_dice": EXAMPLES["chat"],
    "code_fibonacci": EXAMPLES["code"],
    "copying_a_text": EXAMPLES["copying"],
    "list_of_planets": EXAMPLES["list"],
    "maths_of_a_train": EXAMPLES["maths"],
    "prose_of_a_lighthouse": EXAMPLES["prose"],
}
SAMPLED = ("chat_with_dice",)  # tokens are drawn: here p, q, the draw and the residual can be seen
LANES = (
    PLAIN_DRAFTER,
    f"{PLAIN_DRAFTER}:backbone=mtp",
    *(name for name in DRAFTERS if name != PLAIN_DRAFTER),
)


def record(names: Sequence[str]) -> int:
    for name in names or RACES:
        out = FOLDER / f"{name}.jsonl.gz"
        words = ["run", RACES[name], "--lanes", ",".join(LANES), "--out", str(out)]
        words += ["--max-new-tokens", str(MAX_NEW_TOKENS.get(name, 64))]
        words += ["--temperature", "1"] if name in SAMPLED else []
        if code := main(words):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(record(sys.argv[1:]))
