"""The loop over prompts and lanes, and the numbers it ends in, on rounds written by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.bench import CannotMeasureError
from specviz.bench.lane_run import StoppedError
from specviz.bench.records import PartialFile
from specviz.bench.report import report_json
from specviz.bench.results import LaneResult, Results
from specviz.bench.run import PLAIN, Benchmark, Plan, planned_lanes
from specviz.config import MAX_PROMPT_CHARACTERS, LaneSpec
from specviz.trace import LaneEnd
from tests.bench.fake_session import FakeSession, Notes, Script, plain_rounds, plan, rounds

# Two prompts of two categories. Plain: 2 s a token. The lane: 3 rounds of 2.5 s for 6 tokens, then
# 2 rounds of 3 s for 2 tokens, which is slower than plain.
SIX, TWO = (1, 2, 3, 4, 5, 6), (1, 2)
PROMPTS = (("P1", "long"), ("P2", "short"))
SCRIPTS: dict[tuple[str, str], Script] = {
    ("P1", "autoregressive"): plain_rounds(SIX),
    ("P2", "autoregressive"): plain_rounds(TWO),
    ("P1", "eagle"): rounds([(1, 2), (4, 50), (51, 52)], SIX, 2.5),
    ("P2", "eagle"): rounds([(50,), (51,)], TWO, 3.0),
}


def measured(
    session: FakeSession, wanted: Plan, kept: PartialFile | None = None, notes: Notes | None = None
) -> Results:
    benchmark = Benchmark(session, wanted, notes or Notes(), lambda: False)
    setup = benchmark.warm_up()
    records, is_complete = benchmark.measure(setup, kept)
    return Results(wanted, setup, tuple(records), is_complete, 0.0)


@pytest.fixture(scope="module")
def eagle() -> LaneResult:
    return measured(FakeSession(SCRIPTS), plan("eagle", prompts=PROMPTS)).lanes["eagle"]


def test_tau_and_acceptance_are_over_all_rounds_of_all_prompts(eagle: LaneResult) -> None:
    total = eagle.total
    assert eagle.tau == total.tau == 8 / 5
    assert total.accepted_per_round == 3 / 5
    assert (total.num_accepted, total.num_drafted, total.num_rows) == (3, 8, 13)
    assert [(d.num_reached, d.num_accepted) for d in total.depths] == [(5, 2), (2, 1)]


def test_the_speedup_is_the_median_of_ratios_by_prompt(eagle: LaneResult) -> None:
    """2 s a token over 7.5 / 6, and over 3: 1.6 and 2/3."""
    assert eagle.speedup is not None
    assert eagle.speedup.median == pytest.approx((1.6 + 2 / 3) / 2)
    assert eagle.speedup.low == pytest.approx(0.75 * 2 / 3 + 0.25 * 1.6)
    assert eagle.speedup.high == pytest.approx(0.25 * 2 / 3 + 0.75 * 1.6)
    assert eagle.rho is not None
    assert eagle.rho.median == pytest.approx((1.25 + 1.5) / 2)


def test_totals_divide_sums_and_agree_with_tau_and_rho(eagle: LaneResult) -> None:
    assert eagle.total_speedup == pytest.approx(16 / 13.5)
    assert eagle.total_rho == pytest.approx(13.5 / 5 / 2)
    assert eagle.tau is not None
    assert eagle.total_rho is not None
    assert eagle.tau / eagle.total_rho == pytest.approx(16 / 13.5)


def test_categories_are_told_apart(eagle: LaneResult) -> None:
    long, short = eagle.of_category("long"), eagle.of_category("short")
    assert (long.tau, short.tau) == (2.0, 1.0)
    assert long.speedup is not None
    assert short.speedup is not None
    assert (long.speedup.median, short.speedup.median) == pytest.approx((1.6, 2 / 3))


def test_plain_decoding_is_its_own_measure() -> None:
    lanes = measured(FakeSession(SCRIPTS), plan("eagle", prompts=PROMPTS)).lanes
    plain = lanes["autoregressive"]
    assert plain.tau == plain.total_speedup == plain.total_rho == 1.0
    assert plain.num_identical == 2


def test_every_lane_is_warm_and_none_is_always_first() -> None:
    prompts = [(name, "a") for name in ("P1", "P2", "P3")]
    session, notes = FakeSession({}), Notes()
    results = measured(session, plan("eagle", "medusa", prompts=prompts), notes=notes)
    names = ["autoregressive", "eagle", "medusa"]
    assert session.asked[:3] == [("warm", name) for name in names]
    assert session.asked[3:] == [
        (f"P{turn + 1}", names[(turn + i) % 3]) for turn in range(3) for i in range(3)
    ]
    assert len(results.records) == 9
    assert [step for step, _ in notes.steps] == list(range(10))
    assert notes.progress_told == ["Loading."]  # once: the other lanes find all loaded


@pytest.mark.parametrize(("gap", "is_near_tie"), [(0.125, True), (0.13, False)])
def test_an_answer_that_differs_is_counted_with_its_gap(gap: float, is_near_tie: bool) -> None:
    """Near 14, two steps of bfloat16 are an eighth."""
    scripts = {
        ("P1", "autoregressive"): plain_rounds(SIX, gap=gap),
        ("P1", "eagle"): rounds([(1, 2), ()], (1, 2, 3, 40), 2.0),
        ("P2", "autoregressive"): plain_rounds(TWO),
        ("P2", "eagle"): plain_rounds((1, 2, 3)),  # longer, and alike as far as both go
    }
    lane = measured(FakeSession(scripts), plan("eagle", prompts=PROMPTS)).lanes["eagle"]
    assert (lane.num_identical, lane.num_compared) == (1, 2)
    parting = lane.partings["P1"]
    assert (parting.position, parting.is_near_tie) == (3, is_near_tie)
    assert parting.top_two_gap == pytest.approx(gap)


def test_a_prompt_that_does_not_fit_is_skipped_with_the_reason() -> None:
    reason = "The prompt has 9,000 tokens and hand-made holds 8,192."
    scripts = {**SCRIPTS, **{("P3", name): reason for name in ("autoregressive", "eagle")}}
    notes = Notes()
    prompts = [*PROMPTS, ("P3", "long"), ("x" * (MAX_PROMPT_CHARACTERS + 1), "long")]
    results = measured(FakeSession(scripts), plan("eagle", prompts=prompts), notes=notes)
    assert notes.told[-2] == f"Prompt P3 is skipped: {reason}"
    assert results.skipped[0] == ("P3", reason, ["autoregressive", "eagle"])
    assert "characters; at most" in results.skipped[1][1]
    assert (results.num_prompts, results.lanes["eagle"].num_compared) == (2, 2)
    assert results.lanes["eagle"].tau == 8 / 5


def test_a_lane_that_fails_on_a_prompt_leaves_the_others_their_pair() -> None:
    scripts = {**SCRIPTS, ("P2", "medusa"): LaneEnd(0, "error", "", "Out of memory.")}
    results = measured(FakeSession(scripts), plan("eagle", "medusa", prompts=PROMPTS))
    assert results.skipped == [("P2", "Out of memory.", ["medusa"])]
    assert [len(lane.records) for lane in results.lanes.values()] == [2, 2, 1]


def test_of_all_drafters_those_that_cannot_run_are_left_out_with_the_reason() -> None:
    scripts = {**SCRIPTS, ("warm", "medusa"): "There are no trained heads for this target."}
    wanted = plan("medusa", "eagle", prompts=PROMPTS, is_every_drafter=True)
    session, notes = FakeSession(scripts), Notes()
    results = measured(session, wanted, notes=notes)
    assert list(results.lanes) == ["autoregressive", "eagle"]
    assert results.setup.left_out == {"medusa": "There are no trained heads for this target."}
    assert "medusa is left out: There are no trained heads for this target." in notes.told
    assert [prompt for prompt, name in session.asked if name == "medusa"] == ["warm"]


def test_a_drafter_without_weights_does_not_keep_all_others_from_being_measured() -> None:
    """Once catalogs knew which drafters lack weights, `--lanes all` was refused because of them."""
    whole = FakeSession(SCRIPTS).catalog()
    catalog = replace(whole, untrained=frozenset({("hand-made", "eagle")}))
    request = plan(prompts=PROMPTS).request
    assert planned_lanes(None, request, catalog) == (PLAIN, LaneSpec("eagle"))
    with pytest.raises(ValueError, match="no trained eagle weights"):
        planned_lanes([LaneSpec("eagle")], request, catalog)


def test_a_drafter_that_was_asked_for_by_name_is_not_left_out() -> None:
    scripts = {**SCRIPTS, ("warm", "medusa"): "There are no trained heads for this target."}
    with pytest.raises(CannotMeasureError, match="no trained heads"):
        measured(FakeSession(scripts), plan("medusa", prompts=PROMPTS))


def test_a_lane_on_a_backbone_of_its_own_is_compared_with_plain_decoding_of_it() -> None:
    """Against the target as it is, a slower or faster backbone would pass for the drafter's merit."""
    own = "autoregressive (backbone=mtp)"
    scripts: dict[tuple[str, str], Script] = {
        ("P1", "autoregressive"): plain_rounds(SIX, 2.0),
        ("P1", own): plain_rounds((1, 2, 3, 4, 5, 7), 3.0),
        ("P1", "mtp"): rounds([(1, 2), (4, 5)], (1, 2, 3, 4, 5, 7), 3.0),
    }
    session = FakeSession(scripts, backbones={"mtp": "mtp"})
    results = measured(session, plan("mtp", prompts=PROMPTS[:1]))
    assert list(results.lanes) == ["autoregressive", own, "mtp"]
    mtp = results.lanes["mtp"]
    assert mtp.lane.baseline == own
    assert mtp.total_speedup == pytest.approx(3.0)
    assert (mtp.num_identical, results.lanes[own].num_identical) == (1, 1)
    assert results.lanes[own].total_speedup == 1.0


