"""What the stage tells of one round: growth and cut, the card of a decision, window, pool, match."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from specviz.trace import LaneEnd, RunEnd
from specviz.tree import DraftTree
from specviz.views.tokens import glyphs
from specviz.words import word
from tests.grown import grown_round, sampled_run
from tests.traces import (
    VOCABULARY,
    greedy_verdict,
    ids,
    lane_start,
    round_trace,
    run_start,
)
from tests.ui.stage_harness import (
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
END = sum((0.0125, 0.028, 0.0012))


@pytest.fixture
def grown(chromium: Any) -> Iterator[Any]:
    with stage_page(chromium) as page:
        send(page, items_of(sampled_run()))
        seek(page, 0)
        yield page


def go(page: Any, **place: Any) -> None:
    page.evaluate("(place) => stage.go(place)", place)
    settle(page)


def looks(page: Any) -> dict[int, str]:
    read = """(nodes) => nodes.filter((n) => n.style.display !== "none")
      .map((n) => [Number(n.dataset.row), n.dataset.look])"""
    found = page.locator(".sv-tree [data-row]").evaluate_all(read)
    return {row: look for row, look in found if row >= 0}


def note(page: Any, row: int) -> str:
    node = page.locator(f'.sv-tree [data-row="{row}"] .sv-nodenote')
    return str(node.text_content())


def card(page: Any) -> dict[str, str]:
    names = {"title": "cardtitle", "facts": "cardfacts", "said": "cardsentence", "more": "cardmore"}
    return {key: str(page.locator(f".sv-{n}").text_content()) for key, n in names.items()}


def test_a_drafter_grows_ranks_and_cuts_on_its_own_clock(grown: Any) -> None:
    seek(grown, 0.0041)
    assert {row for row, look in looks(grown).items() if look == "pending"} == {1, 2, 6}
    seek(grown, 0.0076)
    assert {row for row, look in looks(grown).items() if look == "pending"} == {
        *(1, 2, 3, 4),
        *(6, 7, 8, 9),
    }
    seek(grown, 0.0115)
    assert set(looks(grown).values()) == {"root", "pending"}
    assert (note(grown, 3), note(grown, 6)) == ("#2 s -0.80", "#7 s -2.60")
    seek(grown, 0.0125)
    assert {row for row, look in looks(grown).items() if look == "ghost"} == set(range(6, 13))
    assert note(grown, 3) == "q .67"


def test_one_pass_gives_every_row_the_targets_number_and_counts_one(grown: Any) -> None:
    passes = grown.locator('.sv-figure[data-name="passes"] dd')
    seek(grown, 0.03)
    assert {looks(grown)[row] for row in range(1, 6)} == {"checking"}
    assert passes.text_content() == "0"
    seek(grown, 0.0405)
    assert {looks(grown)[row] for row in range(1, 6)} == {"checked"}
    assert [note(grown, row) for row in range(1, 6)] == [
        *("q .67  p .12", "q .41  p .58", "q .67  p .61"),
        *("q .72  p .71", "q .74  p .20"),
    ]
    assert passes.text_content() == "1"


def test_the_card_of_a_refusal_shows_the_draw_and_both_sides(grown: Any) -> None:
    go(grown, lane=0, round=1, row=1)
    said = card(grown)
    assert "refused" in said["title"]
    assert said["facts"] == f"round 1 · row 1 · depth 1 · position 6 · id {ids(' a')[0]} · path 0"
    assert said["said"] == (
        "Draw 0.810 is not below 0.179 = min(1, p/q), with p 0.120 and q 0.670: refused."
    )
    assert said["more"] == (
        f"The drafter's score -0.400, rank 1 of 12 candidates. {word('stage.then_rest')}"
    )
    at = "(node) => [node.style.left, node.style.width]"
    assert grown.locator(".sv-linedraw").evaluate(at)[0] == "81%"
    assert grown.locator(".sv-linekept").evaluate(at)[1] == "17.9%"
    rows = grown.locator(".sv-barrow").evaluate_all("(all) => all.map((r) => r.innerText)")
    assert [row.split() for row in rows] == [
        ["0.410", "␣one", "0.580"],
        ["0.670", "␣a", "0.120"],
        ["0.070", "␣cheap", "0.100"],
    ]
    assert grown.locator('.sv-barrow[data-chosen="true"] .sv-bartoken').text_content() == "␣a"


def test_a_decision_can_be_drawn_again_from_its_own_odds(grown: Any) -> None:
    """The button hands over the row's tokens as the bars show them, (text, p, q), the guesses first."""
    go(grown, lane=0, round=1, row=1)
    grown.locator(".sv-again").click()
    assert grown.evaluate("window.tried") == {
        "guesses": 2,
        "tokens": [["␣a", 0.12, 0.67], ["␣one", 0.58, 0.41], ["␣cheap", 0.1, 0.07]],
    }
    go(grown, lane=0, round=1, row=6)  # a pruned candidate: nothing was decided on it
    assert not grown.locator(".sv-again").is_visible()


