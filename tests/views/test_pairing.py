"""Whom a lane is compared with: the plain lane of its own model, never that of another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specviz.config import LaneSpec
from specviz.trace import RoundTrace, SessionEvent
from specviz.tree import DraftTree
from specviz.views.stage import StageFeed
from specviz.views.summary import run_summary
from specviz.words import tell
from tests.traces import greedy_verdict, ids, lane_start, round_trace, run_start

TARGETS, TUNED = ids("Reading", " a"), ids("Checking", " several")
NO_PLAIN = "no plain lane of its own model in this race: add one"


def timed(lane: int, tokens: tuple[int, ...], seconds: float) -> RoundTrace:
    """One round that drafts all but the last token and keeps them."""
    tree = DraftTree.chain(9, tokens[:-1])
    round_ = round_trace(tree, greedy_verdict(tree, tokens), lane=lane)
    return replace(round_, draft_seconds=0.0, verify_seconds=seconds, commit_seconds=0.0)


def race(*lanes: tuple[str, str]) -> list[SessionEvent]:
    """(drafter, backbone) each; every lane writes its backbone's two tokens, plain ones in 1 s a
    token for the target and 2 s for the tuned model, drafters in 1 s together."""
    starts, rounds = list[SessionEvent](), list[SessionEvent]()
    for lane, (drafter, backbone) in enumerate(lanes):
        starts.append(replace(lane_start(lane, drafter), backbone=backbone))
        tokens = TUNED if backbone else TARGETS
        if drafter == "autoregressive":
            cost = 2.0 if backbone else 1.0
            rounds += [timed(lane, (token,), cost) for token in tokens]
        else:
            rounds.append(timed(lane, tokens, 1.0))
    return [run_start(), *starts, *rounds]


def versus(events: list[SessionEvent]) -> dict[str, Any]:
    """The last word on each lane."""
    feed, found = StageFeed(), dict[str, Any]()
    for event in events:
        for item in feed.feed(event):
            found |= item.get("versus", {})
    return found


PLAIN, OWN_PLAIN = ("autoregressive", ""), ("autoregressive", "mtp")
MTP, LOOKUP = ("mtp", "mtp"), ("prompt_lookup", "")


@pytest.mark.parametrize(
    "lanes", [(PLAIN, OWN_PLAIN, MTP, LOOKUP), (OWN_PLAIN, PLAIN, MTP, LOOKUP)]
)
def test_each_lane_has_the_plain_lane_of_its_model(lanes: tuple[tuple[str, str], ...]) -> None:
    events = race(*lanes)
    found = versus(events)
    assert set(found) == {"2", "3"}
    assert found["2"]["speedup"] == 4.0
    assert found["3"]["speedup"] == 2.0
    assert {v["agreement"]["state"] for v in found.values()} == {"identical"}
    text = run_summary(events)
    assert "4.00x plain" in text.split("mtp-2")[1].split("prompt_lookup-3")[0]
    assert "2.00x plain" in text.split("prompt_lookup-3")[1]
    assert text.count("identical to plain for 2 tokens") == 2
    assert text.count("guesses written by hand") == 2  # what tuned lanes say of themselves


def test_another_models_plain_lane_is_no_baseline() -> None:
    """Its text differs and its speed is not ours: no speed-up, and a sentence what to do."""
    events = race(PLAIN, MTP, LOOKUP)
    found = versus(events)
    assert found["1"]["speedup"] is found["1"]["rho"] is None
    assert found["1"]["agreement"]["state"] == "unpaired"
    assert found["2"]["speedup"] == 2.0
    text = run_summary(events)
    own, other = text.split("mtp-1")[1].split("prompt_lookup-2")
    assert NO_PLAIN in own
    assert "x plain" not in own
    assert NO_PLAIN not in other


def test_lanes_of_the_target_are_not_compared_with_a_tuned_model() -> None:
    events = race(OWN_PLAIN, MTP, LOOKUP)
    found = versus(events)
    assert found["1"]["speedup"] == 4.0
    assert found["2"]["agreement"]["state"] == "unpaired"
    assert NO_PLAIN in run_summary(events).split("prompt_lookup-2")[1]


def test_without_any_plain_lane_each_lane_says_that_there_is_no_speedup() -> None:
    """A race without plain decoding showed dashes and did not say why."""
    events = race(MTP, LOOKUP)
    found = versus(events)
    assert [v["speedup"] for v in found.values()] == [None, None]
    assert [v["plain"] for v in found.values()] == [None, None]
    said = {key: tell(v["agreement"]["sentence"]) for key, v in found.items()}
    assert said["0"] == NO_PLAIN
    assert said["1"].startswith("no plain lane in this race, so no speed-up can be told")
    assert run_summary(events).count(NO_PLAIN) == 1


def test_a_lane_says_with_whose_model_it_decodes_and_with_whom_it_is_compared() -> None:
    events = race(PLAIN, OWN_PLAIN, MTP, LOOKUP)
    feed = StageFeed()
    items = [item for event in events for item in feed.feed(event)]
    lanes = [item for item in items if item["kind"] == "lane"]
    assert [lane["backbone"] for lane in lanes] == ["", "mtp", "mtp", ""]
    assert [bool(lane["model"]) for lane in lanes] == [False, True, True, False]
    assert tell(lanes[1]["title"]) == "Plain decoding (MTP)"
    assert (versus(events)["2"]["plain"], versus(events)["3"]["plain"]) == (1, 0)
    assert versus(events)["2"]["plain_step"] == 2.0


def test_a_plain_lane_of_a_tuned_model_says_so_once() -> None:
    """It was called "Plain decoding (MTP), What decodes: The model tuned for MTP", and cut."""
    specs = (LaneSpec("autoregressive"), LaneSpec("autoregressive", (("backbone", "mtp"),)))
    run = run_start()
    feed, titles = StageFeed(), list[str]()
    feed.feed(replace(run, request=replace(run.request, lanes=specs)))
    for lane, (drafter, backbone) in enumerate((PLAIN, OWN_PLAIN)):
        start = lane_start(lane, drafter, title="Plain decoding")
        start = replace(start, knobs={"backbone": backbone or "target"}, backbone=backbone)
        titles += [tell(item["title"]) for item in feed.feed(start) if item["kind"] == "lane"]
    assert titles == ["Plain decoding", "Plain decoding (MTP)"]


def test_a_lane_is_of_the_family_whose_picture_it_makes() -> None:
    """MTP and draft models draft chains or trees; traces of before they could hold no such knob."""
    wanted = {
        ("draft_model", None): "chain",
        ("draft_model", 1): "chain",
        ("draft_model", 4): "tree",
        ("mtp", None): "chain",
        ("mtp", 4): "tree",
        ("eagle2", 6): "tree",
        ("medusa", None): "tree",
        ("prompt_lookup", None): "text",
        ("autoregressive", None): "plain",
    }
    for (drafter, top_k), family in wanted.items():
        start = replace(lane_start(0, drafter), knobs={} if top_k is None else {"top_k": top_k})
        feed = StageFeed()
        feed.feed(run_start())
        assert [item["family"] for item in feed.feed(start) if item["kind"] == "lane"] == [family]
