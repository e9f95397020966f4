"""One drafter in several lanes, and the plain lane of a tuned model: what the form asks for, and
how a visitor asks for it. The browser's part in Chromium."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specviz.config import Catalog, DrafterInfo, Knob, LaneSpec
from specviz.ui.lanes import all_lanes, own_backbones, with_baselines
from specviz.ui.reading import read_request
from specviz.words import word
from tests.ui.serving import opened, served
from tests.ui.sessions import CATALOG, SlowSession
from tests.ui.visiting import PROMPT, link_of, run_to_the_end, saying, unfold

BACKBONE = Knob("backbone", "What decodes.", "target", choices=("target", "mtp"))
TUNED = replace(
    CATALOG,
    drafters=(
        replace(CATALOG.drafters[0], knobs=(BACKBONE,)),
        *CATALOG.drafters[1:],
        DrafterInfo("mtp", "MTP", "Drafts with a module tuned beside its model.", "a test"),
    ),
)
OWN = {"drafter": "draft_model", "knobs": {"num_draft_tokens": 8}}


class TunedSession(SlowSession):
    def catalog(self) -> Catalog:
        return TUNED


def asked(**fields: object) -> tuple[LaneSpec, ...]:
    made = with_baselines({"prompt": "hello", **fields}, TUNED)
    return read_request(made, TUNED).lanes


def test_own_lanes_stand_behind_the_ticked_one_of_their_drafter() -> None:
    other = {"drafter": "mtp", "knobs": {}}
    ticked = ["autoregressive", "draft_model", "lookahead"]
    assert all_lanes(ticked, [other, OWN]) == [
        "autoregressive", "draft_model", OWN, "lookahead", other,
    ]  # fmt: skip
    assert all_lanes(ticked, None) == ticked


@pytest.mark.parametrize(
    ("ticked", "own"),
    [("draft_model", [OWN]), (["draft_model"], "x"), (["draft_model"], [3]), ([[]], [OWN])],
)
def test_own_lanes_that_are_none_are_refused_in_words(ticked: object, own: object) -> None:
    with pytest.raises(ValueError, match=r"lanes"):
        read_request({"prompt": "hello", "lanes": all_lanes(ticked, own)}, CATALOG)


def test_a_drafter_with_a_tuned_model_brings_that_models_plain_lane() -> None:
    """Its speed-up was shown against nothing, as no lane decoded plainly with the same model."""
    assert own_backbones(TUNED) == ("mtp",)
    plain = LaneSpec("autoregressive", (("backbone", "mtp"),))
    assert asked(lanes=["autoregressive", "mtp"]) == (
        LaneSpec("autoregressive"), LaneSpec("mtp"), plain,
    )  # fmt: skip
    assert asked(lanes=["autoregressive", "lookahead"]) == (
        LaneSpec("autoregressive"), LaneSpec("lookahead"),
    )  # fmt: skip


def test_a_plain_lane_that_is_there_is_not_added_again() -> None:
    own = {"drafter": "autoregressive", "knobs": {"backbone": "mtp"}}
    assert len(asked(lanes=["autoregressive", "mtp", own])) == 3
    knobs = {"autoregressive": {"backbone": "mtp"}}
    assert len(asked(lanes=["autoregressive", "mtp"], knobs=knobs)) == 2
    assert with_baselines({"lanes": "mtp"}, TUNED) == {"lanes": "mtp"}


@pytest.mark.browser
def test_one_drafter_races_itself_and_the_link_says_so(
    chromium: Any, page: Any, url: str, session: SlowSession
) -> None:
    unfold(page)
    page.click(".specviz-add-lane > summary")
    page.click(".specviz-add-lane [data-drafter=draft_model]")
    box = page.locator(".specviz-own-lane")
    assert box.locator("input[type=number]").first.input_value() == "8"
    box.locator("input[type=number]").first.fill("2")
    box.locator("input[type=checkbox]").check()
    assert "2" in box.locator("summary").inner_text()
    run_to_the_end(page, "twice")
    lanes = session.requests[0].lanes
    assert lanes == (
        LaneSpec("autoregressive"),
        LaneSpec("draft_model"),
        LaneSpec("draft_model", (("is_adaptive", True), ("num_draft_tokens", 2))),
        LaneSpec("prompt_lookup"),
        LaneSpec("lookahead"),
    )
    with opened(chromium, url, query=link_of(page).removeprefix(url)) as other:
        saying(other, "Press Run")
        other.wait_for_selector(".specviz-own-lane", state="attached")
        other.wait_for_function(  # Gradio adopts the link's prompt later than the page its lanes
            "(box) => document.querySelector(box).value === 'twice'", arg=PROMPT
        )
        run_to_the_end(other, "twice")
    assert session.requests[1] == session.requests[0]


@pytest.mark.browser
def test_a_lane_of_ones_own_can_be_taken_away(page: Any, session: SlowSession) -> None:
    unfold(page)
    page.click(".specviz-add-lane > summary")
    page.click(".specviz-add-lane [data-drafter=draft_model]")
    page.click(f".specviz-own-lane >> text={word('page.remove_lane')}")
    assert page.locator(".specviz-own-lane").count() == 0
    run_to_the_end(page, "once")
    assert len(session.requests[0].lanes) == 4


@pytest.mark.browser
def test_the_page_says_that_a_tuned_models_plain_lane_runs_too(chromium: Any) -> None:
    session = TunedSession(seconds=0.01)
    with served(session) as url, opened(chromium, url) as page:
        unfold(page)
        page.wait_for_selector("#specviz-tuned-note")  # it is among the first lanes here
        run_to_the_end(page, "tuned")
    assert session.requests[0].lanes[-1] == LaneSpec("autoregressive", (("backbone", "mtp"),))
