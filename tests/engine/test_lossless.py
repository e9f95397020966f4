"""The promise, for every drafter of the registry at several settings, through the whole lane.

Greedy: the argmax of the target after its own text, token by token. Sampled: the joint
distribution of the first tokens, every outcome enumerated; then drawn, on more tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
import torch

from specviz.config import SamplingParams, VerificationRule
from specviz.drafters import DRAFTERS
from specviz.lm.sampling import FreeChance, Sampler
from tests.engine.chances import ScriptedChance, enumerate_outcomes
from tests.engine.doubles import ConfidentDouble, bushy, chains, constant, half, making, oracle
from tests.engine.lanes import (
    ALL_SETTINGS,
    PLAIN,
    SETTING_IDS,
    Knobs,
    MakeDrafter,
    Setup,
    make_or_skip,
    makes_here,
)
from tests.engine.tables import TableLM, blurred, random_table

V = 13
PROMPT = [1, 2, 3, 1, 2]
PENALTIES = {
    "plain": SamplingParams(),
    "discouraged": SamplingParams(repetition_penalty=1.8),
    "encouraged": SamplingParams(repetition_penalty=0.6),
}


def greedy_by_hand(lm: TableLM, sampling: SamplingParams, count: int) -> list[int]:
    """Argmax, token by token, the penalty on every token so far; no code of the engine."""
    text, penalty = list(PROMPT), sampling.repetition_penalty
    for _ in range(count):
        logits = lm.after(text).double().tolist()
        for token in set(text):
            logits[token] *= penalty if logits[token] < 0 else 1 / penalty
        text.append(max(range(len(logits)), key=logits.__getitem__))  # the lowest id of equals
    return text[len(PROMPT) :]


@pytest.fixture(params=PENALTIES)
def setup(request: pytest.FixtureRequest) -> Setup:
    lm = random_table(V)
    return Setup(lm, PROMPT, budget=40, sampling=PENALTIES[request.param], draft=blurred(lm))


@pytest.mark.parametrize(("name", "knobs"), ALL_SETTINGS, ids=SETTING_IDS)
def test_greedy_is_the_targets_argmax(setup: Setup, name: str, knobs: Knobs) -> None:
    make = make_or_skip(name, knobs, setup)
    for seed in range(2):
        lm = random_table(V, seed=seed)
        played = replace(setup, lm=lm, draft=blurred(lm), seed=seed)
        assert played.answer(make) == greedy_by_hand(lm, setup.sampling, 40)


DOUBLES: dict[str, Callable[[list[int]], MakeDrafter]] = {
    "oracle": lambda answer: making(oracle(len(PROMPT), answer)),
    "hostile": lambda answer: making(
        oracle(len(PROMPT), [(t + 5) % V for t in answer]), ConfidentDouble
    ),
    "confident and right": lambda answer: making(oracle(len(PROMPT), answer), ConfidentDouble),
    "half": lambda answer: making(half(len(PROMPT), answer, V)),
    "one token": lambda answer: making(constant(7, 1)),
    "sixteen tokens": lambda answer: making(constant(7, 16)),
    "the highest id": lambda answer: making(constant(V - 1, 16), ConfidentDouble),
    "branches": lambda answer: making(bushy(len(PROMPT), answer, V)),
    "repeats the last": lambda answer: making(chains(lambda c: [c.tokens[-1]] * 5)),
}


@pytest.mark.parametrize("double", DOUBLES)
def test_whatever_is_drafted_greedy_stays_greedy(setup: Setup, double: str) -> None:
    answer = greedy_by_hand(setup.lm, setup.sampling, 60)  # type: ignore[arg-type]
    rounds = setup.play(DOUBLES[double](answer))
    assert [token for r in rounds for token in r.new_tokens] == answer[:40]
    kept = sum(len(r.verdict.accepted_rows) for r in rounds)
    if double == "hostile":
        assert (kept, len(rounds)) == (0, 40)
    if double in ("oracle", "confident and right"):
        assert kept == 40 - len(rounds)
        assert len(rounds) == 5  # 8 drafts and the target's own token, 40 in all


@pytest.mark.parametrize("temperature", [1e-3, 1e-5, 1e-6, 1e-8, 1e-38])
def test_an_oracle_is_accepted_at_any_cold_temperature(temperature: float) -> None:
    lm = random_table(V)
    setup = Setup(lm, PROMPT, 40, SamplingParams(temperature=temperature))
    answer = greedy_by_hand(lm, SamplingParams(), 60)
    for double in (making(oracle(5, answer)), making(oracle(5, answer), ConfidentDouble)):
        assert len(setup.play(double)) == 5


def test_a_draft_length_seen_before_leaves_no_trace_in_the_penalty() -> None:
    """Penalty data sized for one draft length was read past its end at the next."""
    lm = random_table(V)
    setup = Setup(lm, PROMPT, 40, PENALTIES["discouraged"])
    answers = [setup.answer(making(constant(7, length))) for length in (1, 16, 3, 16, 1)]
    assert answers == [setup.answer(PLAIN)] * 5


# Sampled: three tokens, a vocabulary of three, every outcome of the whole lane.

SMALL = 3
SAMPLINGS = {
    "as it is": SamplingParams(temperature=1.0),
    "cool": SamplingParams(temperature=0.5),
    "two likeliest": SamplingParams(temperature=1.2, top_k=2),
    "nucleus": SamplingParams(temperature=1.0, top_p=0.7),
    "floor and penalty": SamplingParams(temperature=1.3, min_p=0.25, repetition_penalty=1.6),
}


def joint(lm: TableLM, sampling: SamplingParams, prompt: list[int]) -> dict[tuple[int, ...], float]:
    """p of three tokens when the target writes alone."""
    sampler, found = Sampler(sampling, SMALL), {}
    for tokens in product(range(SMALL), repeat=3):
        share = 1.0
        for end in range(3):
            text = [*prompt, *tokens[:end]]
            share *= float(sampler.probs(lm.after(text), text)[tokens[end]])
        found[tokens] = share
    return found


# A drafter that draws every node of its tree has more outcomes than can be enumerated.
FEW_DRAWS: dict[str, Knobs] = {"eagle": {"budget": 4}}


class PromptIsNoChance(ScriptedChance):
    """A drafter may draw from the prompt when it starts; what it picks does not matter here."""

    has_started = False

    def uniform(self) -> object:
        return super().uniform() if self.has_started else 0.4


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", [*DRAFTERS, "bushy", "confident"])
def test_sampled_text_has_the_targets_joint_distribution(name: str, sampling: str) -> None:
    lm, prompt = random_table(SMALL, seed=4), [0, 1, 2, 0, 1]
    setup = Setup(lm, prompt, 3, SAMPLINGS[sampling], draft=blurred(lm))
    doubles = {
        "bushy": making(bushy(len(prompt), [2, 0, 1], SMALL)),
        "confident": making(constant(2, 2)),
    }
    make = doubles.get(name) or make_or_skip(name, FEW_DRAWS.get(name, {}), setup)

    def run(chance: ScriptedChance) -> tuple[int, ...]:
        started = PromptIsNoChance(chance.script)
        lane = setup.lane(make, chance=started)
        started.has_started = True
        text = list[int]()
        while lane.end_reason is None:
            text += lane.play_round().new_tokens
        chance.__dict__.update(started.__dict__)
        return tuple(text)

    found, wanted = enumerate_outcomes(run), joint(lm, SAMPLINGS[sampling], prompt)
    assert set(found) <= set(wanted)
    assert max(abs(found.get(t, 0.0) - wanted[t]) for t in wanted) < 1e-12


@pytest.mark.parametrize("rule", ["rejection", "coupled"])
@pytest.mark.parametrize("name", DRAFTERS)
def test_drawn_text_follows_the_target(name: str, rule: VerificationRule) -> None:
    """Chi-square of the first two tokens over real generators, one seed per run."""
    lm, prompt, runs = random_table(5, seed=2, spread=1.0), [0, 1, 2, 0, 1], 800
    sampling = SamplingParams(temperature=0.9, top_k=4)
    setup = Setup(lm, prompt, 2, sampling, rule, draft=blurred(lm))
    make = make_or_skip(name, {}, setup)
    counts = Counter(tuple(replace(setup, seed=seed).answer(make)) for seed in range(runs))
    sampler, statistic, cells = Sampler(sampling, 5), 0.0, 0
    for first, second in product(range(5), repeat=2):
        p = float(sampler.probs(lm.after(prompt), ())[first])
        p *= float(sampler.probs(lm.after([*prompt, first]), ())[second])
        if p == 0:
            assert counts[first, second] == 0
            continue
        statistic += (counts[first, second] - runs * p) ** 2 / (runs * p)
        cells += 1
    assert sum(counts.values()) == runs
    assert statistic < chi_square_bound(cells - 1)


def chi_square_bound(freedom: int) -> float:
    """Exceeded by chance once in ten thousand (Wilson and Hilferty's approximation)."""
    z = 3.72
    return freedom * (1 - 2 / (9 * freedom) + z * (2 / (9 * freedom)) ** 0.5) ** 3


def test_the_bound_catches_a_drafter_of_its_own_mind() -> None:
    """Were the draft's tokens kept unread, the statistic would be far past the bound."""
    lm = random_table(5, seed=2, spread=1.0)
    p = Sampler(SamplingParams(temperature=0.9, top_k=4), 5).probs(lm.after([0, 1]), ())
    q = Sampler(SamplingParams(temperature=0.9, top_k=4), 5).probs(blurred(lm).after([0, 1]), ())
    chance, runs = FreeChance(0), 1500
    counts = Counter(chance.token(q, 0) for _ in range(runs))
    seen = [i for i in range(5) if p[i] > 0]
    statistic = sum((counts[i] - runs * float(p[i])) ** 2 / (runs * float(p[i])) for i in seen)
    assert statistic > 3 * chi_square_bound(len(seen) - 1)


@pytest.mark.parametrize("temperature", [0.7, 1.5])
@pytest.mark.parametrize(("name", "knobs"), ALL_SETTINGS, ids=SETTING_IDS)
def test_coupled_lanes_write_the_plain_lanes_text(
    name: str, knobs: Knobs, temperature: float
) -> None:
    lm = random_table(V)
    for seed in range(2):
        sampling = SamplingParams(temperature=temperature, top_p=0.95)
        setup = Setup(lm, PROMPT, 30, sampling, "coupled", seed, draft=blurred(lm))
        assert setup.answer(make_or_skip(name, knobs, setup)) == setup.answer(PLAIN)


def test_a_coupled_copy_of_the_target_is_always_right() -> None:
    """Drawn with the same noise from the same distribution, every draft token is the target's own."""
    lm = random_table(V)
    setup = Setup(lm, PROMPT, 40, SamplingParams(temperature=1.5), "coupled", 3, draft=lm)
    for round_ in setup.play(make_or_skip("draft_model", {"num_draft_tokens": 4}, setup)):
        assert len(round_.verdict.accepted_rows) == round_.tree.num_draft_tokens


@pytest.mark.parametrize("name", DRAFTERS)
def test_hot_text_varies_as_plain_text_does(name: str) -> None:
    """Some engines built the right probabilities and then took their argmax."""
    lm = random_table(V)
    firsts = {}
    for which in ("autoregressive", name):
        setup = Setup(lm, PROMPT, 1, SamplingParams(temperature=1.5), draft=blurred(lm))
        make = make_or_skip(which, {}, setup)
        firsts[which] = {replace(setup, seed=s).answer(make)[0] for s in range(150)}
    assert len(firsts[name]) > 0.6 * len(firsts["autoregressive"]) > 3


@pytest.mark.parametrize("name", DRAFTERS)
def test_a_token_outside_the_nucleus_never_comes(name: str) -> None:
    """A banned id, and all that top-p and min-p cut off, at any place of the text."""
    lm = random_table(V, spread=1.0)
    table = lm.table.clone()
    table[..., 4] -= 100.0
    lm = TableLM(table)
    eager = TableLM(table.index_fill(-1, torch.tensor([4]), 9.0))  # the draft loves that id
    sampling = SamplingParams(temperature=1.2, top_p=0.6, min_p=0.1)
    sampler = Sampler(sampling, V)
    for seed in range(15):
        setup = Setup(lm, [4, 1, 4, 4, 1], 30, sampling, seed=seed, draft=eager)
        text = [4, 1, 4, 4, 1]
        for token in setup.answer(make_or_skip(name, {}, setup)):
            assert float(sampler.probs(lm.after(text), text)[token]) > 0
            text.append(token)
        assert 4 not in text[5:]


@pytest.mark.parametrize("double", ["branches", "half", "oracle"])
def test_two_equal_logits_go_to_the_lower_id(double: str) -> None:
    """One engine ranked with > on one path and >= on the other."""
    table = random_table(V).table.clone()
    table[..., 12] = table.max(-1).values  # a tie with the favourite, everywhere
    lm = TableLM(table)
    answer = greedy_by_hand(lm, SamplingParams(), 60)
    setup = Setup(lm, PROMPT, 40, draft=lm)
    assert setup.answer(DOUBLES[double](answer)) == answer[:40]
    for make in makes_here(setup).values():
        assert setup.answer(make) == answer[:40]
