"""How the stage plays: opening, stepping, following a live run, runs that replace one another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from specviz.trace import Progress
from tests.ui.stage_harness import (
    ENDS,
    ITEMS,
    OPENED,
    envelope,
    items_of,
    lane,
    round_of,
    seek,
    send,
    stage_page,
    state,
)

pytestmark = pytest.mark.browser
# Elements only: Chromium smooths a canvas that was read back otherwise than one that was not.
VISIBLE = """() => {
  const body = document.querySelector(".sv-body");
  const copy = body.cloneNode(true);
  const hidden = "[display=none], [style*='display: none'], [data-look=hidden], [hidden]";
  copy.querySelectorAll(hidden).forEach((n) => n.remove());
  return copy.outerHTML.replaceAll(' style=""', "");
}"""


@pytest.fixture
def stage(chromium: Any) -> Iterator[Any]:
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, 0)
        yield page


def test_a_recorded_run_opens_by_itself_and_waits_where_kept_and_refused_are_seen(
    chromium: Any,
) -> None:
    with stage_page(chromium) as page:
        send(page, ITEMS)
        page.wait_for_function("stage.state().isPlaying")
        page.wait_for_function("!stage.state().isPlaying", timeout=20_000)
        assert state(page)["time"] == round_of(1, OPENED)["at"][3]
        shown = page.locator("[data-lead='true'] .sv-treepanel [data-row]")
        told = set(shown.evaluate_all("(all) => all.map((node) => node.dataset.look)"))
        assert {"accepted", "rejected"} <= told
        assert page.get_by_role("button", name="Play").get_attribute("data-invites") == "true"


def test_with_reduced_motion_nothing_moves_by_itself(chromium: Any) -> None:
    with stage_page(chromium, calm=True) as page:
        send(page, ITEMS)
        page.wait_for_selector(".sv-lane")
        assert state(page) == {
            "run": "r1",
            "time": round_of(1, OPENED)["at"][3],
            "end": ENDS[-1],
            "isPlaying": False,
            "isFollowing": False,
        }


def test_the_screen_is_a_function_of_the_playhead(stage: Any) -> None:
    moments = [0.0, ENDS[3], ENDS[10] + 0.003, 0.2, ENDS[-1]]
    first = []
    for moment in moments:
        seek(stage, moment)
        first.append(stage.evaluate(VISIBLE))
    for index in (4, 1, 3, 0, 2):
        seek(stage, moments[index])
        assert stage.evaluate(VISIBLE) == first[index]
    assert len(set(first)) == len(first)


def test_steps_go_by_phase_and_by_round_of_the_explained_lane(stage: Any) -> None:
    stage.locator(".sv").focus()
    rounds = [round_of(1, i)["at"] for i in range(3)]
    for stop in (*rounds[0][1:], *rounds[1][1:]):
        stage.keyboard.press("ArrowRight")
        assert state(stage)["time"] == stop
    stage.keyboard.press("ArrowLeft")
    assert state(stage)["time"] == rounds[1][2]
    stage.keyboard.press("Shift+ArrowRight")
    stage.keyboard.press("Shift+ArrowRight")
    assert state(stage)["time"] == rounds[2][3]
    stage.keyboard.press("Shift+ArrowLeft")
    assert state(stage)["time"] == rounds[1][3]
    stage.keyboard.press("1")  # the plain lane: it has no draft to stop at
    stage.keyboard.press("Home")
    stage.keyboard.press("ArrowRight")
    assert state(stage)["time"] == round_of(0, 0)["at"][2]
    stage.keyboard.press("End")
    assert state(stage)["time"] == ENDS[-1]
    stage.keyboard.press("Home")
    assert state(stage)["time"] == 0
    stage.keyboard.press(" ")
    assert state(stage)["isPlaying"]
    stage.keyboard.press(" ")
    assert not state(stage)["isPlaying"]


def test_keys_find_the_next_refusal_and_the_best_round(stage: Any) -> None:
    stage.locator(".sv").focus()
    refused = [i for i in range(15) if round_of(1, i)["outcome"] in ("none", "some")]
    for index in refused[:3]:
        stage.keyboard.press("r")
        assert state(stage)["time"] == round_of(1, index)["at"][3]
    stage.keyboard.press("b")
    best = max(range(15), key=lambda i: (len(round_of(1, i)["new"]["text"]), -i))
    assert state(stage)["time"] == round_of(1, best)["at"][3]


def test_keys_act_only_while_the_stage_has_the_focus(stage: Any) -> None:
    stage.evaluate("document.querySelector('#host').prepend(document.createElement('input'))")
    stage.locator("#host > input").focus()
    stage.keyboard.press("ArrowRight")
    stage.keyboard.press("r")
    assert state(stage)["time"] == 0
    stage.locator(".sv-speed, .sv-select").first.focus()
    stage.keyboard.press("End")
    assert state(stage)["time"] == 0


def test_on_every_axis_the_lanes_stand_where_the_axis_says(stage: Any) -> None:
    stage.select_option(".sv-select >> nth=1", "passes")
    seek(stage, 3)
    passes = stage.locator(".sv-figure[data-name=passes] dd").all_text_contents()
    assert passes == ["3", "3", "3", "3"]
    stage.select_option(".sv-select >> nth=1", "tokens")
    seek(stage, 50)
    assert stage.locator(".sv-racecount").all_text_contents() == ["50 tokens"] * 4
    stage.select_option(".sv-select >> nth=1", "time")
    assert state(stage)["time"] == round_of(1, 14)["at"][3]


def test_envelopes_are_taken_once_and_in_order(chromium: Any) -> None:
    head, rounds = ITEMS[:5], ITEMS[5:]
    with stage_page(chromium) as page:
        send(page, head, seq=0, source="live")
        send(page, rounds[2:4], seq=2, source="live")
        page.wait_for_selector(".sv-error:not([hidden])")
        assert "Part 2 of this run has not arrived" in page.get_by_role("alert").inner_text()
        assert state(page)["end"] == 0
        for _ in range(2):
            send(page, rounds[:2], seq=1, source="live")
        assert page.locator(".sv-error").is_hidden()
        assert state(page)["end"] == max(r["at"][3] for r in rounds[:4])
        seek(page, 9.0)
        assert lane(page, 0).locator(".sv-token").count() == 1


def test_a_live_run_is_followed_until_the_viewer_takes_over(chromium: Any) -> None:
    with stage_page(chromium) as page:
        send(page, ITEMS[:40], seq=0, source="live")
        page.wait_for_function("stage.state().time > 0.1")
        assert state(page)["isFollowing"]
        page.get_by_role("button", name="One round back").click()
        before = state(page)["time"]
        send(page, ITEMS[40:60], seq=1, source="live")
        page.wait_for_timeout(200)
        assert state(page)["time"] == before
        page.get_by_role("button", name="Live").click()
        page.wait_for_function(f"stage.state().time > {before} + 0.1")


def test_playing_with_reduced_motion_cuts_from_round_to_round(chromium: Any) -> None:
    with stage_page(chromium, calm=True) as page:
        send(page, ITEMS)
        seek(page, 0)
        page.get_by_role("button", name="Play").click()
        seen = page.evaluate(
            """() => new Promise((done) => {
              const seen = new Set();
              const timer = setInterval(() => seen.add(stage.state().time), 5);
              setTimeout(() => { clearInterval(timer); done([...seen]); }, 2500);
            })"""
        )
        assert len(seen) >= 3
        assert set(seen) <= {0, *ENDS}


def test_a_recording_cut_short_ends_where_its_last_envelope_ends(chromium: Any) -> None:
    """The player waited for ever for the next round of a trace without a run_end."""
    with stage_page(chromium) as page:
        text = envelope(ITEMS[:20]).replace('"v": 1', '"v": 1, "last": true')
        page.evaluate("(text) => stage.receive(text)", text)
        seek(page, state(page)["end"] - 0.001)
        page.select_option(".sv-select >> nth=0", "true")
        page.locator(".sv").focus()
        page.keyboard.press(" ")
        page.wait_for_function("!stage.state().isPlaying", timeout=5000)
        assert state(page)["time"] == state(page)["end"]


def test_a_new_run_replaces_the_picture_only_when_it_starts(chromium: Any) -> None:
    with stage_page(chromium) as page:
        send(page, ITEMS, run="old")
        page.evaluate("stage.pending('Sent. Waiting for an answer.')")
        assert page.get_by_role("status").inner_text() == "Sent. Waiting for an answer."
        waits = items_of([Progress("queued", "2 runs before yours.", 2)])
        send(page, waits, run="new", source="live")
        assert page.locator(".sv-notice").inner_text() == "2 runs before yours."
        seek(page, ENDS[4])
        assert (state(page)["run"], state(page)["time"]) == ("old", ENDS[4])
        fetches = items_of([Progress("fetch", "Fetching.", 30, 90)])
        send(page, fetches, run="new", seq=1, source="live")
        assert page.locator("progress").evaluate("(bar) => bar.value / bar.max") == 30 / 90
        send(page, ITEMS[:7], run="new", seq=2, source="live")
        assert state(page)["run"] == "new"
        assert page.locator(".sv-notice").is_hidden()
        send(page, ITEMS[7:], run="old", seq=1)
        assert state(page)["end"] == max(r["at"][3] for r in ITEMS[5:7])


def test_a_stopped_run_stays_playable_and_says_so(chromium: Any) -> None:
    with stage_page(chromium) as page:
        send(page, ITEMS[:30], source="live")
        page.evaluate("stage.interrupted('Stopped.')")
        assert page.get_by_role("alert").inner_text() == "Stopped."
        seek(page, ENDS[8])
        assert lane(page, 1).locator(".sv-token").count() > 0
        assert page.locator(".sv-live").is_hidden()


def test_a_newer_envelope_is_refused_with_a_sentence(chromium: Any) -> None:
    with stage_page(chromium) as page:
        page.evaluate("(text) => stage.receive(text)", envelope([]).replace('"v": 1', '"v": 2'))
        assert "reload" in page.get_by_role("alert").inner_text()
