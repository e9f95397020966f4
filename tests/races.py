"""The recorded races that the page opens on: `python -m tests.races` records them anew, some or all.

Every drafter on one prompt after another, as `python -m specviz run` would; with nothing else
running, as what is recorded is also how long everything took. A race whose clock was disturbed is run
again, a few times at most, and the steadiest is kept.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from specviz.__main__ import main
from specviz.config import PLAIN_DRAFTER
from specviz.drafters import DRAFTERS
from specviz.trace import LaneStart
from specviz.trace_io import load_events, read_trace
from specviz.ui.offers import EXAMPLES
from specviz.verdict import judged

FOLDER = Path(__file__).parents[1] / "assets" / "traces"
MAX_BYTES = 300_000
MAX_TRIES, STEADY = 5, 0.1
MOST_UNEVEN = 0.15  # of those that ship: no machine that others share is steady for long
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


def unevenness(path: Path) -> float:
    """How far the clocks of a recorded race contradict themselves, by its worst lane: sums of rounds
    against medians, and rounds that cost less than a plain step, which weigh three times as much."""
    events, found = tuple(load_events(read_trace(path))), [0.0]
    for lane in (event.lane for event in events if isinstance(event, LaneStart)):
        if (account := judged(events, lane).account) is not None:
            rho, medians = account.rho, account.rho_of_medians
            found += [rho / medians - 1, medians / rho - 1, 3 * (1 / rho - 1)]
    return max(found)


def record(names: Sequence[str]) -> int:
    for name in names or RACES:
        found: dict[Path, float] = {}
        with TemporaryDirectory() as folder:
            for attempt in range(MAX_TRIES):
                out = Path(folder) / f"{attempt}.jsonl.gz"
                if code := _race(name, out):
                    return code
                found[out] = unevenness(out)
                if found[out] <= STEADY:
                    break
            steadiest = min(found, key=found.__getitem__)
            shutil.copyfile(steadiest, FOLDER / f"{name}.jsonl.gz")
            sys.stderr.write(f"{name}: uneven by {found[steadiest]:.1%}, of {len(found)} tried\n")
    return 0


def _race(name: str, out: Path) -> int:
    words = ["run", RACES[name], "--lanes", ",".join(LANES), "--out", str(out)]
    words += ["--max-new-tokens", str(MAX_NEW_TOKENS.get(name, 64))]
    words += ["--temperature", "1"] if name in SAMPLED else []
    return main(words)


if __name__ == "__main__":
    sys.exit(record(sys.argv[1:]))
