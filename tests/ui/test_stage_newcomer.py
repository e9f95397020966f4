"""What a newcomer tripped over: numbers without a name, text from the future, halts without a word."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specviz.config import SamplingParams
from specviz.trace import LaneEnd, RunEnd, SessionEvent
from specviz.tree import DraftTree
from specviz.words import table, word
from tests.grown import grown_round
from tests.traces import (
    decode,
    greedy_verdict,
    ids,
    lane_start,
    plain_trees,
    round_trace,
    run_start,
)
from tests.ui.stage_harness import (
    ITEMS,
    OPENED,
    items_of,
    lane,
    round_of,
    seek,
    send,
    settle,
    stage_page,
    state,
)

pytestmark = pytest.mark.browser


def one_lane(drafter: str, *rounds: Any, **more: Any) -> list[dict[str, Any]]:
    start = lane_start(0, drafter, title=drafter, **more)
    return items_of([run_start(), start, *rounds, LaneEnd(0, "length", ""), RunEnd(1.0)])


def notes(page: Any) -> list[str]:
    nodes = page.locator(".sv-tree [data-row] .sv-nodenote")
    return [text for text in nodes.all_text_contents() if text]


def test_tree_and_card_show_one_number_for_one_decision(chromium: Any) -> None:
    """At temperature 0.8 the tree said "p .39", the card "p 0.450"."""
    round_ = replace(grown_round(0), softmax_probs=(None, 0.2, 0.39, 0.61, 0.6, 0.3))
    sampling = SamplingParams(temperature=0.8)
    with stage_page(chromium) as page:
        send(page, one_lane("eagle2", round_, sampling=sampling))
        seek(page, round_.seconds)
        assert notes(page)[:5] == [
            "q .67  p .12",
            "q .41  p .58",
            "q .67",
            "q .72  p .71",
            "q .74  p .20",
        ]
        said = page.locator(".sv-cardsentence")
        page.evaluate("stage.go({lane: 0, round: 1, row: 4})")
        settle(page)
        assert "p 0.710 and q 0.720" in said.text_content()
        page.evaluate("stage.go({lane: 0, round: 1, row: 2})")
        settle(page)
        assert "p 0.660" in said.text_content()
        assert (
            page.locator(".sv-cardmore").text_content().endswith(word("stage.p_is_left", p="0.580"))
        )
        page.evaluate("stage.go({lane: 0, round: 1, row: 3})")
        settle(page)
        softmax = word("stage.softmax_said", softmax="0.610")
        assert said.text_content() == word("stage.unreached_said_q", q="0.670") + " " + softmax


def test_a_drafter_without_chances_shows_no_q(chromium: Any) -> None:
    """ "q 1" stood under every draft of prompt lookup."""
    tree = DraftTree.chain(9, ids(" a", " model"))
    round_ = round_trace(tree, greedy_verdict(tree, ids(" a", "'s")))
    round_ = replace(round_, draft_probs=(1.0, 1.0, 1.0), softmax_probs=(None, 0.7, 0.997))
    with stage_page(chromium) as page:
        send(page, one_lane("prompt_lookup", round_))
        seek(page, round_.seconds)
        assert notes(page)[:2] == ["p .70", "p >.99"]
        seek(page, 0.0)
        page.evaluate("stage.go({lane: 0, round: 1, row: 1})")
        seek(page, 0.0)
        assert page.locator(".sv-cardsentence").text_content() == word("stage.pending_said_none")


def test_the_found_span_shows_no_text_that_is_not_written_yet(chromium: Any) -> None:
    """Around a match near the end of the prompt stood the first words of the answer, at the start."""
    tree = DraftTree.chain(9, ids("?", "\n"))
    first = round_trace(tree, greedy_verdict(tree, ids("?", " a")))
    first = replace(first, notes={"match": "2@2"})
    rounds = [
        first,
        *(replace(r, lane=0, index=r.index + 1) for r in list(decode(0, plain_trees()))[:6]),
    ]
    items = one_lane("prompt_lookup", *rounds)
    prompt = items[0]["prompt_tokens"]
    with stage_page(chromium) as page:
        send(page, items)
        seek(page, 0)
        assert page.locator(".sv-token").count() == 0
        shown = page.locator(".sv-word").all_text_contents()
        assert shown == prompt[-len(shown) :]


def test_q_and_p_are_explained_in_the_legend_which_is_open_where_it_fits(chromium: Any) -> None:
    for width, is_open in ((1248, True), (700, False)):
        with stage_page(chromium, width=width) as page:
            send(page, ITEMS)
            seek(page, 0)
            legend = page.locator(".sv-legend")
            assert legend.evaluate("(node) => node.open") is is_open
            if is_open:
                assert word("stage.q_and_p") in legend.inner_text()
                lines = """(all) => new Set(all.map((n) => n.getBoundingClientRect())
                  .map((box) => Math.round((box.top + box.bottom) / 20))).size"""
                assert legend.locator(".sv-legenditem").evaluate_all(lines) == 2


def test_the_opening_says_why_it_halts(chromium: Any) -> None:
    """It stood still after 0.118 s without a word."""
    with stage_page(chromium) as page:
        send(page, ITEMS)
        page.wait_for_function("stage.state().isPlaying")
        assert page.locator(".sv-halted").text_content() == ""
        page.wait_for_function("!stage.state().isPlaying", timeout=20_000)
        settle(page)
        key, n = "stage.opened_refusal", OPENED + 1
        assert page.locator(".sv-halted").text_content() == word(key, n=n)
        page.evaluate("words.choose('zh')")
        settle(page)
        assert page.locator(".sv-halted").text_content() == word(key, "zh", n=n)
        seek(page, 0)
        assert page.locator(".sv-halted").text_content() == ""


def test_no_pace_is_called_like_a_speed_up(chromium: Any) -> None:
    with stage_page(chromium) as page:
        send(page, ITEMS)
        options = page.locator(".sv-choices select").first.locator("option").all_text_contents()
        assert len(options) == 7
        assert not [text for text in options if "×" in text or "x" in text]


def test_a_run_that_a_person_opened_has_the_keys(chromium: Any) -> None:
    """After a click outside, Home and arrows did nothing and Space scrolled the page."""
    with stage_page(chromium) as page:
        page.evaluate("document.querySelector('#host').prepend(document.createElement('button'))")
        acted = "(is) => Object.defineProperty(navigator, 'userActivation', {value: {hasBeenActive: is}, configurable: true})"
        page.evaluate(acted, False)  # the browser counts what a test does as a person's act
        send(page, ITEMS)
        settle(page)
        focused = "document.activeElement === document.querySelector('.sv')"
        assert not page.evaluate(focused)  # the page opened it by itself
        assert not page.locator(".sv-keyhint").is_visible()
        page.evaluate(acted, True)
        page.locator("#host > button").click()
        send(page, ITEMS, run="r2")
        settle(page)
        assert page.evaluate(focused)
        assert page.locator(".sv-keyhint").is_visible()
        page.keyboard.press("End")
        assert state(page)["time"] == state(page)["end"]


def test_whoever_writes_keeps_the_focus_when_a_run_comes(chromium: Any) -> None:
    with stage_page(chromium) as page:
        page.evaluate("document.querySelector('#host').prepend(document.createElement('input'))")
        page.locator("#host > input").click()
        send(page, ITEMS)
        settle(page)
        assert page.evaluate("document.activeElement.matches('#host > input')")


def test_a_click_anywhere_in_the_stage_gives_it_the_keys(chromium: Any) -> None:
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, 0)
        for target in (".sv-sentence >> nth=0", ".sv-facts", ".sv-settings input >> nth=3"):
            if "settings" in target:
                page.get_by_role("button", name=word("stage.settings")).click()
            page.locator(target).click()
            page.keyboard.press("End")
            assert state(page)["time"] == state(page)["end"], target
            page.keyboard.press("Home")
            assert state(page)["time"] == 0, target


def test_nothing_below_the_card_moves_while_nodes_are_pointed_at(chromium: Any) -> None:
    """The mask went up by a line whenever a node was pointed at."""
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, round_of(1, 0)["at"][3])
        top = "document.querySelector('.sv-mask').getBoundingClientRect().top"
        before = page.evaluate(top)
        for row in (0, 1, 4, -1):
            lane(page, 1).locator(f'.sv-tree [data-row="{row}"] rect').first.hover()
            settle(page)
            assert page.evaluate(top) == before


def test_a_round_that_kept_all_dropped_nothing(chromium: Any) -> None:
    """It said "the others dropped" where there were none."""
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, round_of(0, 0)["at"][3])
        assert lane(page, 0).locator(".sv-cachewords").text_content() == "1 row written, all kept"


def test_a_saved_picture_says_what_it_shows(chromium: Any) -> None:
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, round_of(1, 1)["at"][3])
        read = """() => { const p = stage.picture();
          return [p.lastElementChild.textContent, Number(p.getAttribute("height")), p.getAttribute("viewBox")]; }"""
        caption, height, box = page.evaluate(read)
        title = lane(page, 1).locator(".sv-title").text_content()
        assert caption == f"{title}, round 2 · hand-made, greedy · 2026-01-02"
        assert box.endswith(f" {height:g}")


def test_places_of_texts_of_unequal_length_are_explained(chromium: Any) -> None:
    plain = list(decode(0, plain_trees()))
    events: list[SessionEvent] = [run_start(), lane_start(0), lane_start(1, "draft_model"), *plain]
    events += [*(replace(r, lane=1) for r in plain[:5])]
    events += [LaneEnd(0, "length", ""), LaneEnd(1, "stop", ""), RunEnd(1.0)]
    for items, is_said in ((items_of(events), True), (ITEMS, False)):
        with stage_page(chromium) as page:
            send(page, items)
            page.evaluate("stage.seek(stage.state().end)")
            settle(page)
            assert (
                word("stage.finish_by_rate") in page.locator(".sv-racenote").text_content()
            ) is is_said


def test_the_focus_ring_of_a_tree_is_drawn_whole(chromium: Any) -> None:
    """The tree's own ring was cut off by its box at top and left."""
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, round_of(1, 0)["at"][3])
        page.keyboard.press("Tab")  # a ring is drawn for those who use keys
        lane(page, 1).locator(".sv-tree").focus()
        ring = "(node) => getComputedStyle(node).outlineStyle"
        assert lane(page, 1).locator(".sv-tree").evaluate(ring) == "none"
        box = lane(page, 1).locator(".sv-treebox")
        assert box.evaluate(ring) == "solid"
        assert box.evaluate("(node) => getComputedStyle(node.parentElement).overflow") == "visible"