def test_the_card_of_a_kept_guess_and_of_one_never_tried(grown: Any) -> None:
    go(grown, lane=0, round=1, row=2)
    assert card(grown)["said"] == (
        "Draw 0.350 < 1.000 = min(1, p/q), with p 0.660 and q 0.410: kept."
    )
    go(grown, lane=0, round=1, row=3)
    assert card(grown)["said"].startswith("Never tried: the walk stopped before it.")


def test_the_card_of_the_targets_own_token_shows_what_was_left(grown: Any) -> None:
    go(grown, lane=0, round=1, row=-1)
    assert "correction" in card(grown)["title"]
    assert card(grown)["said"].endswith("scaled to 1: there this token has 0.800.")
    rest = grown.locator('.sv-barpart[data-kind="rest"]')
    assert rest.evaluate_all("(bars) => bars.map((b) => b.style.width)") == ["80%", "0%", "20%"]
    refused = [trial.row for trial in grown_round(0).verdict.trials if not trial.is_accepted]
    assert len(refused) == 2
    for row in refused:  # the card of the guess after whose refusal that is left, and of no other
        go(grown, lane=0, round=1, row=row)
        assert rest.count() == (3 if row == refused[-1] else 0)


def test_the_card_of_a_pruned_candidate(grown: Any) -> None:
    go(grown, lane=0, round=1, row=6)
    assert "pruned" in card(grown)["title"]
    assert "score -2.600, rank 7 of 12; only 5 went to the target" in card(grown)["said"]


def test_before_the_walk_the_card_tells_no_verdict(grown: Any) -> None:
    go(grown, lane=0, round=1, row=1)
    seek(grown, 0.02)
    assert card(grown)["said"] == (
        "The drafter guessed it with q = 0.670. The target has not read it yet."
    )
    assert grown.locator(".sv-barrow").count() == 0
    seek(grown, 0.0405)
    assert "The walk has not decided yet." in card(grown)["said"]


def test_greedy_decisions_have_a_card_without_draws(chromium: Any) -> None:
    with stage_page(chromium) as page:
        send(page, ITEMS)
        go(page, lane=1, round=1, row=4)
        assert (
            card(page)["said"] == "The target's first choice here is “'s”, so “␣quite” is refused."
        )
        assert card(page)["more"] == "The target's second choice scores 2.00 less."
        assert page.locator(".sv-drawline").is_hidden()
        go(page, lane=1, round=1, row=2)
        assert card(page)["said"] == "It is the target's first choice here: kept."


def test_with_nothing_chosen_the_card_tells_what_ended_the_walk(grown: Any) -> None:
    seek(grown, END)
    assert card(grown)["title"].startswith("␣reads")


