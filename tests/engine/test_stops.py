"""Where a lane's text ends, whatever was accepted in one block: exactly there, for every drafter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.config import SamplingParams
from specviz.drafters.base import DraftContext
from specviz.engine.stopping import StopRule
from specviz.trace import RoundTrace
from specviz.tree import DraftTree
from tests.engine.doubles import bushy, making, oracle
from tests.engine.lanes import (
    ALL_SETTINGS,
    PLAIN,
    SETTING_IDS,
    TEXT,
    Knobs,
    MakeDrafter,
    Setup,
    answer_of,
    finish,
    make_or_skip,
    makes_here,
)
from tests.engine.tables import TableLM, blurred, random_table

V = 97
PROMPT = [40, 41, 42, 40, 41]


@pytest.fixture(scope="module")
def setup() -> Setup:
    lm = random_table(V, seed=3)
    return Setup(lm, PROMPT, budget=20, draft=blurred(lm, spread=0.3))


@pytest.fixture(scope="module")
def answer(setup: Setup) -> list[int]:
    return replace(setup, budget=60).answer(PLAIN)


def all_makes(setup: Setup, answer: list[int]) -> list[MakeDrafter]:
    return [
        PLAIN,
        making(oracle(len(PROMPT), answer)),
        making(bushy(len(PROMPT), answer, V)),
        *makes_here(setup).values(),
    ]


def assert_ends_with(rounds: list[RoundTrace], tokens: list[int]) -> None:
    """Nothing after the end: not in tokens, texts, chances, statuses or counts."""
    assert answer_of(rounds) == tokens
    for round_ in rounds:
        verdict, tree = round_.verdict, round_.tree
        count = len(round_.new_tokens)
        assert count == verdict.num_new_tokens == len(round_.odds) == len(round_.new_texts)
        assert round_.rows_kept == count
        path = (0, *verdict.accepted_rows)
        visited = {-1, *path[:count]}
        for row in range(1, len(tree)):
            is_open = tree.parents[row] in visited and row <= tree.num_draft_tokens
            if not is_open and row <= tree.num_draft_tokens:
                assert verdict.row_status[row] == "unreached"
                assert verdict.target_probs[row] is None
        assert all(tree.parents[trial.row] in visited for trial in verdict.trials)
        assert [odds.row for odds in round_.odds] == list(path[:count])


@pytest.mark.parametrize("index", range(12))
def test_an_end_token_ends_the_text_at_any_place_of_a_block(
    setup: Setup, answer: list[int], index: int
) -> None:
    """DECLARE-EOS: a token the model writes anyway is declared to be the end of text."""
    end = answer[index]
    wanted = answer[: answer.index(end) + 1]
    for make in all_makes(setup, answer):
        lane = replace(setup, eos=frozenset({end, 3000})).lane(make)
        assert_ends_with(finish(lane), wanted)
        assert lane.end_reason == "stop"


def test_the_first_of_several_end_tokens_counts(setup: Setup, answer: list[int]) -> None:
    ends = frozenset({answer[7], answer[4]})
    wanted = answer[: min(answer.index(end) for end in ends) + 1]
    for make in all_makes(setup, answer):
        assert replace(setup, eos=ends).answer(make) == wanted


def test_a_prompt_that_quotes_the_end_does_not_end_the_answer() -> None:
    """A lookup drafter copies the span with the end token; only the target's own end counts."""
    lm = random_table(V, seed=3)
    prompt = [40, 41, 2, 43, 44, 40, 41]
    setup = Setup(lm, prompt, 20, eos=frozenset({2}), draft=lm)
    wanted = setup.answer(PLAIN)
    for make in makes_here(setup).values():
        assert setup.answer(make) == wanted


@pytest.mark.parametrize("budget", [1, 2, 3])
@pytest.mark.parametrize(("name", "knobs"), ALL_SETTINGS, ids=SETTING_IDS)
def test_budgets_hold_exactly(
    setup: Setup, answer: list[int], budget: int, name: str, knobs: Knobs
) -> None:
    lane = replace(setup, budget=budget).lane(make_or_skip(name, knobs, setup))
    assert_ends_with(finish(lane), answer[:budget])
    assert lane.end_reason == "length"


def test_budgets_cut_a_drafter_that_ignores_them(setup: Setup, answer: list[int]) -> None:
    right = oracle(len(PROMPT), answer, 30)

    def too_deep(context: DraftContext) -> DraftTree:
        return right(replace(context, max_depth=30))

    for budget in range(1, 12):
        assert_ends_with(replace(setup, budget=budget).play(making(too_deep)), answer[:budget])


@pytest.mark.parametrize("room", [1, 2, 7])
@pytest.mark.parametrize(("name", "knobs"), ALL_SETTINGS, ids=SETTING_IDS)
def test_the_context_ends_the_text(
    setup: Setup, answer: list[int], room: int, name: str, knobs: Knobs
) -> None:
    lm = TableLM(random_table(V, seed=3).table, max_context=len(PROMPT) + room)
    near = replace(setup, lm=lm, draft=TableLM(blurred(lm).table, lm.max_context))
    lane = near.lane(make_or_skip(name, knobs, near))
    assert_ends_with(finish(lane), answer[:room])
    assert lane.end_reason == "context"


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("index", [0, 2, 5])
def test_a_stop_string_inside_a_block_ends_the_text(
    setup: Setup, answer: list[int], index: int, size: int
) -> None:
    whole = "".join(TEXT.piece(token) for token in answer[:20])
    assert whole.isascii(), "one character per token in this part of the vocabulary"
    stop = whole[index : index + size]
    place = whole.index(stop)
    for make in all_makes(setup, answer):
        lane = replace(setup, stop_strings=(stop, "\x00 never")).lane(make)
        rounds = finish(lane)
        assert_ends_with(rounds, answer[: place + size])
        assert lane.parts.stop.text == "".join(r.text for r in rounds) == whole[:place]
        assert lane.end_reason == "stop"


def test_the_stream_adds_up_to_the_decoded_answer(setup: Setup, answer: list[int]) -> None:
    prompt_free = replace(setup, budget=50)
    for make in all_makes(setup, answer):
        lane = prompt_free.lane(make)
        streamed = "".join(round_.text for round_ in finish(lane))
        assert streamed == lane.parts.stop.text == TEXT.decode(answer[:50])


@pytest.mark.parametrize("budget", range(1, 9))
def test_a_budget_inside_a_character_shows_it_once_as_broken(budget: int) -> None:
    """The text of an emoji, token by token: nothing hangs, nothing is lost or doubled."""
    ids = TEXT.tokenizer.encode("a\U0001f469\u200d\U0001f680")[:9]
    stop = StopRule(TEXT, eos=frozenset(), stop_strings=(), budget=budget, room=99)
    shown = ""
    for token in ids[:budget]:
        shown += stop.offer([token]).text
    assert shown == stop.text == TEXT.decode(ids[:budget])


def test_no_end_token_at_all_runs_to_the_budget() -> None:
    """A membership test against a missing end token crashed lookups elsewhere."""
    lm = random_table(V, seed=3)
    setup = Setup(lm, [5, 6, 7, 8, 9, 10, 11, 7, 8], 20, draft=lm)
    for make in makes_here(setup).values():
        assert len(setup.answer(make)) == 20


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_prompt_of_one_token(temperature: float) -> None:
    lm = random_table(V, seed=3)
    setup = Setup(lm, [9], 24, SamplingParams(temperature=temperature), "coupled", draft=lm)
    for make in makes_here(setup).values():
        assert setup.answer(make) == setup.answer(PLAIN)
