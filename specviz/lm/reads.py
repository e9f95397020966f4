"""What a pass over several rows costs, beside a pass over one: timed, and kept for the next start.

Knows `LanguageModel` and nothing of lanes. The verify-cost curve T(n)/T(1) of a target is measured
once per model, form and device, on the path it is read by, and kept in the cache folder.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TypeAlias

from specviz.lm.base import LanguageModel
from specviz.lm.device import Stopwatch, describe_machine
from specviz.lm.weights import cache_root
from specviz.theory import rising
from specviz.tree import DraftTree

Curve: TypeAlias = tuple[tuple[int, float], ...]  # (n, T(n) / T(1)), n rising from 1

WARM_UP_ROUNDS = 2
CURVE_ROWS = (1, 2, 4, 8, 16, 32, 64)
CURVE_CONTEXT = 64  # tokens behind which it is measured
CURVE_ROUNDS = 8  # at most; fewer once the time is up, but one
CURVE_SECONDS = 1.5  # for the timed rounds
DIGITS = 3  # of a ratio; more would be noise
KEPT = "read_costs.json"


@dataclass(frozen=True, slots=True)
class ReadCost:
    """A pass over `num_rows` rows, beside passes over one row in the same rounds."""

    num_rows: int
    milliseconds: float  # median
    over_one_row: float  # median over the rounds of (this pass / the one-row pass)


def read_costs(
    lm: LanguageModel, context: Sequence[int], row_counts: Sequence[int], num_rounds: int
) -> list[ReadCost]:
    """Each number of rows read once per round behind `context`, which grows by a token a round."""
    every = _rounds(lm, context, row_counts, WARM_UP_ROUNDS + num_rounds)
    return _medians(list(every)[WARM_UP_ROUNDS:], row_counts)


def kept_or_measured(lm: LanguageModel, name: str, form: str) -> Curve:
    """The curve of a model called `name` with its layers in `form`: as kept, else measured now."""
    device, place = describe_machine(lm.device), cache_root() / KEPT
    key = "; ".join((name, f"{lm.num_parameters} parameters", form, device, lm.path))
    curves = _kept(place)
    if key not in curves:
        curves[key] = measured(lm)
        _keep(place, curves)
    return curves[key]


def measured(lm: LanguageModel) -> Curve:
    """The curve now, in a second or two. It never falls: where it seemed to, that was noise."""
    context = [(7 + 31 * i) % lm.vocab_size for i in range(min(CURVE_CONTEXT, lm.max_context // 2))]
    row_counts = [n for n in CURVE_ROWS if n <= lm.max_context // 4 or n == 1]
    every = _rounds(lm, context, row_counts, WARM_UP_ROUNDS + CURVE_ROUNDS)
    list(islice(every, WARM_UP_ROUNDS))
    started, timed = time.monotonic(), list[dict[int, float]]()
    for seconds in every:
        timed.append(seconds)
        if time.monotonic() - started > CURVE_SECONDS:
            break
    costs = _medians(timed, row_counts)
    ratios = rising([cost.over_one_row for cost in costs])
    return tuple((n, round(r, DIGITS)) for n, r in zip(row_counts, ratios, strict=True))


def binary_tree(num_rows: int) -> DraftTree:
    """Two children under every row, as far as the rows go."""
    parents = (-1, *((row - 1) // 2 for row in range(1, num_rows)))
    return DraftTree(tuple(range(num_rows)), parents)


def _rounds(
    lm: LanguageModel, context: Sequence[int], row_counts: Sequence[int], num_rounds: int
) -> Iterator[dict[int, float]]:
    """Seconds by number of rows, a round at a time."""
    cache = lm.new_cache(len(context) + num_rounds + max(row_counts))
    lm.prefill(context, cache)
    trees = {count: binary_tree(count) for count in row_counts}
    for index in range(num_rounds):
        first = index % len(row_counts)  # nobody always comes after the largest
        seconds = {}
        for count in (*row_counts[first:], *row_counts[:first]):
            watch = Stopwatch(lm.device)
            lm.read(trees[count], cache)
            seconds[count] = watch.lap()
        cache.keep((0,))  # of the round's last read
        yield seconds


def _medians(timed: Sequence[dict[int, float]], row_counts: Sequence[int]) -> list[ReadCost]:
    return [
        ReadCost(
            num_rows=count,
            milliseconds=1000 * median(s[count] for s in timed),
            over_one_row=median(s[count] / s[1] for s in timed),
        )
        for count in row_counts
    ]


def _kept(place: Path) -> dict[str, Curve]:
    """Curves by key; none where the file is missing or is not what we wrote."""
    try:
        held = json.loads(place.read_text("utf-8"))
        return {
            str(key): tuple((int(n), float(ratio)) for n, ratio in curve)
            for key, curve in held.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _keep(place: Path, curves: dict[str, Curve]) -> None:
    """Nothing happens where the folder cannot be written: it is measured again next time."""
    new = place.with_name(f"{KEPT}.{os.getpid()}")
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(json.dumps(curves, indent=1), "utf-8")
        new.replace(place)
