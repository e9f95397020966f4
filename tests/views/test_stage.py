"""The feed: its running sums against metrics, the same items live and replayed, odd traces."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from specviz import metrics
from specviz.config import LaneSpec, SamplingParams
from specviz.trace import Failure, LaneEnd, Progress, RoundTrace, RowOdds, RunEnd, SessionEvent
from specviz.trace_io import dump_events, load_events
from specviz.tree import DraftTree
from specviz.verdict import judged
from specviz.views.stage import StageFeed
from specviz.words import tell
from tests.grown import grown_round
from tests.traces import (
    HOSTILE,
    chain_trees,
    decode,
    demo_run,
    greedy_verdict,
    ids,
    lane_start,
    plain_trees,
    round_trace,
    run_start,
)
from tests.ui.stage_nine import nine_lanes


def items_of(events: list[SessionEvent]) -> list[dict[str, Any]]:
    feed = StageFeed()
    return [item for event in events for item in feed.feed(event)]


def close(value: float) -> Any:
    return pytest.approx(value, rel=1e-6)


def test_running_sums_equal_metrics_after_every_round() -> None:
    feed = StageFeed()
    seen: dict[int, list[RoundTrace]] = {}
    for event in demo_run():
        items = feed.feed(event)
        if not isinstance(event, RoundTrace):
            continue
        rounds = seen.setdefault(event.lane, [])
        rounds.append(event)
        total, split = items[0]["total"], metrics.time_split(rounds)
        assert total["num_tokens"] == metrics.num_tokens(rounds)
        assert total["tau"] == close(metrics.mean_acceptance_length(rounds))
        assert total["tokens_per_second"] == close(metrics.tokens_per_second(rounds))
        assert total["num_drafted"] == metrics.num_drafted(rounds)
        assert total["num_accepted"] == metrics.num_accepted(rounds)
        rate = metrics.acceptance_rate(rounds)
        assert total["acceptance_rate"] == (None if rate is None else close(rate))
        for part, seconds in (
            ("draft", split.draft_seconds),
            ("verify", split.verify_seconds),
            ("commit", split.commit_seconds),
        ):
            assert total["time"][part]["seconds"] == close(seconds)
            assert total["time"][part]["share"] == close(seconds / split.seconds)
        assert items[0]["at"][3] == close(split.seconds)
    assert {lane: len(rounds) for lane, rounds in seen.items()} == {0: 50, 1: 15, 2: 14, 3: 26}


def test_comparisons_equal_metrics_after_every_round() -> None:
    feed = StageFeed()
    seen: dict[int, list[RoundTrace]] = {}
    checked = 0
    for event in demo_run():
        items = feed.feed(event)
        if not isinstance(event, RoundTrace):
            continue
        seen.setdefault(event.lane, []).append(event)
        for lane, versus in items[0]["versus"].items():
            ours, plain = seen[int(lane)], seen[0]
            assert versus["speedup"] == close(metrics.speedup(ours, plain))
            assert versus["rho"] == close(metrics.rho(ours, plain))
            assert metrics.first_difference(ours, plain) is None
            both = min(metrics.num_tokens(ours), metrics.num_tokens(plain))
            assert versus["agreement"]["num_tokens"] == both
            checked += 1
    assert checked > 100


def test_a_plain_lane_that_runs_last_still_ends_in_the_right_comparison() -> None:
    ours, plain = list(decode(0, chain_trees())), list(decode(1, plain_trees()))
    starts = [lane_start(0, "draft_model"), lane_start(1)]
    items = items_of([run_start(), *starts, *ours, *plain])
    assert items[3]["versus"] == {}
    speedup = metrics.speedup(ours, plain)
    assert speedup > 1.1
    assert items[-1]["versus"]["0"]["speedup"] == close(speedup)
    assert items[-1]["versus"]["0"]["outcome"] == "faster"


def test_without_a_plain_lane_nothing_is_compared() -> None:
    items = items_of([run_start(), lane_start(0, "draft_model"), *decode(0, chain_trees())])
    found = [item["versus"]["0"] for item in items if item["kind"] == "round"]
    assert {(v["plain"], v["speedup"], v["rho"], v["plain_step"]) for v in found} == {
        (None, None, None, None)
    }


def test_a_first_look_sees_the_fastest_lane_and_one_that_drafts_otherwise() -> None:
    """Races of many lanes opened with the first four, whichever they were."""
    assert items_of(nine_lanes())[-1]["first_look"] == [8, 5]
    assert items_of(demo_run())[-1]["first_look"] == [2, 1]
    alone: list[SessionEvent] = [lane_start(0), *decode(0, plain_trees()), RunEnd(1.0)]
    assert items_of([run_start(), *alone])[-1]["first_look"] == []


def test_the_end_tells_what_is_recognised_about_each_lane_that_drafts() -> None:
    events = nine_lanes()
    told = items_of(events)[-1]["judged"]
    assert sorted(told) == [str(n) for n in range(1, 9)]
    for number, said in told.items():
        expected = judged(events, int(number))  # type: ignore[arg-type]
        assert said["advice"] == expected.advice
        assert said["findings"] == [finding.message for finding in expected.findings]
    assert told["2"]["findings"][0][0] == "verdict.nothing_to_copy"
    half = [e for e in events if not isinstance(e, RoundTrace) or e.lane != 3]
    assert "3" not in items_of(half)[-1]["judged"]


@pytest.mark.parametrize(
    ("more", "promise"),
    [
        ({}, "text"),
        ({"sampling": SamplingParams(temperature=1.0)}, "distribution"),
        ({"sampling": SamplingParams(temperature=1.0), "verification": "coupled"}, "text"),
        ({"exactness": "lossy"}, "approximate"),
    ],
)
def test_a_lane_tells_what_of_plain_decoding_it_keeps(more: dict[str, Any], promise: str) -> None:
    assert items_of([lane_start(0, "medusa", **more)])[0]["promise"] == promise


def test_live_and_replay_give_the_same_items() -> None:
    events = demo_run()
    replayed = list(load_events(dump_events(events)))  # type: ignore[arg-type]
    assert items_of(replayed) == items_of(events)  # type: ignore[arg-type]


def test_the_items_of_a_hand_computed_round() -> None:
    a, b, c, lost = ids("Reading", " a", " model", " quite")
    tree = DraftTree.from_paths(9, [(lost, b), (a, b), (a, lost)])
    round_ = round_trace(tree, greedy_verdict(tree, [a, b, c]), cache_length=212)
    item = items_of([run_start(), lane_start(0, "medusa"), round_])[-1]
    assert item["tree"]["status"] == (
        "root", "rejected", "unreached", "accepted", "accepted", "unreached",
    )  # fmt: skip
    assert item["tree"]["sees"] == ((0,), (0, 1), (0, 1, 2), (0, 3), (0, 3, 4), (0, 3, 5))
    assert item["tree"]["branch"] == (0, 0, 0, 1, 0, 1)
    assert item["next"] == {
        "text": "␣model", "id": c, "kind": "bonus", "x": 3, "y": 1, "parent": 4,
    }  # fmt: skip
    assert item["new"] == {
        "text": ["Reading", "␣a", "␣model"],
        "id": (a, b, c),
        "row": [3, 4, -1],
        "origin": [1, 2, "bonus"],
    }
    assert item["outcome"] == "all"
    assert item["kept_rows"] == (0, 3, 4)
    assert item["lost_rows"] == [1, 2, 5]
    assert item["tree"]["position"] == [212, 213, 214, 213, 214, 214]
    assert item["tree"]["odds"]["3"] == {
        "gap": 2.0,
        "is_near_tie": False,
        "tokens": [
            ["␣a", b, 1.0, None, None, 0.8],
            ["␣model", c, 0.0, None, None, 0.1],
        ],
    }
    assert item["prefix"] == 212
    assert (item["num_drafted"], item["num_accepted"]) == (5, 2)
    assert item["tree"]["trials"]["1"]["is_accepted"] is False
    assert item["at"] == [0.0, 0.001, 0.005, 0.0052]


def test_a_round_cut_on_a_draft_token_has_no_token_of_the_target() -> None:
    a, b = ids("Reading", " a")
    tree = DraftTree.chain(9, [a, b])
    verdict = greedy_verdict(tree, [a, b, a]).cut(1, tree)
    item = items_of([run_start(), lane_start(0, "medusa"), round_trace(tree, verdict)])[-1]
    assert item["next"] is None
    assert item["new"]["origin"] == [1]


def test_a_round_without_a_draft_is_a_plain_step_in_any_lane() -> None:
    """A lane that found nothing to draft showed each token as a bonus."""
    (round_,) = decode(0, [DraftTree.chain(0)])
    item = items_of([run_start(), lane_start(0, "prompt_lookup"), round_])[-1]
    assert item["new"]["origin"] == ["plain"]
    assert item["next"]["kind"] == "plain"


def test_hostile_tokens_travel_as_ascii_json_without_hidden_characters() -> None:
    tokens = ids(*HOSTILE)
    tree = DraftTree.chain(9, tokens)
    events: list[SessionEvent] = [
        replace(run_start(), prompt_texts=HOSTILE),
        lane_start(0, "medusa"),
        round_trace(tree, greedy_verdict(tree, [*tokens, 9])),
        Failure("broken \x1b[31m\ud800"),
    ]
    text = json.dumps(items_of(events), ensure_ascii=True, allow_nan=False)
    assert "\\u0000" not in text
    assert "\\u202e" not in text
    assert "\\ud8" not in text
    assert "\\u001b" not in text


def test_what_is_said_before_a_run_can_start() -> None:
    items = items_of([Progress("fetch", "Fetching weights", 3, 9), Failure("No model.")])
    assert items == [
        {
            "kind": "progress",
            "stage": "fetch",
            "message": "Fetching weights",
            "done": 3,
            "total": 9,
        },
        {"kind": "failure", "message": "No model."},
    ]


def test_a_clock_that_stood_still_divides_by_nothing() -> None:
    round_ = round_trace(
        DraftTree.chain(9), greedy_verdict(DraftTree.chain(9), [1]), seconds=(0.0, 0.0, 0.0)
    )
    item = items_of([run_start(), lane_start(0), round_])[-1]
    assert item["total"]["tokens_per_second"] is None
    assert item["time"]["draft"]["share"] is None


def test_a_round_of_a_lane_that_never_started_is_refused() -> None:
    round_ = next(decode(7, plain_trees()))
    with pytest.raises(ValueError, match="lane 7, which never started"):
        items_of([run_start(), lane_start(0), round_])


@pytest.mark.parametrize("name", ["texts", "draft_probs"])
def test_a_round_with_too_few_facts_is_refused(name: str) -> None:
    round_ = replace(next(decode(0, chain_trees())), **{name: ()})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"tree has 5 rows, but it has 0 {name}"):
        items_of([run_start(), lane_start(0, "medusa"), round_])


def test_a_round_that_accepts_what_is_no_draft_token_is_refused() -> None:
    round_ = next(decode(0, chain_trees()))
    wrong = replace(round_, verdict=replace(round_.verdict, accepted_rows=(9,)))
    with pytest.raises(ValueError, match="accepts a row that is not a draft token"):
        items_of([run_start(), lane_start(0, "medusa"), wrong])


def test_a_row_shows_the_number_its_decision_rests_on() -> None:
    """At temperature 0.8 the tree gave the plain softmax, the card what the run's settings made of
    it: two values of p for one decision."""
    sampling = SamplingParams(temperature=0.8)
    round_ = grown_round(0)
    softmax = (None, 0.2, 0.39, 0.61, 0.6, 0.3)
    round_ = replace(round_, softmax_probs=softmax)

    def shown(sampling: SamplingParams) -> list[float | None]:
        start = lane_start(0, "eagle2", sampling=sampling)
        (tree,) = (i["tree"] for i in items_of([run_start(), start, round_]) if "tree" in i)
        return list(tree["shown_prob"])

    assert shown(sampling) == [None, 0.12, 0.58, None, 0.71, 0.2]  # row 3 was never come to
    assert shown(SamplingParams(temperature=1.0)) == list(softmax)
    assert shown(SamplingParams()) == list(softmax)
    guess = replace(round_, verdict=replace(round_.verdict, target_probs=(None,) * 6))
    start = lane_start(0, "eagle2", sampling=sampling)
    tree = items_of([run_start(), start, guess])[-1]["tree"]
    assert tree["shown_prob"] == [None, 0.12, 0.58, None, 0.71, 0.2]  # found among the odds


def test_a_drafter_without_chances_has_no_q() -> None:
    """Every draft of prompt lookup bore "q 1", which looked like a bug."""
    round_ = next(decode(0, chain_trees()))
    sure = replace(round_, draft_probs=(1.0,) * len(round_.tree))
    for given, expected in ((round_, 0.5), (sure, None)):
        tree = items_of([run_start(), lane_start(0, "prompt_lookup"), given])[-1]["tree"]
        assert tree["draft_prob"][1] == expected


def test_lanes_of_one_drafter_are_told_apart_by_the_knobs_that_differ() -> None:
    """Two lanes were both called "Draft model" in the race and on their cards."""
    specs = (
        LaneSpec("draft_model", (("num_draft_tokens", 2), ("num_layers", 3))),
        LaneSpec("draft_model", (("num_layers", 3),)),
        LaneSpec("lookahead", (("window", 5),)),
    )
    run = run_start()
    run = replace(run, request=replace(run.request, lanes=specs))
    knobs = ({"num_draft_tokens": 2, "num_layers": 3}, {"num_draft_tokens": 5, "num_layers": 3})
    named = [
        replace(lane_start(n, spec.drafter, title=spec.drafter), knobs=given)
        for n, (spec, given) in enumerate(zip(specs, (*knobs, {"window": 5}), strict=True))
    ]
    titles = [tell(i["title"]) for i in items_of([run, *named]) if i["kind"] == "lane"]
    assert titles == ["draft_model, K=2", "draft_model, K=5", "lookahead"]
    other = replace(
        run,
        request=replace(
            run.request, lanes=(LaneSpec("lookahead"), LaneSpec("lookahead", (("window", 5),)))
        ),
    )
    starts = [
        replace(lane_start(n, "lookahead", title="L"), knobs={"window": w})
        for n, w in enumerate((7, 5))
    ]
    assert [tell(i["title"]) for i in items_of([other, *starts])[1:]] == [
        "L, Window: 7",
        "L, Window: 5",
    ]


def test_texts_of_unequal_length_are_ranked_by_time_per_token() -> None:
    """A sampled lane that stopped after 11 tokens was first, before plain decoding's 24."""
    long, short = list(decode(0, plain_trees())), list(decode(1, plain_trees()))[:5]
    short = [replace(r, verify_seconds=2 * r.verify_seconds) for r in short]
    starts = [lane_start(0), lane_start(1, "draft_model")]
    ends = [LaneEnd(n, "stop", "") for n in (0, 1)]
    end = items_of([run_start(), *starts, *long, *short, *ends, RunEnd(1.0)])[-1]
    assert sum(r.seconds for r in short) < sum(r.seconds for r in long)
    assert end["finish_by"] == "rate"
    assert [(f["lane"], f["num_tokens"]) for f in end["finish"]] == [(0, len(long)), (1, 5)]
    fast = [replace(r, lane=1, verify_seconds=r.verify_seconds / 2) for r in long]
    even = items_of([run_start(), *starts, *long, *fast, *ends, RunEnd(1.0)])[-1]
    assert even["finish_by"] == "time"
    assert [f["lane"] for f in even["finish"]] == [1, 0]


def test_only_a_near_tie_is_called_one() -> None:
    round_ = grown_round(0)
    first, second, *more = round_.odds[0].odds
    for gap, is_tie in ((0.0, True), (0.5, False)):
        odds = RowOdds(0, (replace(first, logit=20.0), replace(second, logit=20.0 - gap), *more))
        given = replace(round_, odds=(odds, *round_.odds[1:]))
        tree = items_of([run_start(), lane_start(0, "eagle2"), given])[-1]["tree"]
        assert tree["odds"]["0"]["is_near_tie"] is is_tie