def test_with_nothing_chosen_the_card_goes_with_the_walk(grown: Any) -> None:
    """It told how the walk ended while the picture was still on its first step."""
    verified, end = 0.0405, END
    for share, title in ((0.3, "␣one"), (0.55, "␣pass"), (0.8, "␣reads")):
        seek(grown, verified + share * (end - verified))
        assert card(grown)["title"].startswith(title)
    seek(grown, verified + 0.1 * (end - verified))
    assert card(grown)["said"] == "Nothing is decided yet."


def test_coupled_decisions_have_no_draw_of_their_own(chromium: Any) -> None:
    start = lane_start(0, "draft_model", verification="coupled")
    start = replace(start, sampling=replace(start.sampling, temperature=1.0))
    tree = DraftTree.chain(9, ids(" a", " model"))
    round_ = round_trace(tree, greedy_verdict(tree, ids(" a", "'s")))
    trials = tuple(replace(t, draw=None) for t in round_.verdict.trials)
    round_ = replace(round_, verdict=replace(round_.verdict, trials=trials))
    with stage_page(chromium) as page:
        send(page, items_of([run_start(), start, round_, LaneEnd(0, "length", ""), RunEnd(1.0)]))
        go(page, lane=0, round=1, row=1)
        assert card(page)["said"] == "The target drew the very same token: kept."
        go(page, lane=0, round=1, row=2)
        assert card(page)["said"] == "The target drew another token than “␣model”: refused."


def test_lookahead_shows_its_window_and_the_ngrams_of_its_pool(chromium: Any) -> None:
    tree = DraftTree.from_paths(9, [ids(" a", " model"), ids(" slow")])
    window = (0, 4, 5, 0, 4, 5)
    tokens = ids(" one", " pass", " reads", " them", " all", " is")
    tree = DraftTree((*tree.tokens, *tokens), (*tree.parents, *window), 6)
    round_ = round_trace(tree, greedy_verdict(tree, ids(" a", " is")))
    round_ = replace(round_, notes={"pool": "57", "guesses": "2"})
    with stage_page(chromium) as page:
        start = lane_start(0, "lookahead", title="Lookahead")
        send(page, items_of([run_start(), start, round_, LaneEnd(0, "length", ""), RunEnd(1.0)]))
        seek(page, round_.seconds)
        assert "57 n-grams" in str(page.locator(".sv-source h4").text_content())
        lines = page.locator(".sv-ngram").evaluate_all(
            "(all) => all.map((l) => [l.innerText.split(/\\s+/).join(''), l.dataset.hit])"
        )
        assert [hit for _, hit in lines] == ["true", "false"]
        grid = page.locator(".sv-window > *").evaluate_all("(c) => c.map((n) => n.textContent)")
        assert grid == [
            *("level 1", glyphs(VOCABULARY[9]), "␣one", "␣pass", "␣reads"),
            *("level 2", "␣them", "␣all", "␣is", ""),
        ]
        page.locator('.sv-window [data-row="4"]').hover()
        settle(page)
        assert "lookahead" in card(page)["title"]
        assert page.locator(".sv-maskwords").text_content() == (
            "Row 4 “␣one” reads the prefix, its ancestor 0 “␣weights”, and itself."
        )


def test_prompt_lookup_marks_what_it_found_and_what_it_copied(chromium: Any) -> None:
    tree = DraftTree.chain(9, ids("?", "\n"))
    round_ = round_trace(tree, greedy_verdict(tree, ids("?", " a")))
    round_ = replace(round_, notes={"match": "2@2"})
    with stage_page(chromium) as page:
        start = lane_start(0, "prompt_lookup", title="Prompt lookup")
        send(page, items_of([run_start(), start, round_, LaneEnd(0, "length", ""), RunEnd(1.0)]))
        seek(page, round_.seconds)
        words = page.locator(".sv-word").evaluate_all(
            "(all) => all.map((w) => [w.textContent, w.dataset.kind])"
        )
        assert words[2:6] == [
            ["Why", "found"],
            ["␣guess", "found"],
            ["?", "copied"],
            ["↵", "copied"],
        ]
        assert "The last 2 tokens also stand at token 3 of the prompt" in str(
            page.locator(".sv-source h4").text_content()
        )


