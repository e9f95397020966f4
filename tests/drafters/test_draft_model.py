"""A draft model of a table: its cache, its length, its vocabulary, and how it is chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from specviz.config import SamplingParams
from specviz.drafters.base import CopySpec, Proposal, TargetKit
from specviz.drafters.draft_model import DraftLength, DraftModel, DraftModelConfig
from specviz.lm.base import LMOutput
from specviz.lm.checkpoints import DrafterCheckpoint
from specviz.lm.sampling import Sampler
from specviz.tree import DraftTree
from tests.drafters.growth_by_hand import Path, assert_same_tree, dynamic_by_hand
from tests.engine.chances import ScriptedChance, enumerate_outcomes
from tests.engine.lanes import PLAIN, Knobs, Setup, kit_of, registered
from tests.engine.tables import TableCache, TableLM, blurred, random_table

V = 13
PROMPT = [1, 2, 3, 1, 2]


class NotingLM(TableLM):
    """Remembers the text each pass was read behind."""

    def __init__(self, table: torch.Tensor, max_context: int = 256) -> None:
        super().__init__(table, max_context)
        self.texts: list[tuple[int, ...]] = []
        self.settled: list[int] = []  # after how many passes

    def read(self, tree: DraftTree, cache: TableCache, taps: Any = ()) -> LMOutput:  # type: ignore[override]
        self.texts.append((*cache.tokens, *tree.tokens))
        return super().read(tree, cache, taps)


def test_a_draft_takes_its_turn_before_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only beforehand is it on no clock: caches of one draft change places, and passes are captured
    when a text outgrows them."""
    lm = random_table(V)
    draft = NotingLM(blurred(lm).table)
    monkeypatch.setattr(draft, "settle", lambda cache: draft.settled.append(len(draft.texts)))
    lane = Setup(lm, PROMPT, 30, draft=draft).lane(registered("draft_model"))
    expected = [len(draft.texts)]
    while lane.end_reason is None:
        expected.append(len(draft.texts))
        lane.play_round()
    assert draft.settled == expected


@pytest.mark.parametrize("length", [1, 3, 12])
@pytest.mark.parametrize("spread", [0.0, 0.5, 30.0])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_its_cache_is_a_cache_of_the_text(length: int, spread: float, temperature: float) -> None:
    """After full, partial and no acceptance: every pass reads the text so far and the own draft."""
    lm = random_table(V)
    draft = NotingLM(blurred(lm, spread=spread).table)
    setup = Setup(lm, PROMPT, 40, SamplingParams(temperature=temperature), draft=draft)
    lane = setup.lane(registered("draft_model", {"num_draft_tokens": length}))
    drafter: Any = lane.parts.drafter
    accepted = set()
    while lane.end_reason is None:
        text, seen = lane.tokens, len(draft.texts)
        round_ = lane.play_round()
        drafted = round_.tree.tokens[1:]
        wanted = [(*text, *drafted[:end]) for end in range(len(drafted))]
        assert draft.texts[seen:] == wanted
        assert drafter.cache.tokens == drafter.tokens
        assert drafter.cache.length < len(text) + len(drafted)
        accepted.add(len(round_.verdict.accepted_rows))
    if spread == 0.0 and temperature == 0.0:
        assert max(accepted) == length
    if spread == 30.0:
        assert 0 in accepted


def test_a_greedy_draft_is_chosen_and_tells_its_own_softmax() -> None:
    """No row of the vocabulary travels for it, and the picture has a q to show."""
    lm = random_table(V)
    draft = blurred(lm, spread=0.5)
    lane = Setup(lm, PROMPT, 20, draft=draft).lane(registered("draft_model"))
    proposal: Proposal = lane.parts.drafter.propose(lane._context())
    assert proposal.child_probs is None
    text = list(PROMPT)
    for token, q in zip(proposal.tree.tokens[1:], proposal.draft_probs[1:], strict=True):
        probs = torch.softmax(draft.after(text).double(), dim=0)
        assert token == int(probs.argmax())
        assert q == pytest.approx(float(probs[token]), rel=1e-5)
        text.append(token)


