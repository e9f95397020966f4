"""What a run's end tells of cost and of other settings: against sums over the rounds, and by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specviz import what_if
from specviz.theory import Costs
from specviz.trace import LaneStart, RoundTrace, TraceEvent, rounds_of
from specviz.views.judgement import judged_item
from tests import recorded
from tests.traces import demo_run


def close(value: float) -> Any:
    return pytest.approx(value, rel=1e-6)


@pytest.fixture(scope="module")
def events() -> list[TraceEvent]:
    return [e for e in demo_run() if isinstance(e, TraceEvent)]


def seconds_of(rounds: list[RoundTrace], part: str) -> float:
    return float(sum(getattr(r, part) for r in rounds))


def test_the_account_adds_up_over_the_rounds(events: list[TraceEvent]) -> None:
    """Parts of a mean round in plain steps, worked out here from the seconds of the trace alone."""
    ours, plain = rounds_of(events, 1), rounds_of(events, 0)
    step = sum(r.seconds for r in plain) / len(plain)
    account = judged_item(events, 1)["account"]
    drafting = sum(s for r in ours for s in r.draft_step_seconds)
    mean = len(ours) * step
    assert account["parts"]["draft"] == close(drafting / mean)
    assert account["parts"]["read"] == close(seconds_of(ours, "verify_seconds") / mean)
    assert sum(account["parts"].values()) == close(account["rho"])
    assert sum(account["plain"].values()) == close(1)
    assert account["tau"] / account["rho"] == close(account["speedup"])
    assert sum(count for _, count, _, _ in account["reads"]) == len(ours)
    parts = account["delta"] + account["steps"] * account["c"] + account["eta"]
    assert parts == close(account["rho_of_medians"])
    k, tau, rho, speedup = account["predicted"]
    assert speedup == close(tau / rho)
    assert 1 < tau < k + 1


@pytest.mark.parametrize("lane", [1, 2, 3])
def test_what_was_measured_is_no_estimate_and_the_oracle_bounds_the_rest(
    events: list[TraceEvent], lane: int
) -> None:
    item = judged_item(events, lane)
    found, account = item["what_if"], item["account"]
    measured = [e for e in found["choices"]["length"] if e["is_measured"]]
    assert [(e["tau"], e["rho"]) for e in measured] == [(account["tau"], account["rho"])]
    assert (measured[0]["assumes"], measured[0]["measure"]) == ([], None)
    (best,) = found["choices"]["oracle"]
    deepest = measured[0]["value"]
    within = [e["speedup"] for e in found["choices"]["length"] if e["value"] <= deepest]
    assert best["speedup"] >= max(within) * (1 - 1e-6)
    kinds = set(found["choices"])
    assert ("budget" in kinds, "unbranched" in kinds) == ((lane == 2,) * 2)


def test_other_costs_are_those_of_the_stops(events: list[TraceEvent]) -> None:
    """Any pair of stops against the formula, round by round."""
    rounds, found = rounds_of(events, 1), judged_item(events, 1)["what_if"]["costs"]
    i, j = len(found["c"]) - 1, len(found["delta"]) - 1
    recording = recording_of(events, 1)
    one_row, eta = recording.costs.delta(1), recording.costs.host
    slope = (found["delta"][j] - one_row) / (found["rows"] - 1)
    by_hand = [
        one_row + slope * (r.rows_written - 1) + len(r.draft_step_seconds) * found["c"][i] + eta
        for r in rounds
    ]
    assert found["rho"][i][j] == close(sum(by_hand) / len(by_hand))
    now_c, now_delta = found["now"]
    assert found["c"][now_c] == close(recording.costs.draft_step)
    assert found["delta"][now_delta] == close(recording.costs.delta(found["rows"]))
    free = what_if.at_costs(recording, Costs(0.0, eta, ((1, one_row), (found["rows"], 1.0))))
    assert found["rho"][0][found["delta"].index(1.0)] == close(free.rho)


def test_a_curve_measured_elsewhere_is_the_cost_of_its_rows(events: list[TraceEvent]) -> None:
    """Chains of four drafts are read as five rows: between the published 4 and 8 a straight line."""
    found, recording = judged_item(events, 1)["what_if"]["costs"], recording_of(events, 1)
    curve = next(c for c in found["curves"] if c["name"][0] == "what_if.curve.m3_4bit")
    growth = 3.26 + (6.12 - 3.26) / 4
    i, _ = found["now"]
    steps = recording.account.draft_steps_per_round * recording.costs.draft_step
    by_hand = growth * recording.costs.delta(1) + steps + recording.costs.host
    assert {r.rows_written for r in rounds_of(events, 1)} == {5}
    assert curve["rho"][i] == close(by_hand)


def recording_of(events: list[TraceEvent], lane: int) -> what_if.Recording:
    from specviz.cost import account

    start = next(e for e in events if isinstance(e, LaneStart) and e.lane == lane)
    ours = rounds_of(events, lane)
    return what_if.Recording(start, ours, account(ours, rounds_of(events, 0)))


def test_a_setting_that_a_knob_can_set_says_how_it_would_be_measured() -> None:
    lane = next(r for r in recorded.recordings("chat_rainbows") if r.start.drafter == "draft_model")
    events = list(recorded.events("chat_rainbows"))
    found = judged_item(events, lane.start.lane)["what_if"]
    shorter = next(e for e in found["choices"]["length"] if e["value"] == 1)
    wanted = {**lane.start.knobs, "num_draft_tokens": 1}
    assert shorter["measure"]["lanes"] == ["autoregressive", "draft_model"]
    assert shorter["measure"]["knobs"] == {"draft_model": wanted}
    assert found["choices"]["oracle"][0]["measure"] is None
    assert found["refused"]["temperature"][0] == "refusal.other_guesses"


def test_a_trace_without_the_targets_own_chances_is_still_shown(events: list[TraceEvent]) -> None:
    """The estimate at temperature 1 demanded them, and the whole run could not be shown."""
    assert any(None in r.softmax_probs[1:] for r in rounds_of(events, 2))
    refused = judged_item(events, 2)["what_if"]["refused"]
    assert refused == {"temperature": ("refusal.no_softmax", {})}


@pytest.mark.parametrize("temperature", [0.0, 0.2])
def test_temperature_zero_is_offered_for_drawn_runs_alone(temperature: float) -> None:
    """A greedy recording, once told to have been drawn: then all its rounds count."""
    lane = next(r for r in recorded.recordings("chat_rainbows") if r.is_chosen)
    sampling = replace(lane.start.sampling, temperature=temperature)
    drawn = replace(lane.start, sampling=sampling)
    events = [drawn if e == lane.start else e for e in recorded.events("chat_rainbows")]
    found = judged_item(events, lane.start.lane)["what_if"]
    if temperature == 0:
        assert "greedy" not in {**found["choices"], **found["refused"]}
        return
    (offered,) = found["choices"]["greedy"]
    assert offered["measure"]["temperature"] == 0
    assert not offered["is_measured"]
    said = [found["said"][i] for i in offered["assumes"]]
    assert said[0][0] == "verdict.assume.temperature_zero"
    assert said[0][1]["rounds"] == said[0][1]["all"] == len(lane.rounds)
