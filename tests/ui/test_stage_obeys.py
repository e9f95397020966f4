"""The stage shows what it is given and decides nothing, and its keys work wherever they may be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specviz.words import tell
from tests.grown import sampled_run
from tests.ui.stage_harness import (
    ENDS,
    ITEMS,
    items_of,
    lane,
    round_of,
    seek,
    send,
    settle,
    stage_page,
)

pytestmark = pytest.mark.browser
LEAD = 1


def changed(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The run with figures and outcomes that contradict its own rounds."""
    made: list[dict[str, Any]] = json.loads(json.dumps(items))
    for item in made:
        for versus in (item.get("versus") or {}).values():
            versus |= {"speedup": 3.21, "rho": 8.88, "outcome": "slower"}
        if item["kind"] != "round" or item["lane"] != LEAD:
            continue
        total, tree = item["total"], item["tree"]
        total |= {"tau": 7.77, "accepted_per_round": 6.66, "acceptance_rate": 0.555}
        total |= {"num_drafted": 9000, "num_accepted": 4321, "tokens_per_second": 1234.5}
        tree["status"] = [{"accepted": "rejected"}.get(s, s) for s in tree["status"]]
        tree["draft_prob"] = [0.123 for _ in tree["draft_prob"]]
    return made


def test_figures_and_outcomes_are_the_items_own(chromium: Any) -> None:
    """Worked out from rounds, trees or seconds, they would be others."""
    with stage_page(chromium) as page:
        send(page, changed(ITEMS))
        seek(page, ENDS[-1])
        figures = lane(page, LEAD).locator(".sv-figures").inner_text()
        for told in ("3.21x", "7.77", "4321 / 9000 (56%)", "1234.5"):
            assert told in figures
        numbers = page.locator(".sv-numbers").inner_text()
        for told in ("Slower here (3.21x plain)", "8.88", "6.66"):
            assert told in numbers
        looks = lane(page, LEAD).locator(".sv-node[data-row]").evaluate_all(
            "(nodes) => nodes.map((n) => n.getAttribute('data-look'))"
        )  # fmt: skip
        assert "accepted" not in looks
        assert "rejected" in looks
        assert "q .12" in lane(page, LEAD).locator(".sv-tree").inner_html()


def test_the_keys_go_on_after_the_scrub_bar_and_the_choices_were_used(chromium: Any) -> None:
    """A drag left the focus on the bar: Space and R did nothing, arrows moved a ten-thousandth."""
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, ENDS[0])
        page.locator(".sv-scrub").click(position={"x": 2, "y": 6})
        page.keyboard.press("Home")
        settle(page)
        page.keyboard.press("Shift+ArrowRight")
        settle(page)
        assert page.evaluate("stage.place().round") == 1
        page.keyboard.press("End")
        settle(page)
        assert page.evaluate("stage.state().time") == pytest.approx(ENDS[-1])
        page.keyboard.press("Home")
        page.keyboard.press(" ")
        assert page.evaluate("stage.state().isPlaying")
        page.keyboard.press(" ")
        assert not page.evaluate("stage.state().isPlaying")
        chooser = page.locator(".sv-choices select").last
        choose = "(n) => { n.focus(); n.value = 'passes'; n.dispatchEvent(new Event('change')); }"
        chooser.dispatch_event("pointerdown")
        chooser.evaluate(choose)
        page.keyboard.press("?")
        assert page.locator(".sv-help").is_visible()
        chooser.focus()
        page.keyboard.press("ArrowUp")  # who goes by keys stays on it
        chooser.evaluate(choose)
        assert chooser.evaluate("(n) => n === document.activeElement")


def test_a_guess_that_was_chosen_says_why_its_own_chance_does_not_enter(chromium: Any) -> None:
    """The tree told q .46, and the card reckoned with q 1.000, without a word."""
    items = items_of(sampled_run())
    for item in items:
        if item["kind"] == "round":
            for odds in item["tree"]["odds"].values():
                for token in odds["tokens"]:
                    token[3] = None  # chosen: nothing was drawn from these chances
            for trial in item["tree"]["trials"].values():
                trial["draft_prob"] = 1.0
    with stage_page(chromium) as page:
        send(page, items)
        seek(page, 0.0417)
        page.evaluate("stage.go({lane: 0, round: 1, row: 1})")
        settle(page)
        card = page.locator(".sv-card").inner_text()
        assert "The drafter thought 0.670 of this guess, but chose it" in card
        assert "so q counts as 1" in card
    with stage_page(chromium) as page:
        send(page, items_of(sampled_run()))
        seek(page, 0.0417)
        page.evaluate("stage.go({lane: 0, round: 1, row: 1})")
        settle(page)
        assert "q counts as 1" not in page.locator(".sv-card").inner_text()


def test_a_place_keeps_the_pin_in_its_round_and_the_playhead_in_its_phase(chromium: Any) -> None:
    """A pin in round 1 and a playhead in round 3 came back as a pin on another token."""
    with stage_page(chromium) as page:
        send(page, ITEMS)
        page.evaluate(f"stage.go({{lane: {LEAD}, round: 1, row: 1, axis: 'time'}})")
        settle(page)
        text = page.locator(".sv-cardtoken").inner_text()
        for _ in range(3):
            page.locator(".sv").press("Shift+ArrowRight")
        page.locator(".sv").press("ArrowRight")
        settle(page)
        place = page.evaluate("stage.place()")
        assert place["pin"] == [LEAD, 1, 1]
        assert place["round"] > 1
        assert place["phase"] in ("draft", "verify", "commit")
    with stage_page(chromium) as page:
        send(page, ITEMS)
        page.evaluate("(place) => stage.go(place)", place)
        settle(page)
        found = page.evaluate("stage.place()")
        assert {k: found[k] for k in ("round", "phase", "pin")} == {
            k: place[k] for k in ("round", "phase", "pin")
        }
        assert page.locator(".sv-cardtoken").inner_text() == text


def test_keys_in_the_text_are_spoken_and_leave_no_preview_behind(chromium: Any) -> None:
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, ENDS[-1])
        page.evaluate(f"stage.go({{lane: {LEAD}, round: 1, row: 1}})")
        settle(page)
        pinned = page.locator(".sv-card").inner_text()
        lane(page, LEAD).locator(".sv-strip").focus()
        page.keyboard.press("ArrowUp")
        settle(page)
        assert page.locator(".sv-spoken").text_content()
        assert page.locator(".sv-card").inner_text() != pinned
        page.keyboard.press("Tab")
        settle(page)
        assert page.locator(".sv-card").inner_text() == pinned


def test_each_phase_that_is_stepped_to_is_spoken(chromium: Any) -> None:
    """Only rounds that were over were told, so steps within one were silent."""
    item = round_of(LEAD, 1)
    spoken = list[str]()
    with stage_page(chromium) as page:
        send(page, ITEMS)
        page.evaluate(f"stage.go({{lane: {LEAD}, round: 1, row: 1}})")
        for moment in item["at"][1:]:
            seek(page, moment)
            settle(page)
            spoken.append(str(page.locator(".sv-spoken").text_content()))
    drafted, rows = item["num_drafted"], item["rows_written"]
    assert spoken[0].endswith(f"Round 2, draft over: {drafted} tokens drafted, none checked yet.")
    assert spoken[1].endswith(f"Round 2, verify over: one pass of the target has read {rows} rows.")
    assert spoken[2].endswith(tell(item["sentence"]))