@pytest.mark.parametrize("spread", [0.0, 0.5, 30.0])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_its_tree_is_the_tree_by_hand(spread: float, temperature: float) -> None:
    """By the draft's own softmax of the text and the path; chosen, not drawn, at any temperature."""
    lm = random_table(V)
    draft = blurred(lm, spread=spread)
    knobs: Knobs = {"num_draft_tokens": 3, "top_k": 3, "budget": 9}
    setup = Setup(lm, PROMPT, 40, SamplingParams(temperature=temperature), draft=draft)
    lane, counts = setup.lane(registered("draft_model", knobs)), set[int]()
    while len(PROMPT) + setup.budget - len(lane.tokens) > 3:  # the last drafts are cut short
        text = tuple(lane.tokens)
        proposal: Proposal = lane.parts.drafter.propose(lane._context())

        def log_probs(path: Path, text: tuple[int, ...] = text) -> torch.Tensor:
            return torch.log_softmax(draft.after([*text, *path]).float(), dim=0)

        wanted = dynamic_by_hand(log_probs, range(V), top_k=3, depth=3, budget=9)
        assert_same_tree(proposal, wanted, tolerance=1e-4)
        assert proposal.child_probs is None
        round_ = lane.play_round()
        assert round_.tree == proposal.tree
        counts.add(len(round_.new_tokens))
    assert spread != 0.0 or max(counts) == 4


def test_a_tree_is_read_behind_the_committed_text_alone() -> None:
    """Each level reads the tree so far again, and the cache never keeps a row of a draft."""
    lm = random_table(V)
    draft = NotingLM(blurred(lm).table)
    knobs: Knobs = {"num_draft_tokens": 3, "top_k": 2}
    lane = Setup(lm, PROMPT, 40, draft=draft).lane(registered("draft_model", knobs))
    drafter: Any = lane.parts.drafter
    while lane.end_reason is None:
        text, seen = tuple(lane.tokens), len(draft.texts)
        round_ = lane.play_round()
        for read in draft.texts[seen:]:
            assert read[: len(text)] == text
        assert drafter.cache.tokens == drafter.tokens == text[: drafter.cache.length]
        if round_.tree.num_draft_tokens:
            assert drafter.cache.length == len(text) - 1


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_copy_of_the_target_is_accepted_whole(temperature: float) -> None:
    lm = random_table(V)
    sampling = SamplingParams(temperature=temperature, top_p=0.9)
    setup = Setup(lm, PROMPT, 40, sampling, draft=TableLM(lm.table))
    for round_ in setup.play(registered("draft_model", {"num_draft_tokens": 4})):
        assert len(round_.verdict.accepted_rows) == round_.tree.num_draft_tokens


@pytest.mark.parametrize("length", [1, 5, 12, 16])
def test_the_chosen_length_is_drafted(length: int) -> None:
    """Except where the budget ends sooner."""
    lm = random_table(V)
    setup = Setup(lm, PROMPT, 40, draft=blurred(lm))
    left = 40
    for round_ in setup.play(registered("draft_model", {"num_draft_tokens": length})):
        assert round_.tree.num_draft_tokens == min(length, left - 1)
        assert len(round_.draft_step_seconds) == round_.tree.num_draft_tokens
        left -= len(round_.new_tokens)


def test_an_adaptive_length_follows_what_was_kept_and_dies_with_the_lane() -> None:
    """Kept on the model, it carried over, and a run depended on the run before it."""
    lm = random_table(V)
    knobs: Any = {"num_draft_tokens": 5, "is_adaptive": True}

    def lengths(draft: TableLM) -> list[int]:
        rounds = Setup(lm, PROMPT, 60, draft=draft).play(registered("draft_model", knobs))
        return [r.tree.num_draft_tokens for r in rounds if r is not rounds[-1]]

    right, wrong = TableLM(lm.table), TableLM(-lm.table)
    alone = lengths(right)
    assert alone[:5] == [5, 7, 9, 11, 13]
    assert lengths(wrong)[:6] == [5, 4, 3, 2, 1, 1]
    assert lengths(right) == alone


