"""Estimates of other settings as the stage takes them: a table worked out once, at a lane's end, so
that a recording or a saved page answers "what if" without a server. Numbers come from `what_if`.

The form of the item stands in `judgement.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from specviz.best import BestLength, spread
from specviz.config import PLAIN_DRAFTER, SamplingParams
from specviz.cost import Account
from specviz.theory import Costs
from specviz.views.numbers import short
from specviz.what_if import (
    Estimate,
    Recording,
    at_costs,
    at_temperature_one,
    at_temperature_zero,
    budgeted,
    oracle,
    unbranched,
)
from specviz.words import Message, Refusal, message

Item: TypeAlias = dict[str, Any]
MOST_BUDGETS = 12  # as many columns as a narrow pane has room for
DRAFT_STOPS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)  # plain steps
READ_STOPS = (1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)
PLAIN_SAMPLING = SamplingParams(temperature=1.0)
Curve: TypeAlias = tuple[tuple[int, float], ...]
# T(n) / T(1) of reads as others measured and published them, and our own of two CPU cores; by the
# end of their name in `what_if.curve.*`, which says whose they are.
CURVES: Mapping[str, Curve] = {
    "mi355x": ((1, 1.0), (8, 1.2), (16, 1.29), (32, 1.42)),
    "mi355x_batch": ((1, 1.0), (8, 1.87), (16, 2.94), (32, 4.91)),
    "m3_4bit": ((1, 1.0), (2, 1.83), (4, 3.26), (8, 6.12), (16, 6.32)),
    "rtx3090_iq1": ((1, 1.0), (2, 1.23), (4, 1.69), (8, 2.31)),
    "xeon_packed": ((1, 1.0), (4, 1.08), (8, 1.12), (16, 1.23), (32, 1.42), (64, 1.69)),
    "xeon_float32": ((1, 1.0), (4, 1.78), (8, 2.13), (16, 2.28), (32, 2.97), (64, 4.22)),
}


@dataclass(slots=True)
class _Said:
    """Each assumption once, as many estimates share theirs."""

    messages: list[Message] = field(default_factory=list)

    def index(self, said: Message) -> int:
        if said not in self.messages:
            self.messages.append(said)
        return self.messages.index(said)


def what_if_item(recording: Recording, best: BestLength) -> Item:
    """Of a lane that drafted something."""
    account, said = recording.account, _Said()
    refused: dict[str, Message] = {}
    choices = {
        "length": [
            _item(recording, e, said, value=k, is_measured=k == recording.deepest)
            for k, e in enumerate(best.tried, start=1)
        ],
        "budget": _budgets(recording, said),
        "unbranched": [_item(recording, unbranched(recording), said)]
        if recording.has_branches
        else [],
        "oracle": [_item(recording, oracle(recording), said)],
        "temperature": _temperature(recording, said, refused),
        "greedy": _greedy(recording, said, refused),
    }
    costs = _costs(recording, said)
    return {
        "measured": {
            "tau": short(account.tau),
            "rho": short(account.rho),
            "speedup": short(account.speedup),
        },
        "choices": {name: found for name, found in choices.items() if found},
        "costs": costs,
        "refused": refused,
        "said": said.messages,
    }


def _item(
    recording: Recording,
    estimate: Estimate,
    said: _Said,
    *,
    value: int | None = None,
    is_measured: bool = False,
    sampling: dict[str, float] | None = None,
) -> Item:
    if is_measured:  # then there is nothing to estimate
        account = recording.account
        estimate = Estimate(account.tau, account.rho, ())
    bounds = estimate.bounds
    return {
        "value": value,
        "tau": short(estimate.tau),
        "rho": short(estimate.rho),
        "speedup": short(estimate.speedup),
        "bounds": None if bounds is None else [short(tau / estimate.rho) for tau in bounds],
        "is_measured": is_measured,
        "assumes": [said.index(one) for one in estimate.assumes],
        "measure": _measure(recording, estimate, sampling),
    }


def _measure(
    recording: Recording, estimate: Estimate, sampling: dict[str, float] | None
) -> Item | None:
    """Fields of a request: this lane alone, beside plain decoding, so set."""
    if not estimate.measure and sampling is None:
        return None
    start = recording.start
    knobs = {**start.knobs, **dict(estimate.measure)}
    return {
        "lanes": [PLAIN_DRAFTER, start.drafter],
        "knobs": {start.drafter: knobs},
        **(sampling or {}),
    }


def _budgets(recording: Recording, said: _Said) -> list[Item]:
    """Only where rounds are trees: of a chain, rows and length are one thing."""
    if not recording.has_branches:
        return []
    most = max(r.rows_written for r in recording.rounds)
    least = 2 + max(r.tree.num_lookahead_rows for r in recording.rounds)
    return [
        _item(recording, budgeted(recording, n), said, value=n, is_measured=n == most)
        for n in spread(least, most, MOST_BUDGETS)
    ]


def _temperature(recording: Recording, said: _Said, refused: dict[str, Message]) -> list[Item]:
    """Of a whole trace, only temperature 1 can be told; a run at 1 has it measured."""
    if recording.start.sampling == PLAIN_SAMPLING:
        return []
    try:
        estimate = at_temperature_one(recording)
    except Refusal as error:
        refused["temperature"] = error.message
        return []
    return [_item(recording, estimate, said, sampling={"temperature": 1.0})]


def _greedy(recording: Recording, said: _Said, refused: dict[str, Message]) -> list[Item]:
    """Temperature 0 from a drawn run, as far as the text is the greedy one."""
    if recording.start.sampling.temperature == 0:
        return []
    try:
        estimate = at_temperature_zero(recording)
    except Refusal as error:
        refused["greedy"] = error.message
        return []
    return [_item(recording, estimate, said, sampling={"temperature": 0.0})]


def _costs(recording: Recording, said: _Said) -> Item:
    """rho for every pair of stops: the drafter's pass, and the read the lane makes most."""
    account, costs = recording.account, recording.costs
    rows, one_row = account.usual_read.num_rows, costs.delta(1)
    read = costs.delta(rows)
    steps = _stops(costs.draft_step, DRAFT_STOPS if account.num_draft_steps else ())
    reads = _stops(read, (stop for stop in READ_STOPS if stop > one_row) if rows > 1 else ())

    def line(delta: float) -> tuple[tuple[int, float], ...]:
        return ((1, one_row), (rows, delta)) if rows > 1 else ((1, delta),)

    table = [[at_costs(recording, Costs(c, costs.host, line(d))) for d in reads] for c in steps]
    curves = [
        _curve(recording, said, message(f"what_if.curve.{name}"), curve, steps)
        for name, curve in CURVES.items()
    ]
    assumed = (
        *table[0][0].assumes,
        *_of_medians(account),
        message("what_if.straight_line", n=rows),
    )
    return {
        "c": list(map(short, steps)),
        "delta": list(map(short, reads)),
        "rows": rows,
        "now": [steps.index(costs.draft_step), reads.index(read)],
        "tau": short(table[0][0].tau),
        "rho": [[short(e.rho) for e in row] for row in table],
        "speedup": [[short(e.speedup) for e in row] for row in table],
        "assumes": [said.index(one) for one in assumed],
        "curves": curves,
    }


def _curve(
    recording: Recording, said: _Said, name: Message, curve: Curve, steps: Sequence[float]
) -> Item:
    """The same drafts where reads cost what `curve` says, for each stop of the drafter's pass."""
    costs = recording.costs
    reads = tuple((n, growth * costs.delta(1)) for n, growth in curve)
    found = [at_costs(recording, Costs(c, costs.host, reads)) for c in steps]
    return {
        "name": name,
        "rho": [short(e.rho) for e in found],
        "speedup": [short(e.speedup) for e in found],
        "assumes": [said.index(one) for one in found[0].assumes],
    }


def _of_medians(account: Account) -> tuple[Message, ...]:
    """Why the costs of single passes do not add up to what the run measured, where they do not."""
    rho, medians = f"{account.rho:.2f}", f"{account.rho_of_medians:.2f}"
    return () if rho == medians else (message("what_if.medians", rho=rho, medians=medians),)


def _stops(now: float, others: Iterable[float]) -> list[float]:
    """In order, the measured value among them."""
    return sorted({now, *others})