def test_refused_tokens_stand_in_the_text_on_demand(chromium: Any) -> None:
    with stage_page(chromium) as page:
        send(page, ITEMS)
        go(page, lane=1, round=1, lost=True)
        read = "(all) => all.map((t) => [t.textContent, t.dataset.from])"
        words = lane(page, 1).locator(".sv-token").evaluate_all(read)
        assert [kind for _, kind in words] == ["draft", "draft", "draft", "rejected", "recovered"]
        go(page, lost=False)
        assert lane(page, 1).locator(".sv-token").count() == 4


def test_cache_cells_tell_what_was_kept(chromium: Any) -> None:
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, round_of(1, 0)["at"][3])
        cells = (
            lane(page, 1)
            .locator(".sv-cachecell")
            .evaluate_all(
                "(all) => all.filter((c) => c.style.display !== 'none').map((c) => c.dataset.state)"
            )
        )
        assert cells == ["kept", "kept", "kept", "kept", "dropped"]


def test_the_wheel_over_a_tree_scrolls_the_page(chromium: Any) -> None:
    with stage_page(chromium, height=500) as page:
        send(page, ITEMS)
        seek(page, round_of(2, 1)["at"][3])
        lane(page, 2).locator(".sv-treebox").scroll_into_view_if_needed()
        lane(page, 2).locator(".sv-treebox").hover()
        before = page.evaluate("scrollY")
        page.mouse.wheel(0, 120)
        page.wait_for_timeout(150)
        assert page.evaluate("scrollY") != before


def test_another_language_keeps_the_place_and_leaves_no_english_of_ours(chromium: Any) -> None:
    with stage_page(chromium) as page:
        send(page, ITEMS)
        go(page, lane=1, round=2, row=1)
        before = page.evaluate("stage.place()")
        page.evaluate("words.choose('zh')")
        settle(page)
        assert page.evaluate("stage.place()") == before
        assert card(page)["said"] == "它正是目标模型在此处的首选：接受。"
        assert "Tree-attention" not in page.inner_text(".sv")


@pytest.mark.parametrize(
    "place",
    [
        {"lane": 99, "round": 1},
        {"lane": 1, "round": 10**9, "row": 1},
        {"lane": 1, "round": 1, "row": -5, "axis": "<b>", "speed": "x", "lanes": 3},
        {"lane": "0", "row": 1e99},
        {"lane": 1, "round": "2", "lanes": {"0": 1}, "speed": ["1"], "ghosts": "no"},
        {"lanes": ["a", None, {}], "round": None},
        {"lanes": []},
        None,
        7,
        "lanes",
        [1, 2],
    ],
)
def test_a_place_from_a_strangers_link_breaks_nothing(chromium: Any, place: Any) -> None:
    with stage_page(chromium) as page:
        send(page, ITEMS)
        page.evaluate("(place) => stage.go(place)", place)
        seek(page, 0.1)
        assert page.locator(".sv-lane:visible").count() == 4


def test_a_grown_round_of_a_trace_is_what_it_says() -> None:
    """The hand-made round these tests rest on obeys the walk it claims."""
    round_ = grown_round(0)
    tried = {t.row: t.is_accepted for t in round_.verdict.trials}
    assert all((t.draw or 0) < t.threshold for t in round_.verdict.trials if t.is_accepted)
    assert all((t.draw or 0) >= t.threshold for t in round_.verdict.trials if not t.is_accepted)
    assert tried == {1: False, 2: True, 4: True, 5: False}
    kept = [c for c in round_.candidates if c.is_kept]
    assert len(kept) == round_.tree.num_draft_tokens