def test_a_length_stays_in_its_range() -> None:
    length = DraftLength(15, is_adaptive=True)
    for kept in (15, 16, 16):
        length.learn(kept, kept)
    assert length.current == 16
    length.learn(0, 0)  # nothing was drafted: nothing is learnt
    assert length.current == 16
    fixed = DraftLength(3, is_adaptive=False)
    fixed.learn(3, 0)
    assert fixed.current == 3


def padded(lm: TableLM, size: int) -> TableLM:
    """The same table under a head of `size` rows; the added ones are loud and mean nothing."""
    table = torch.full((size, size, size), 40.0)
    known = min(size, lm.vocab_size)
    table[:known, :known, :known] = lm.table[:known, :known, :known]
    return TableLM(table)


@pytest.mark.parametrize(("target_size", "draft_size"), [(5, 4), (4, 5), (3, 6), (6, 3), (5, 5)])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("top_k", [1, 2])
def test_heads_padded_differently_draft_only_what_both_know(
    target_size: int, draft_size: int, temperature: float, top_k: int
) -> None:
    """One tokenizer of 3 ids, two sizes of head: exact, and padding never speaks."""
    known = random_table(3, seed=4)
    lm, draft = padded(known, target_size), padded(blurred(known), draft_size)
    sampling = SamplingParams(temperature=temperature)
    setup = Setup(lm, [0, 1, 2, 0, 1], 2, sampling, num_known_tokens=3, draft=draft)
    make = registered("draft_model", {"num_draft_tokens": 2, "top_k": top_k})

    def run(chance: ScriptedChance) -> tuple[int, ...]:
        rounds = setup.play(make, chance=chance)
        assert all(max(r.tree.tokens) < 3 for r in rounds)
        return tuple(token for r in rounds for token in r.new_tokens)

    found, sampler = enumerate_outcomes(run), Sampler(sampling, 3)
    for first in range(3):
        for second in range(3):
            p = float(sampler.probs(known.after([0, 1]), [0, 1, 2, 0, 1])[first])
            text = [0, 1, 2, 0, 1, first]
            p *= float(sampler.probs(known.after(text), text)[second])
            assert found.get((first, second), 0.0) == pytest.approx(p, abs=1e-12)


def test_a_draft_that_loves_an_id_the_target_lacks_is_harmless() -> None:
    lm = random_table(V)
    table = torch.zeros(V + 3, V + 3, V + 3)
    table[..., V + 2] = 50.0
    setup = Setup(lm, PROMPT, 20, draft=TableLM(table))
    assert setup.answer(registered("draft_model")) == setup.answer(PLAIN)


def test_the_drafts_own_end_of_text_ends_nothing() -> None:
    """Id 2 would end the draft's own answers; the target ends with 7, and only that counts."""
    lm = random_table(V)
    answer = Setup(lm, PROMPT, 30).answer(PLAIN)
    table = lm.table.clone()
    table[..., 2] = 30.0  # this draft always says 2
    setup = Setup(lm, PROMPT, 30, eos=frozenset({answer[9]}), draft=TableLM(table))
    rounds = setup.play(registered("draft_model", {"num_draft_tokens": 4}))
    assert rounds[0].tree.tokens[1:] == (2, 2, 2, 2)
    written = [token for r in rounds for token in r.new_tokens]
    assert written == answer[: answer.index(answer[9]) + 1]


@pytest.mark.parametrize("top_k", [1, 3])
def test_a_draft_with_a_shorter_context_stops_drafting_there(top_k: int) -> None:
    lm = random_table(V)
    draft = TableLM(blurred(lm).table, max_context=12)
    setup = Setup(lm, PROMPT, 30, draft=draft)
    rounds = setup.play(registered("draft_model", {"num_draft_tokens": 4, "top_k": top_k}))
    for round_ in rounds:
        room = 12 - (round_.cache_length + 1)
        assert max(round_.tree.depths) <= max(0, room)
    assert rounds[-2].tree.num_draft_tokens == 0
    assert [t for r in rounds for t in r.new_tokens] == setup.answer(PLAIN)


