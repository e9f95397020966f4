"""What the end of a run tells of each lane that drafts: what was recognised, its cost account, and
what other settings would have given. Numbers are those of `cost` and `what_if`; none is made here.

`judged_item` gives

    findings  [message]; advice (message, rests on an estimate) or null; account and what_if, each
              null where the trace has no times or the lane nothing to be compared with

    account   tau, rho, speedup; parts and plain {draft, read, host} of a mean round and of a plain
              step, in plain steps; plain_step, plain_read, draft_step (null: no passes), host
              [low, median, high] seconds; c, eta, delta in plain steps by medians, steps (passes of
              the drafter a round), rho_of_medians; reads [[rows, how often, seconds, delta], ...];
              alpha [rate, low, high, decisions] or null; predicted [K, tau, rho, speedup] by the
              formulas from these, null where they do not apply

    what_if   measured {tau, rho, speedup}, choices {name: [estimate, ...]}, said [message, ...],
              costs or null, refused {name: message}. Names: "length", "budget", "unbranched",
              "oracle", "temperature", "greedy". An estimate is {value, tau, rho, speedup, bounds of the
              speed-up or null, is_measured, assumes (indices into said), measure (fields of a
              request that would measure it) or null}
    costs     c, delta (the stops of two sliders), rows (whose read delta is), now [index of c, index
              of delta] as measured, tau, rho[i of c][j of delta], speedup alike, assumes (indices into said),
              curves [{name (message), rho[i of c], speedup, assumes}] of reads measured elsewhere
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from specviz.cost import Account, Parts
from specviz.metrics import Spread
from specviz.trace import LaneStart, TraceEvent, rounds_of
from specviz.verdict import judged
from specviz.views.numbers import short
from specviz.views.what_ifs import what_if_item
from specviz.what_if import Recording

Item: TypeAlias = dict[str, Any]


def judged_item(events: Sequence[TraceEvent], lane: int) -> Item:
    """Of one lane of a finished run; see above."""
    said = judged(events, lane)
    account, best = said.account, said.best
    item: Item = {
        "findings": [finding.message for finding in said.findings],
        "advice": said.advice,
        "account": None if account is None else account_item(account),
        "what_if": None,
    }
    if account is not None and best is not None:
        start = next(e for e in events if isinstance(e, LaneStart) and e.lane == lane)
        item["what_if"] = what_if_item(Recording(start, rounds_of(events, lane), account), best)
    return item


def account_item(account: Account) -> Item:
    costs, unit, alpha = account.costs, account.plain_step.median, account.alpha
    return {
        "tau": short(account.tau),
        "rho": short(account.rho),
        "speedup": short(account.speedup),
        "parts": _parts(account.parts),
        "plain": _parts(account.plain_parts),
        "plain_step": _spread(account.plain_step),
        "plain_read": _spread(account.plain_read.seconds),
        "draft_step": None if account.draft_step is None else _spread(account.draft_step),
        "host": _spread(account.host),
        "c": short(costs.draft_step),
        "steps": short(account.draft_steps_per_round),
        "eta": short(costs.host),
        "delta": short(account.mean_read),
        "rho_of_medians": short(account.rho_of_medians),
        "reads": [
            [r.num_rows, r.num_reads, short(r.seconds.median), short(r.seconds.median / unit)]
            for r in account.reads
        ],
        "alpha": None
        if alpha is None
        else [short(alpha.rate), *map(short, alpha.interval), alpha.num_tried],
        "predicted": None
        if (told := account.predicted) is None
        else [told.num_draft_tokens, short(told.tau), short(told.rho), short(told.speedup)],
    }


def _parts(parts: Parts) -> Item:
    return {"draft": short(parts.draft), "read": short(parts.read), "host": short(parts.host)}


def _spread(found: Spread) -> list[float | None]:
    return [short(found.low), short(found.median), short(found.high)]
