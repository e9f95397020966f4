"""How a draft came to be: births on the draft's clock, pruned candidates, windows, matches."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from specviz.trace import Candidate, RoundTrace
from specviz.tree import DraftTree
from specviz.views.drafting import MAX_GHOSTS, drafting, window_levels
from specviz.views.round_picture import check_lengths, outcome
from tests.grown import grown_round
from tests.traces import greedy_verdict, ids, round_trace


def of(round_: RoundTrace) -> dict[str, Any]:
    return drafting(round_, 0, column="head")


def a_round(tree: DraftTree, answer: tuple[int, ...] = (0,), **more: Any) -> RoundTrace:
    return replace(round_trace(tree, greedy_verdict(tree, answer)), **more)


def test_rows_are_born_when_the_pass_that_made_them_ended() -> None:
    draft = of(grown_round(0))
    assert draft["steps"] == [0.004, 0.0035, 0.003]
    assert draft["born"] == [0.0, 0.004, 0.004, 0.0075, 0.0075, 0.0105]
    assert draft["grown_at"] == 0.0105
    assert (draft["num_grown"], draft["num_pruned"]) == (12, 7)


def test_ranks_count_all_candidates_by_score() -> None:
    draft = of(grown_round(0))
    assert draft["score"] == [None, -0.4, -0.9, -0.8, -1.3, -1.6]
    assert draft["rank"] == [None, 1, 3, 2, 4, 5]
    assert sorted(g["rank"] for g in draft["ghosts"]) == [6, 7, 8, 9, 10, 11, 12]


def test_ghosts_hang_where_they_were_grown() -> None:
    draft = of(grown_round(0))
    cheap, guess, token = draft["ghosts"][:3]
    assert (cheap["text"], cheap["parent"], cheap["depth"]) == ("␣cheap", 0, 1)
    assert (guess["text"], guess["parent"]) == ("␣guess", 1)
    assert (token["text"], token["parent"], token["born"]) == ("␣token", 2, 0.0075)
    below = draft["ghosts"][3]  # grown under the pruned " cheap", which is number 6
    assert (below["text"], below["parent"]) == ("␣guess", 6)


def test_ghosts_stand_below_the_tree_each_in_the_column_of_its_depth_best_first() -> None:
    """A tree with its pruned candidates between was so tall that most of it was out of sight."""
    draft = drafting(grown_round(0), 5, column="level")
    assert draft["heights"] == [8, 8]
    cells = [(g["depth"], g["y"]) for g in draft["ghosts"]]
    assert len(set(cells)) == len(cells)
    for depth in (1, 2, 3, 4):
        column = sorted((g for g in draft["ghosts"] if g["depth"] == depth), key=lambda g: g["y"])
        assert [g["y"] for g in column] == list(range(5, 5 + len(column)))
        assert [g["rank"] for g in column] == sorted(g["rank"] for g in column)


@pytest.mark.parametrize("seed", range(20))
def test_of_many_pruned_the_best_are_shown_and_never_without_their_parents(seed: int) -> None:
    draw = random.Random(seed)
    grown: list[Candidate] = []
    for index in range(200):
        parent = draw.randint(-1, index - 1)
        above = grown[parent] if parent >= 0 else None
        score = (above.score if above else 0.0) - draw.random()
        depth = above.depth + 1 if above else 1
        grown.append(Candidate(index, f" {index}", parent, depth, score, depth - 1, False))
    draft = of(a_round(DraftTree.chain(9), candidates=tuple(grown)))
    ghosts = draft["ghosts"]
    assert len(ghosts) == draft["num_pruned"] == 200
    assert 0 < draft["num_best"] <= MAX_GHOSTS
    for k, ghost in enumerate(ghosts):
        assert ghost["parent"] == 0 or 1 <= ghost["parent"] < k + 1
    assert {g["rank"] for g in ghosts[: draft["num_best"]]} >= {1, 2, 3}
    best, all_ = draft["heights"]
    assert best <= all_
    for depth in {g["depth"] for g in ghosts}:
        lines = sorted(g["y"] for g in ghosts if g["depth"] == depth)
        assert lines == list(range(len(lines)))
    assert max(g["y"] for g in ghosts[: draft["num_best"]]) == best - 1


def test_what_was_grown_and_kept_is_counted_by_depth() -> None:
    round_ = grown_round(0)
    draft = drafting(round_, 0, column="level")
    assert draft["levels"] == [[3, 2], [5, 2], [3, 1], [1, 0]]
    assert draft["heads"] == []
    chain = a_round(DraftTree.chain(9, ids(" a", " model")))
    assert drafting(chain, 0, column="pass")["levels"] == [[None, 1], [None, 1]]


def test_few_pruned_are_all_shown() -> None:
    draft = of(grown_round(0))
    assert (draft["num_best"], len(draft["ghosts"])) == (7, 7)


def test_a_chain_is_born_token_by_token_and_a_copy_at_once() -> None:
    chain = DraftTree.chain(9, ids(" a", " model"))
    born = of(a_round(chain, draft_seconds=0.01, draft_step_seconds=(0.004, 0.005)))["born"]
    assert born == [0.0, 0.004, 0.009]
    assert of(a_round(chain, draft_seconds=0.01, draft_step_seconds=()))["born"] == [
        0.0,
        0.01,
        0.01,
    ]


def test_a_step_that_ends_after_the_draft_by_rounding_is_its_end() -> None:
    chain = DraftTree.chain(9, ids(" a"))
    draft = of(a_round(chain, draft_seconds=0.01, draft_step_seconds=(0.0100001,)))
    assert draft["born"] == [0.0, 0.01]


def test_heads_tell_each_guess_once_best_first() -> None:
    a, b, c = ids(" a", " model", "'s")
    tree = DraftTree((9, a, b, c, c), (-1, 0, 0, 1, 2))
    draft = of(a_round(tree, draft_probs=(1.0, 0.2, 0.7, 0.1, 0.3)))
    assert draft["heads"] == [[["␣model", b, 0.7], ["␣a", a, 0.2]], [["'s", c, 0.3]]]


def test_a_lookahead_window_is_levels_of_columns() -> None:
    tree = DraftTree((9, 1, 2, 3, 4, 5, 6, 7), (-1, 0, 0, 2, 3, 0, 2, 3), 6)
    assert window_levels(tree) == [[0, 2, 3, 4], [5, 6, 7]]
    assert window_levels(DraftTree.chain(9, (1, 2))) == []
    gap = DraftTree((9, 2, 3, 7), (-1, 0, 1, 2), 3)
    assert window_levels(gap) == [[0, 1, 2, 3]]


def test_a_column_of_the_window_without_a_row_stays_empty() -> None:
    tree = DraftTree((9, 1, 2, 3), (-1, 0, 1, 1), 3)
    assert window_levels(tree) == [[0, 1, 2], [None, 3]]


def test_the_pool_lists_the_ngrams_that_were_chosen() -> None:
    tree = DraftTree.from_paths(9, [(1, 2), (1, 3), (4,)])
    draft = of(a_round(tree, notes={"pool": "57", "guesses": "3"}))
    assert draft["pool"] == {"size": 57, "ngrams": [(1, 2), (1, 3), (4,)]}
    assert of(a_round(tree))["pool"] is None


def test_a_match_is_a_span_of_the_text() -> None:
    tree = DraftTree.chain(9, (1, 2, 3))
    draft = of(a_round(tree, notes={"match": "3@17"}))
    assert draft["match"] == {"start": 17, "length": 3, "copied": 3}
    assert of(a_round(tree, notes={"match": "what"}))["match"] is None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [((1, 2, 8), "all"), ((1, 8), "some"), ((8,), "none")],
)
def test_what_became_of_a_draft(answer: tuple[int, ...], expected: str) -> None:
    assert outcome(a_round(DraftTree.chain(9, (1, 2)), answer)) == expected
    assert outcome(a_round(DraftTree.chain(9), answer)) == "plain"


def test_a_candidate_before_its_parent_is_damage() -> None:
    wrong = Candidate(1, " x", 0, 1, -1.0, 0, False)
    with pytest.raises(ValueError, match="candidate 0 stands before its own parent"):
        check_lengths(a_round(DraftTree.chain(9), candidates=(wrong,)))