def test_a_prompt_the_draft_cannot_hold_is_refused() -> None:
    lm = random_table(V)
    setup = Setup(lm, PROMPT, 30, draft=TableLM(lm.table, max_context=4))
    with pytest.raises(ValueError, match="5 tokens and the draft model holds 4; shorten"):
        setup.lane(registered("draft_model"))


@pytest.mark.parametrize("top_k", [1, 4])
def test_a_draft_of_no_numbers_ends_its_lane_with_a_sentence(top_k: int) -> None:
    lm = random_table(V)
    setup = Setup(lm, PROMPT, 30, draft=TableLM(lm.table * torch.nan))
    lane = setup.lane(registered("draft_model", {"top_k": top_k}))
    with pytest.raises(FloatingPointError, match="not numbers"):
        lane.play_round()


def test_sampling_settings_reach_the_draft() -> None:
    """Elsewhere a refactor left the draft at temperature 1 while the target was cooler."""
    lm = random_table(V)
    for sampling in (
        SamplingParams(temperature=0.3),
        SamplingParams(temperature=1.0, top_k=2),
        SamplingParams(temperature=1.0, min_p=0.5),
        SamplingParams(temperature=1.0, repetition_penalty=2.0),
    ):
        setup = Setup(lm, PROMPT, 4, sampling, draft=lm)
        rounds = setup.play(registered("draft_model", {"num_draft_tokens": 3}))
        text = list(PROMPT)
        for token, q in zip(rounds[0].tree.tokens[1:], rounds[0].draft_probs[1:], strict=True):
            probs = Sampler(sampling, V).probs(lm.after(text), text)
            assert q == float(probs[token])
            text.append(token)


# Which model drafts.


def kit(*, own: bool = False, quantised: bool = False) -> tuple[TargetKit, list[CopySpec]]:
    asked: list[CopySpec] = []

    def copy(spec: CopySpec) -> TableLM:
        asked.append(spec)
        return random_table(V)

    def untrained(method: str) -> DrafterCheckpoint:
        raise ValueError(f"there are no {method} weights for this target")

    base = kit_of(random_table(V), random_table(V) if own else None)
    return replace(base, copy=copy, has_quantised_copy=quantised, trained=untrained), asked


@pytest.mark.parametrize(
    ("draft", "own", "quantised", "wanted", "words"),
    [
        ("auto", True, True, [], "a draft model of 1M parameters"),
        ("auto", False, True, [CopySpec("quantised")], "4-bit copy"),
        ("auto", False, False, [CopySpec("truncated", 2)], "first 2 of 8 layers"),
        ("own checkpoint", True, False, [], "a draft model"),
        ("4-bit copy", True, True, [CopySpec("quantised")], "4-bit copy"),
        ("truncated copy", True, True, [CopySpec("truncated", 2)], "untrained as a draft"),
    ],
)
def test_who_drafts(
    draft: str, own: bool, quantised: bool, wanted: list[CopySpec], words: str
) -> None:
    parts, asked = kit(own=own, quantised=quantised)
    drafter = DraftModel(DraftModelConfig(draft=draft, num_layers=2), parts)
    assert asked == wanted
    assert words in drafter.description


def test_a_truncated_copy_lacks_at_least_one_layer() -> None:
    parts, asked = kit()
    DraftModel(DraftModelConfig(draft="truncated copy", num_layers=64), parts)
    assert asked == [CopySpec("truncated", 7)]


def test_a_draft_that_was_never_given_is_refused() -> None:
    with pytest.raises(ValueError, match="No draft checkpoint was given; start with --draft"):
        DraftModel(DraftModelConfig(draft="own checkpoint"), kit()[0])


def test_no_room_means_no_draft() -> None:
    lm = random_table(V)
    make: Callable[[TargetKit], Any] = registered("draft_model")
    lane = Setup(lm, PROMPT, 1, draft=lm).lane(make)
    proposal: Proposal = lane.parts.drafter.propose(lane._context())
    assert proposal == Proposal(DraftTree.chain(PROMPT[-1]), (1.0,))