MEANINGS = ("term", "figure_title", "promise_title.text", "row_path_title", "cache_title", "speed")


def test_by_tab_alone_every_word_says_once_what_it_means(chromium: Any) -> None:
    """What the expert's words mean stood in `title` alone: neither keys nor a finger came to it."""
    told = [key for key in table("en") if key.removeprefix("stage.").startswith(MEANINGS)]
    wanted = {word(key) for key in told if not key.startswith("stage.speed.")}
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, round_of(2, 1)["at"][3])
        page.evaluate("stage.go({lane: 2, round: 2, row: 3})")
        settle(page)
        page.locator(".sv").focus()
        read: list[str] = []
        for _ in range(120):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.matches('.sv, body')"):
                break
            read += page.locator(".sv-meaning").all_text_contents()
        lanes = [text for text in read if text.startswith(word("stage.term.lane"))]
        assert len(lanes) == 4  # one for each, with what its name does
        assert wanted - {*read, word("stage.term.lane")} == set()
        assert all(read.count(words) <= 1 for words in wanted)


def test_words_shown_to_a_key_go_away_before_what_is_pinned(chromium: Any) -> None:
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, round_of(2, 1)["at"][3])
        lane(page, 2).locator('.sv-tree [data-row="1"]').click()
        term = lane(page, 2).locator(".sv-figure .sv-term").first
        term.focus()
        page.keyboard.press("Enter")
        box = page.locator(".sv-meaning")
        assert box.text_content() == word("stage.figure_title.speedup")
        assert term.get_attribute("aria-expanded") == "true"
        assert term.get_attribute("aria-describedby") == box.get_attribute("id")
        assert not state(page)["isPlaying"]
        page.keyboard.press("Escape")
        assert box.count() == 0
        assert term.get_attribute("aria-expanded") == "false"
        assert lane(page, 2).locator('[data-lit="self"]').count() == 1
        page.keyboard.press("Escape")
        settle(page)
        assert lane(page, 2).locator('[data-lit="self"]').count() == 0


