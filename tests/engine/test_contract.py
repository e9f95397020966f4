"""What every drafter and lane keeps to, besides the text: trees, chances, traces, state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from specviz.config import SamplingParams
from specviz.drafters.base import DraftContext, Drafter, Outcome, Proposal, TargetKit
from specviz.lm.sampling import Sampler
from specviz.trace import RoundTrace
from specviz.trace_io import dump_events
from specviz.tree import DraftTree
from tests.engine.doubles import bushy, making
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

V = 23
PROMPT = [1, 2, 3, 1, 2]
BUDGET = 16
SAMPLINGS = (
    SamplingParams(),
    SamplingParams(temperature=1.0, top_p=0.9),
    SamplingParams(temperature=0.8, top_k=5, repetition_penalty=1.3),
)


@pytest.fixture(params=range(len(SAMPLINGS)))
def setup(request: pytest.FixtureRequest) -> Setup:
    lm = random_table(V)
    return Setup(lm, PROMPT, BUDGET, SAMPLINGS[request.param], draft=blurred(lm))


class Watched:
    """A drafter, and everything it was asked and answered."""

    def __init__(self, drafter: Drafter) -> None:
        self.drafter = drafter
        self.taps, self.description = drafter.taps, drafter.description
        self.asked: list[tuple[DraftContext, Proposal]] = []
        self.observed: list[Outcome] = []

    def start(self, context: DraftContext) -> None:
        self.drafter.start(context)

    def propose(self, context: DraftContext) -> Proposal:
        self.asked.append((context, self.drafter.propose(context)))
        return self.asked[-1][1]

    def observe(self, outcome: Outcome) -> None:
        self.observed.append(outcome)
        self.drafter.observe(outcome)


def watching(make: MakeDrafter, seen: list[Watched]) -> MakeDrafter:
    def made(kit: TargetKit) -> Watched:
        seen.append(Watched(make(kit)))
        return seen[-1]

    return made  # type: ignore[return-value]


@pytest.mark.parametrize(("name", "knobs"), ALL_SETTINGS, ids=SETTING_IDS)
def test_trees_keep_to_their_bounds(setup: Setup, name: str, knobs: Knobs) -> None:
    seen: list[Watched] = []
    rounds = setup.play(watching(make_or_skip(name, knobs, setup), seen))
    committed = list(PROMPT)
    for (context, proposal), round_ in zip(seen[0].asked, rounds, strict=True):
        tree = proposal.tree
        assert list(context.tokens) == committed
        assert tree.tokens[0] == committed[-1]
        drafted = tree.num_draft_tokens + 1
        assert max(tree.depths[:drafted]) <= context.max_depth == BUDGET - 1 - len(committed) + 5
        assert all(0 <= token < V for token in tree.tokens)
        assert len(proposal.draft_probs) == len(tree)
        assert all(0 < q <= 1 for q in proposal.draft_probs)
        assert proposal.draft_probs[0] == 1.0
        assert len(tree) <= 512
        committed += round_.new_tokens


@pytest.mark.parametrize(("name", "knobs"), ALL_SETTINGS, ids=SETTING_IDS)
def test_what_was_drawn_from_is_what_is_verified(setup: Setup, name: str, knobs: Knobs) -> None:
    """q rows are distributions, name the draft's chance, and obey the run's own settings."""
    seen: list[Watched] = []
    setup.play(watching(make_or_skip(name, knobs, setup), seen))
    for context, proposal in seen[0].asked:
        if proposal.child_probs is None:
            continue
        assert proposal.child_probs.dtype == torch.float64
        assert proposal.child_probs.shape == (len(proposal.tree), V)
        for row in range(len(proposal.tree)):
            for child in proposal.tree.children(row):
                q = proposal.child_probs[row]
                assert float(q.sum()) == pytest.approx(1.0)
                assert float(q[proposal.tree.tokens[child]]) == proposal.draft_probs[child] > 0
                is_table = name == "draft_model" and knobs.get("draft") != "trained"
                if is_table and setup.draft is not None:
                    path = [*context.tokens, *proposal.tree.path_tokens(row)]
                    logits = setup.draft.after(path)  # type: ignore[attr-defined]
                    own = Sampler(setup.sampling, V).probs(logits, path)
                    assert torch.equal(q, own)


@pytest.mark.parametrize(("name", "knobs"), ALL_SETTINGS, ids=SETTING_IDS)
def test_outcomes_tell_what_was_committed(setup: Setup, name: str, knobs: Knobs) -> None:
    seen: list[Watched] = []
    rounds = setup.play(watching(make_or_skip(name, knobs, setup), seen))
    for outcome, round_ in zip(seen[0].observed, rounds, strict=True):
        assert outcome.new_tokens == round_.new_tokens
        assert outcome.tree == round_.tree
        assert outcome.verdict == round_.verdict
        assert outcome.logits.shape == (len(round_.tree), V)


def without_seconds(rounds: Sequence[RoundTrace]) -> str:
    still = {"draft_seconds": 0.0, "verify_seconds": 0.0, "commit_seconds": 0.0}
    return dump_events(
        replace(r, draft_step_seconds=(0.0,) * len(r.draft_step_seconds), **still) for r in rounds
    )


@pytest.mark.parametrize(("name", "knobs"), ALL_SETTINGS, ids=SETTING_IDS)
def test_a_seed_decides_the_trace(name: str, knobs: Knobs) -> None:
    lm = random_table(V)
    hot = Setup(lm, PROMPT, BUDGET, SamplingParams(temperature=1.0), draft=blurred(lm))
    make = make_or_skip(name, knobs, hot)
    for rule in ("rejection", "coupled"):
        ruled = replace(hot, rule=rule)  # type: ignore[arg-type]
        one, again, other = (replace(ruled, seed=seed).play(make) for seed in (1, 1, 2))
        assert without_seconds(one) == without_seconds(again)
        assert answer_of(one) != answer_of(other)
        cold = replace(ruled, sampling=SamplingParams())
        assert replace(cold, seed=1).answer(make) == replace(cold, seed=2).answer(make)


@pytest.mark.parametrize(("name", "knobs"), ALL_SETTINGS, ids=SETTING_IDS)
def test_the_worlds_own_randomness_is_left_alone(setup: Setup, name: str, knobs: Knobs) -> None:
    make = make_or_skip(name, knobs, setup)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    for rule in ("rejection", "coupled"):
        replace(setup, rule=rule).play(make)  # type: ignore[arg-type]
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", ["draft_model", "lookahead", "prompt_lookup"])
def test_lanes_played_in_turns_do_not_meet(setup: Setup, name: str) -> None:
    """Two lanes of one drafter, and of two prompts, round by round, equal their solo runs."""
    make = make_or_skip(name, {}, setup)
    setups = (setup, replace(setup, prompt=[9, 8, 9, 8, 7], seed=4), replace(setup, seed=7))
    alone = [s.answer(make) for s in setups]
    lanes = [s.lane(make) for s in setups]
    texts: list[list[int]] = [[], [], []]
    while any(lane.end_reason is None for lane in lanes):
        for lane, text in zip(lanes, texts, strict=True):
            if lane.end_reason is None:
                text += lane.play_round().new_tokens
    assert texts == alone


@pytest.mark.parametrize("shape", ["registry", "branches"])
def test_what_a_round_tells_is_what_happened(setup: Setup, shape: str) -> None:
    """Chances in the trace against the table itself; rows, texts and cache against the text."""
    answer = replace(setup, sampling=SamplingParams()).answer(PLAIN)
    makes = {"": making(bushy(5, answer, V))} if shape == "branches" else makes_here(setup)
    sampler = Sampler(setup.sampling, V)
    for make in makes.values():
        text = list(PROMPT)
        for index, round_ in enumerate(setup.play(make)):
            tree = round_.tree
            assert (round_.index, round_.cache_length) == (index, len(text) - 1)
            assert (round_.rows_written, round_.rows_kept) == (len(tree), len(round_.new_tokens))
            assert len(round_.texts) == len(round_.softmax_probs) == len(tree)
            for row in range(1, tree.num_draft_tokens + 1):
                path = [*text, *tree.path_tokens(row)]
                soft = torch.softmax(setup.lm.after(path[:-1]), -1)[path[-1]]  # type: ignore[attr-defined]
                assert round_.softmax_probs[row] == pytest.approx(float(soft), rel=1e-5)
                if (p := round_.verdict.target_probs[row]) is not None:
                    logits = setup.lm.after(path[:-1])  # type: ignore[attr-defined]
                    assert p == float(sampler.probs(logits, path[:-1])[path[-1]])
            for odds in round_.odds:
                path = [*text, *tree.path_tokens(odds.row)]
                logits = setup.lm.after(path)  # type: ignore[attr-defined]
                first, second = logits.topk(2).values.tolist()
                assert odds.top_two_gap == pytest.approx(first - second)
                for token in odds.odds:
                    assert token.logit == pytest.approx(float(logits[token.token]))
            if (
                own := round_.verdict.next_token
            ) is not None:  # it is told, however unlikely it was
                (told,) = [token for token in round_.odds[-1].odds if token.token == own]
                is_recovered = round_.verdict.next_token_kind == "recovered"
                assert (told.residual_prob is not None) == is_recovered
                assert told.target_prob > 0
            text += round_.new_tokens


def test_a_padded_head_never_speaks() -> None:
    """Rows of the head above the tokenizer's ids are untrained; here they shout.

    Lookahead once took them into its window: the lane ended when their text was looked up.
    """
    table = random_table(V).table.clone()
    table[..., 20:] = 50.0
    lm = TableLM(table)
    for sampling in SAMPLINGS:
        setup = Setup(lm, PROMPT, BUDGET, sampling, num_known_tokens=20, draft=lm)
        for make in makes_here(setup).values():
            rounds = finish(setup.lane(make))
            assert max(answer_of(rounds)) < 20
            assert all(max(round_.tree.tokens) < 20 for round_ in rounds)


def test_the_trace_ranks_no_padding() -> None:
    """A padded row with a large logit stood first among the likeliest, and made the gap wrong."""
    row = torch.randn(360, generator=torch.Generator().manual_seed(0))
    row[350:] = 50.0
    known = Setup(TableLM(row.expand(360, 360, 360)), PROMPT, 5, num_known_tokens=320)
    assert TEXT.num_known_tokens == 320
    for round_ in known.play(PLAIN):
        (odds,) = round_.odds
        assert max(token.token for token in odds.odds) < 320
        assert odds.odds[0].token == round_.new_tokens[0]
        assert odds.top_two_gap < 10


def test_logits_of_minus_infinity_can_be_told() -> None:
    """A trace holds finite numbers only, and some models forbid ids by minus infinity."""
    table = random_table(V).table.clone()
    table[..., 3:] = -torch.inf
    setup = Setup(TableLM(table), PROMPT, 10)
    for round_ in setup.play(PLAIN):
        dump_events([round_])
        assert all(math.isfinite(token.logit) for odds in round_.odds for token in odds.odds)


def test_rows_nobody_asks_for_may_be_no_numbers() -> None:
    """NaN in a row that is never reached: the lane goes on, and the trace can be written."""
    table = random_table(V).table.clone()
    wrong = int(table[PROMPT[-2], PROMPT[-1]].argmin())
    table[PROMPT[-1], wrong] = torch.nan
    setup = Setup(TableLM(table), PROMPT, 1)

    def guess(context: DraftContext) -> DraftTree:
        return DraftTree.chain(context.tokens[-1], (wrong, 1))

    (round_,) = setup.play(making(guess))
    assert round_.verdict.row_status == ("root", "rejected", "unreached")
    dump_events([round_])
