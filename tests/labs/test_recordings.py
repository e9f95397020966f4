"""What the labs take from recorded runs, on hand-made ones whose numbers are known."""

from __future__ import annotations

import pytest

from specviz.labs import machine, recordings
from specviz.metrics import mean_acceptance_length
from specviz.trace import RunStart, rounds_of
from specviz.ui import labs_exact
from specviz.words import Refusal
from tests.traces import demo_run

EVENTS = [event for event in demo_run() if event.kind not in ("progress", "failure")]


def test_chains_and_trees_are_told_apart() -> None:
    chains = recordings.chain_lanes(EVENTS)
    trees = recordings.real_trees(EVENTS)
    assert chains
    assert trees
    assert not {lane.title for lane in chains} & {title for title, _ in trees}
    for lane in chains:
        start = next(s for s in recordings.starts(EVENTS) if s.title == lane.title)
        rounds = [r for r in rounds_of(EVENTS, start.lane) if r.tree.num_draft_tokens]
        assert lane.counted == pytest.approx(mean_acceptance_length(rounds), rel=0.1)
        assert 1 <= lane.formula <= lane.max_drafted + 1


def test_real_rows_are_pairs_of_distributions() -> None:
    rows = recordings.real_rows(EVENTS)
    assert rows
    for row in rows:
        assert sum(row.odds.p) == pytest.approx(1, abs=1e-6)
        assert sum(row.odds.q) == pytest.approx(1, abs=1e-6)
        assert len(row.odds.labels) == len(row.odds.p)


def test_reading_and_writing_are_told_from_the_run() -> None:
    start = next(event for event in EVENTS if isinstance(event, RunStart))
    found = recordings.reading(EVENTS)
    assert found is not None
    assert found.num_prompt_tokens == len(start.prompt_tokens) - 1
    assert found.seconds_per_prompt_token == start.prefill_seconds / found.num_prompt_tokens
    assert {lane.drafter for lane in recordings.lane_speeds(EVENTS)}


def test_the_machine_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "SIDE", 256)
    monkeypatch.setattr(machine, "SQUARE", 128)
    found = machine.measure()
    assert found.machine.bytes_per_second > 0
    assert found.machine.flops_per_second > 0
    assert [rows for rows, _ in found.reads] == list(machine.ROWS)
    assert found.least_seconds(64) >= found.least_seconds(1)


def test_a_row_without_the_drafts_chances_has_point_masses() -> None:
    """Of its tokens, the guesses first; what is not shown is one more."""
    drawn = recordings.odds_of([("a", 0.5, 0.25), ("b", 0.25, 0.5)], 1)
    assert (drawn.p, drawn.q) == ((0.5, 0.25, 0.25), (0.25, 0.5, 0.25))
    assert (drawn.labels, drawn.num_siblings, drawn.is_sampled) == (("a", "b", "…"), 1, True)
    chosen = recordings.odds_of([("a", 0.5, None), ("b", 0.25, None), ("c", 0.125, None)], 2)
    assert (chosen.p, chosen.q) == ((0.5, 0.25, 0.125, 0.125), (0.5, 0.5, 0.0, 0.0))
    assert not chosen.is_sampled


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"guesses": 0, "tokens": [["a", 0.5, null]]}',
        '{"guesses": 9, "tokens": [["a", 0.5, null]]}',
        '{"guesses": 1, "tokens": [["a", NaN, 0.1]]}',
        '{"guesses": 1, "tokens": [["a", "b", 0.1]]}',
        '{"guesses": 1, "tokens": 3}',
        "[" * 5000,
    ],
)
def test_an_address_that_names_no_row_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="names no row of odds"):
        labs_exact.fields_of_link(text)
