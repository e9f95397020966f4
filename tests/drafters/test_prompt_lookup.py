"""Prompt lookup against a search by brute force, over texts of few letters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.config import SamplingParams
from specviz.drafters.base import DraftContext, Outcome
from specviz.drafters.prompt_lookup import PromptLookup, PromptLookupConfig
from specviz.lm.sampling import FreeChance, Sampler
from tests.engine.lanes import PLAIN, Setup, kit_of, registered
from tests.engine.tables import TableLM, random_table
from tests.traces import greedy_verdict

KIT = kit_of(random_table(4))


def context_of(tokens: list[int], max_depth: int = 50) -> DraftContext:
    return DraftContext(tuple(tokens), None, Sampler(SamplingParams(), 4), FreeChance(0), max_depth)


def drafted(drafter: PromptLookup, tokens: list[int], max_depth: int = 50) -> list[int]:
    proposal = drafter.propose(context_of(tokens, max_depth))
    assert proposal.tree.is_chain
    assert proposal.tree.tokens[0] == tokens[-1]
    assert proposal.child_probs is None
    return list(proposal.tree.tokens[1:])


def found_by_hand(tokens: list[int], longest: int, shortest: int) -> list[int]:
    """All that follows the latest earlier occurrence of the longest run of last tokens."""
    for size in range(longest, shortest - 1, -1):
        for start in range(len(tokens) - size - 1, -1, -1):
            if size <= len(tokens) and tokens[start : start + size] == tokens[-size:]:
                return tokens[start + size :]
    return []


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=30),
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), max_size=6),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(1, 9),
    st.integers(0, 9),
)
def test_the_longest_then_the_latest_match_is_copied(
    tokens: list[int], blocks: list[list[int]], one: int, other: int, count: int, max_depth: int
) -> None:
    low, high = sorted((one, other))
    config = PromptLookupConfig(max_ngram=high, min_ngram=low, num_draft_tokens=count)
    drafter = PromptLookup(config, KIT)
    drafter.start(context_of(tokens))
    for block in [*blocks, []]:
        wanted = found_by_hand(tokens, high, low)[: min(count, max_depth)]
        assert drafted(drafter, tokens, max_depth) == wanted
        proposal = drafter.propose(context_of(tokens))
        verdict = greedy_verdict(proposal.tree, [0] * 99)
        outcome = Outcome(proposal.tree, verdict, tuple(block), None, random_table(2).table[0])
        drafter.observe(outcome)
        tokens = [*tokens, *block]


def test_without_a_match_it_abstains() -> None:
    drafter = PromptLookup(PromptLookupConfig(min_ngram=1), KIT)
    drafter.start(context_of([0, 1, 2, 3]))
    proposal = drafter.propose(context_of([0, 1, 2, 3]))
    assert (proposal.tree.tokens, proposal.notes) == ((3,), {})


def test_it_says_what_it_matched() -> None:
    drafter = PromptLookup(PromptLookupConfig(), KIT)
    drafter.start(context_of([3, 0, 1, 2, 3, 0, 1]))
    assert drafter.propose(context_of([3, 0, 1, 2, 3, 0, 1])).notes == {"match": "3@0"}


def test_a_shortest_run_longer_than_the_longest_is_refused() -> None:
    with pytest.raises(ValueError, match=r"min_ngram \(4\) is larger than max_ngram \(3\)"):
        PromptLookup(PromptLookupConfig(max_ngram=3, min_ngram=4), KIT)


def test_copying_is_where_it_pays() -> None:
    """A model that counts in a circle: after one lap, every draft is right."""
    size = 7
    table = random_table(size).table * 0
    for last in range(size):
        table[:, last, (last + 1) % size] = 9.0
    setup = Setup(TableLM(table), [0, 1], 40)
    rounds = setup.play(registered("prompt_lookup", {"num_draft_tokens": 8}))
    for round_ in rounds[9:-1]:
        assert len(round_.verdict.accepted_rows) == round_.tree.num_draft_tokens > 0
    assert len(rounds) < 14
    assert setup.answer(PLAIN) == [token for r in rounds for token in r.new_tokens]