def stopped_after(num_prompts: int, session: FakeSession) -> Any:
    """Asks to stop in the first run of the prompt after so many."""
    names = [name for name, _ in PROMPTS]
    return lambda: session.asked[-1][0] in names[num_prompts:]


def test_what_was_measured_before_a_stop_is_kept_and_gone_on_from(tmp_path: Path) -> None:
    wanted = plan("eagle", prompts=PROMPTS)
    kept = PartialFile(tmp_path / "report.json.partial.jsonl")
    first = FakeSession(SCRIPTS, commit="aaa")
    benchmark = Benchmark(first, wanted, Notes(), stopped_after(1, first))
    setup = benchmark.warm_up()
    records, is_complete = benchmark.measure(setup, kept)
    assert not is_complete
    assert [(r.prompt, r.lane) for r in records] == [("P1", "autoregressive"), ("P1", "eagle")]

    second, notes = FakeSession(SCRIPTS, commit="bbb"), Notes()
    results = measured(second, wanted, kept, notes)
    assert [prompt for prompt, _ in second.asked] == ["warm", "warm", "P2", "P2"]
    assert notes.steps[0] == (2, 4)
    assert "1 of 2 prompts are measured" in notes.told[-1]
    whole = measured(FakeSession(SCRIPTS), wanted)
    assert results.is_complete
    assert results.commits == ["aaa", "bbb"]
    for name, lane in whole.lanes.items():
        assert results.lanes[name].total == lane.total
        assert results.lanes[name].speedup == lane.speedup
    again = FakeSession(SCRIPTS)
    assert measured(again, wanted, kept).records == results.records
    assert [prompt for prompt, _ in again.asked] == ["warm", "warm"]


