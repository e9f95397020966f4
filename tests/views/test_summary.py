"""Plain words: each kind of round says what happened; a summary's numbers are those of metrics."""

from __future__ import annotations

import re

import pytest

from specviz.trace import Failure, Verdict
from specviz.tree import DraftTree
from specviz.views.summary import round_message, run_summary
from specviz.words import tell
from tests.traces import demo_run, greedy_verdict, ids, round_trace

A, B, C, D = ids("Reading", " a", " model", "'s")
LOST = ids(" quite")[0]


def sentence(tree: DraftTree, answer: list[int], *, is_plain: bool = False) -> str:
    round_ = round_trace(tree, greedy_verdict(tree, answer), index=11)
    return tell(round_message(round_, is_plain=is_plain))


@pytest.mark.parametrize(
    ("tree", "answer", "expected"),
    [
        (
            DraftTree.chain(9, [A, B, LOST]),
            [A, B, C],
            "Round 12: drafted 3, the one pass of the target accepted 2 and added its own token: "
            "3 tokens for one pass.",
        ),
        (
            DraftTree.chain(9, [A, B, C]),
            [A, B, C, D],
            "Round 12: drafted 3, the one pass of the target accepted all 3 and added a bonus "
            "token: 4 tokens for one pass.",
        ),
        (
            DraftTree.chain(9, [LOST, A]),
            [A],
            "Round 12: drafted 2, the one pass of the target accepted none and gave its own token "
            "instead: 1 token for one pass.",
        ),
        (
            DraftTree.from_paths(9, [(LOST, B), (A, C)]),
            [A, B],
            "Round 12: drafted a tree of 4, the one pass of the target accepted a path of 1 and "
            "added its own token: 2 tokens for one pass.",
        ),
        (
            DraftTree((9, A, LOST, B), (-1, 0, 0, 2), 2),
            [A, B],
            "Round 12: drafted 1 (and read 2 lookahead rows), the one pass of the target accepted "
            "1 and added a bonus token: 2 tokens for one pass.",
        ),
        (
            DraftTree.chain(9),
            [A],
            "Round 12: no draft this time; the pass of the target gave its own token only.",
        ),
    ],
)
def test_what_a_round_is_said_to_have_done(
    tree: DraftTree, answer: list[int], expected: str
) -> None:
    assert sentence(tree, answer) == expected


def test_a_round_in_chinese_has_no_space_between_chinese_words() -> None:
    """It read "接受 零个"."""
    for tree, answer in ((DraftTree.chain(9, [LOST, A]), [A]), (DraftTree.chain(9, [A, B, LOST]), [A, B, C]),
                         (DraftTree.from_paths(9, [(LOST, B), (A, C)]), [A, B])):  # fmt: skip
        round_ = round_trace(tree, greedy_verdict(tree, answer), index=11)
        said = tell(round_message(round_, is_plain=False), "zh")
        assert re.search(r"[^\x00-\x7f] +[^\x00-\x7f]", said) is None
        assert (
            re.search(r"[\u4e00-\u9fff]\d|\d[\u4e00-\u9fff]", said) is None
        )  # but around a number


def test_plain_decoding_drafts_nothing() -> None:
    said = sentence(DraftTree.chain(9), [A], is_plain=True)
    assert said == "Round 12: nothing drafted; one pass of the target, 1 token."


def test_a_round_cut_at_a_stop_says_that_the_text_ended() -> None:
    tree = DraftTree.chain(9, [A, B, C])
    verdict: Verdict = greedy_verdict(tree, [A, B, C, D]).cut(2, tree)
    said = tell(round_message(round_trace(tree, verdict), is_plain=False))
    assert said == (
        "Round 1: drafted 3, the one pass of the target accepted 2 and the text ended there: "
        "2 tokens for one pass."
    )


def test_a_summary_by_hand_counted_numbers() -> None:
    """50 tokens; the chain lane's hits are 3, 4, 0, 2, 1, 3, 4, 2, ... of 4 drafted each."""
    text = run_summary(demo_run())
    assert "hand-made, cpu, float32" in text
    assert "50 tokens in 50 passes of the target: tau 1.00" in text
    assert "50 tokens in 15 passes of the target: tau 3.33" in text
    assert "1: 13/15 (87%), 2: 11/13 (85%)" in text
    assert text.count("identical to plain for 50 tokens") == 3
    assert "1.84x plain: a round costs 1.81 plain steps (rho) and gives 3.33 tokens" in text


def test_a_summary_of_a_run_that_never_started() -> None:
    assert run_summary([Failure("no")]) == "The run did not start."


def test_a_summary_of_a_run_cut_off_after_its_start() -> None:
    assert "no round was run" in run_summary(demo_run()[:5])
