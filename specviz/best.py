"""The setting at which a recorded lane is estimated to be fastest: how long to draft, how many rows to
read. The estimates are `what_if`'s, with what they assume.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from specviz.what_if import LONGEST, Estimate, Recording, budgeted, truncated

WIDTHS = 8  # numbers of rows that are tried


@dataclass(frozen=True, slots=True)
class BestLength:
    """The draft length with the highest estimated speed-up; of equals the shortest."""

    num_draft_tokens: int
    estimate: Estimate
    tried: tuple[Estimate, ...] = field(repr=False)  # of lengths 1, 2, 3, ...


@dataclass(frozen=True, slots=True)
class BestWidth:
    """The number of rows below the recorded one with the highest estimated speed-up."""

    num_rows: int
    estimate: Estimate


def best_length(recording: Recording) -> BestLength | None:
    """Over all lengths that can be estimated, up to twice the recorded one. None: no draft at all."""
    if recording.deepest == 0:
        return None
    longest = recording.deepest
    if recording.is_text_alone:
        longest = min(LONGEST, 2 * longest)
    tried = tuple(truncated(recording, k) for k in range(1, longest + 1))
    best = max(range(longest), key=lambda i: (tried[i].speedup, -i))
    return BestLength(best + 1, tried[best], tried)


def best_width(recording: Recording) -> BestWidth | None:
    """Over WIDTHS numbers of rows, spread evenly below those of the widest tree. None: chains, of
    which rows and length are one thing, or no narrower tree."""
    if not recording.has_branches:
        return None
    least = 2 + max(r.tree.num_lookahead_rows for r in recording.rounds)
    rows = spread(least, max(r.rows_written for r in recording.rounds) - 1, WIDTHS)
    tried = [BestWidth(n, budgeted(recording, n)) for n in rows]
    return max(tried, key=lambda width: width.estimate.speedup, default=None)


def spread(least: int, most: int, count: int) -> list[int]:
    """At most `count` whole numbers from `least` to `most`, evenly, both ends among them."""
    steps = min(count, most - least + 1) - 1
    if steps < 1:
        return [most] if most >= least else []
    return [round(least + i * (most - least) / steps) for i in range(steps + 1)]