def test_a_prompt_that_is_not_whole_or_failed_is_measured_again(tmp_path: Path) -> None:
    """Half a prompt from another sitting would pair seconds of two days."""
    wanted = plan("eagle", prompts=PROMPTS)
    kept = PartialFile(tmp_path / "partial.jsonl")
    measured(FakeSession({**SCRIPTS, ("P2", "eagle"): "Out of memory."}), wanted, kept)
    lines = kept.path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept.path.write_text("".join([lines[0], *lines[2:]]), encoding="utf-8")  # P1 lost its plain run
    session = FakeSession(SCRIPTS)
    results = measured(session, wanted, kept)
    assert [prompt for prompt, _ in session.asked[2:]] == ["P1", "P1", "P2", "P2"]
    assert results.skipped == []
    assert len(kept.load({})) == 4


@pytest.mark.parametrize(
    ("session", "wanted"),
    [
        (FakeSession(SCRIPTS), plan("eagle", prompts=PROMPTS, budget=9)),
        (FakeSession(SCRIPTS, machine="another"), plan("eagle", prompts=PROMPTS)),
        (FakeSession(SCRIPTS), plan("eagle", prompts=PROMPTS[:1])),
        (FakeSession(SCRIPTS), plan(prompts=PROMPTS)),
    ],
)
def test_measurements_of_something_else_are_not_gone_on_from(
    tmp_path: Path, session: FakeSession, wanted: Plan
) -> None:
    kept = PartialFile(tmp_path / "partial.jsonl")
    measured(FakeSession(SCRIPTS), plan("eagle", prompts=PROMPTS), kept)
    before = kept.path.read_bytes()
    with pytest.raises(ValueError, match="holds measurements with another"):
        measured(session, wanted, kept)
    assert kept.path.read_bytes() == before


def test_a_run_that_is_cancelled_from_outside_stops_the_benchmark() -> None:
    scripts: dict[tuple[str, str], Script] = {("warm", "eagle"): LaneEnd(0, "cancelled", "")}
    with pytest.raises(StoppedError):
        measured(FakeSession(scripts), plan("eagle", prompts=PROMPTS))


def test_plain_decoding_is_always_measured_and_first() -> None:
    catalog = FakeSession(SCRIPTS).catalog()
    request = plan(prompts=PROMPTS).request
    eagle = LaneSpec("eagle")
    assert planned_lanes(None, request, catalog) == (PLAIN, eagle)
    assert planned_lanes([eagle], request, catalog) == (PLAIN, eagle)
    assert planned_lanes([eagle, PLAIN], request, catalog) == (PLAIN, eagle)
    with pytest.raises(ValueError, match="Two lanes are the same"):
        planned_lanes([eagle, eagle], request, catalog)
    with pytest.raises(ValueError, match="one of autoregressive, eagle"):
        planned_lanes([LaneSpec("telepathy")], request, catalog)


def test_a_lane_without_any_prompt_is_reported_without_numbers() -> None:
    scripts = {**SCRIPTS, ("P1", "eagle"): "No.", ("P2", "eagle"): "No."}
    results = measured(FakeSession(scripts), plan("eagle", prompts=PROMPTS))
    facts = json.loads(report_json(results))["lanes"]["eagle"]
    assert (facts["prompts"], facts["tau"], facts["speedup"]) == (0, None, None)