def test_a_mouse_reads_what_a_word_means_without_a_press(chromium: Any) -> None:
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, 0)
        page.locator(".sv-phase[data-part=verify]").first.hover()
        box = page.locator(".sv-meaning")
        box.wait_for()
        assert box.text_content() == word("stage.term.verify")
        box.hover()  # there is time to come to the box, and to read it there
        page.wait_for_timeout(500)
        assert box.is_visible()
        page.mouse.move(5, 5)
        box.wait_for(state="detached")


def test_a_lane_that_never_drafts_reserves_no_room_for_drafts(chromium: Any) -> None:
    """Plain lanes stood as tall as those with trees, most of it empty."""
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, round_of(0, 0)["at"][3])
        box = lane(page, 0).locator(".sv-treebox").bounding_box()
        node = lane(page, 0).locator('.sv-tree [data-row="0"] rect').first.bounding_box()
        assert box["height"] < 2.5 * node["height"]
        end = lane(page, 0).locator(".sv-pair").bounding_box()
        last = lane(page, 0).locator(".sv-strip").bounding_box()
        assert end["y"] + end["height"] - last["y"] - last["height"] < 24


def test_who_goes_about_by_keys_keeps_the_focus_when_a_run_comes(chromium: Any) -> None:
    """Run was pressed by a key; the stage must not take the focus from Stop, which took its place."""
    with stage_page(chromium) as page:
        page.evaluate("document.querySelector('#host').prepend(document.createElement('button'))")
        page.keyboard.press("Tab")
        page.locator("#host > button").focus()
        send(page, ITEMS)
        settle(page)
        assert page.evaluate("document.activeElement.matches('#host > button')")
