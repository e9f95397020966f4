"""Logits to probabilities, and draws: against transformers' own warpers and against counting."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from specviz.config import SamplingParams
from specviz.lm.sampling import (
    CoupledChance,
    FreeChance,
    Sampler,
    favourites,
    make_chance,
    top_tokens,
)

V = 40


def logits(seed: int = 0, size: int = V, spread: float = 3.0) -> Tensor:
    return spread * torch.randn(size, generator=torch.Generator().manual_seed(seed))


def probs(scores: Tensor, path: Any = (), **params: Any) -> Tensor:
    return Sampler(SamplingParams(**({"temperature": 1.0} | params)), len(scores)).probs(
        scores, path
    )


@given(
    st.integers(0, 10_000),
    st.floats(0.05, 20.0),
    st.integers(0, 50),
    st.floats(0.05, 1.0),
    st.floats(0.0, 0.9),
    st.floats(0.3, 3.0),
    st.lists(st.integers(0, V - 1), min_size=1, max_size=8),
)
@settings(max_examples=150, deadline=None)
def test_settings_mean_what_transformers_means(
    seed: int, temperature: float, top_k: int, top_p: float, min_p: float, penalty: float,
    path: list[int],
) -> None:  # fmt: skip
    scores = logits(seed).double()
    steps: list[Any] = [
        RepetitionPenaltyLogitsProcessor(penalty),
        TemperatureLogitsWarper(temperature),
    ]
    steps += [TopKLogitsWarper(top_k)] if top_k else []
    steps += [TopPLogitsWarper(top_p)] if top_p < 1 else []
    steps += [MinPLogitsWarper(min_p)] if min_p > 0 else []
    theirs = LogitsProcessorList(steps)(torch.tensor([path]), scores.clone()[None])
    params = SamplingParams(temperature, top_k, top_p, min_p, penalty)
    ours = Sampler(params, V).probs(scores, path)
    if top_k == 1:
        assert ours.max() == 1.0
        assert int(ours.argmax()) == int(theirs.argmax())
    else:
        assert torch.allclose(ours, torch.softmax(theirs[0], -1), atol=1e-12)


@given(
    st.integers(0, 10_000),
    st.sampled_from([0.0, 1e-38, 1e-8, 1e-5, 1e-3, 0.7, 1.0, 100.0]),
    st.sampled_from([0, 1, 2, V, 10**6]),
    st.sampled_from([0.0, 1e-12, 1e-6, 1e-4, 0.5, 1.0]),
    st.sampled_from([0.0, 1e-6, 0.3, 1.0]),
    st.sampled_from([0.1, 1.0, 10.0]),
    st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
)
@settings(max_examples=200, deadline=None)
def test_any_settings_give_a_distribution(
    seed: int, temperature: float, top_k: int, top_p: float, min_p: float, penalty: float,
    dtype: torch.dtype,
) -> None:  # fmt: skip
    params = SamplingParams(temperature, top_k, top_p, min_p, penalty)
    scores = logits(seed, spread=30.0).to(dtype)
    before = scores.clone()
    p = Sampler(params, V - 3).probs(scores, [1, 2, 2])
    assert torch.equal(scores, before)  # the model's own tensor is not changed
    assert p.dtype == torch.float64
    assert p.shape == (V,)
    assert bool((p >= 0).all())
    assert float(p.sum()) == pytest.approx(1.0, abs=1e-12)
    assert float(p[V - 3 :].sum()) == 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "cold",
    [
        *({"temperature": t} for t in (0.0, 1e-38, 1e-8, 1e-6, 1e-5, 1e-3)),
        *({"top_p": p} for p in (0.0, 1e-6, 1e-4)),
        {"top_k": 1, "temperature": 5.0},
        {"min_p": 1.0},
    ],
)
def test_cold_settings_are_greedy(cold: dict[str, Any], dtype: torch.dtype) -> None:
    """Half-precision logits over a tiny temperature are infinite; the mass then was NaN."""
    for seed in range(20):
        scores = logits(seed).to(dtype)
        first, second = scores.float().topk(2).values
        if first == second or (first - second < 0.05 and cold.get("temperature") == 1e-3):
            continue
        p = probs(scores, **cold)
        assert int(p.argmax()) == int(scores.float().argmax())
        assert float(p.max()) == pytest.approx(1.0, abs=1e-9)


def test_a_hot_temperature_is_nearly_uniform_over_what_is_kept() -> None:
    p = probs(logits(), temperature=100.0, top_k=8)
    kept = p[p > 0]
    assert len(kept) == 8
    assert float(kept.max() / kept.min()) < 1.2


def test_the_nucleus_that_reaches_its_mass_exactly_takes_no_more() -> None:
    """One token too many was taken when the sum hit top_p, by a comparison at its edge."""
    scores = torch.tensor([0.5, 0.3, 0.1, 0.1], dtype=torch.float64).log()
    assert (probs(scores, top_p=0.8) > 0).tolist() == [True, True, False, False]
    assert (probs(scores, top_p=0.8001) > 0).tolist() == [True, True, True, False]
    assert (probs(scores, top_p=0.5) > 0).tolist() == [True, False, False, False]


@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_ties_at_the_edge_go_to_the_lowest_ids(top_k: int) -> None:
    """top_k = 1 kept two tokens of equal score elsewhere."""
    scores = torch.tensor([0.0, 5.0, 1.0, 5.0, 5.0])
    kept = [1, 3, 4][:top_k]
    assert probs(scores, top_k=top_k).nonzero().flatten().tolist() == kept


def test_ties_go_to_the_lowest_id_everywhere() -> None:
    row = torch.zeros(30_000)
    row[[7, 900, 29_999]] = 4.0
    assert favourites(torch.stack((row, -row))) == [7, 0]
    assert top_tokens(row, 2) == [7, 900]
    assert top_tokens(row, 5) == [7, 900, 29_999, 0, 1]
    assert top_tokens(row[:3], 9) == [0, 1, 2]
    assert int(probs(row, temperature=0.0).argmax()) == 7
    assert float(probs(row, temperature=1.0, top_p=1e-9)[7]) == 1.0


@pytest.mark.parametrize("penalty", [0.5, 2.0])
def test_a_penalty_counts_each_token_of_the_path_once(penalty: float) -> None:
    scores = torch.tensor([2.0, -2.0, 1.0, 0.0])
    p = probs(scores, [0, 1, 1, 1, 0], repetition_penalty=penalty)
    wanted = torch.tensor([2.0 / penalty, -2.0 * penalty, 1.0, 0.0], dtype=torch.float64)
    assert torch.allclose(p, torch.softmax(wanted, -1), atol=1e-15)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_scores_that_are_no_numbers_are_an_error(bad: float, temperature: float) -> None:
    scores = logits()
    scores[3] = bad
    with pytest.raises(FloatingPointError, match="not numbers here .*; try float32"):
        probs(scores, temperature=temperature)
    with pytest.raises(FloatingPointError):
        probs(torch.full((4,), -torch.inf), temperature=temperature)


def test_padding_that_is_no_number_does_not_matter() -> None:
    scores = logits()
    scores[-2:] = torch.nan
    p = Sampler(SamplingParams(temperature=1.0), V - 2).probs(scores, ())
    assert float(p.sum()) == pytest.approx(1.0)


# Draws.


@pytest.mark.parametrize("rule", ["rejection", "coupled"])
def test_draws_follow_the_probabilities(rule: str) -> None:
    """Chi-square over seeds at one position, and over positions at one seed."""
    p = torch.tensor([0.4, 0.0, 0.3, 0.2, 0.1, 0.0], dtype=torch.float64)
    runs = 6000
    chance = make_chance(rule, 5)
    by_position = Counter(chance.token(p, position) for position in range(runs))
    by_seed = Counter(make_chance(rule, seed).token(p, 9) for seed in range(runs))
    for counts in (by_position, by_seed):
        assert set(counts) == {0, 2, 3, 4}
        wanted = {i: runs * float(p[i]) for i in counts}
        statistic = sum((counts[i] - wanted[i]) ** 2 / wanted[i] for i in counts)
        assert statistic < 21.1  # 3 degrees of freedom, one in ten thousand


def test_free_draws_hit_only_tokens_with_mass(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = FreeChance(0)
    p = torch.tensor([0.0, 0.25, 0.0, 0.75, 0.0], dtype=torch.float64)
    for mark, token in ((0.0, 1), (0.2499, 1), (0.25, 3), (1 - 2**-53, 3), (1.0, 3)):
        monkeypatch.setattr(chance, "uniform", lambda mark=mark: mark)
        assert chance.token(p, 0) == token


def test_coupled_draws_are_a_function_of_seed_and_position() -> None:
    """Whoever draws there, in whatever order, from the same p: the same token."""
    p = torch.softmax(logits().double(), -1)
    forward = CoupledChance(7)
    ahead = [forward.token(p, position) for position in range(200)]
    backward = CoupledChance(7)
    behind = [backward.token(p, position) for position in reversed(range(200))]
    assert ahead == behind[::-1]
    other = CoupledChance(8)
    assert ahead != [other.token(p, position) for position in range(200)]


def test_coupled_draws_from_near_distributions_mostly_agree() -> None:
    """P(same) is at least (1 - d) / (1 + d) for a total variation d (Daliri et al. 2024)."""
    p = torch.softmax(logits(0).double(), -1)
    q = torch.softmax(logits(0).double() + 0.3 * logits(1).double() / 3, -1)
    distance = 0.5 * float((p - q).abs().sum())
    chance, runs = CoupledChance(1), 3000
    same = sum(chance.token(p, i) == chance.token(q, i) for i in range(runs)) / runs
    assert same > (1 - distance) / (1 + distance) - 0.03
    free = FreeChance(1)
    assert same > sum(free.token(p, i) == free.token(q, i) for i in range(runs)) / runs


def test_neighbouring_positions_and_seeds_draw_independently() -> None:
    """The seed of a position is a mix of two numbers: no pattern may show through."""
    p = torch.full((2,), 0.5, dtype=torch.float64)
    runs = 4000
    for near in ((0, 1), (1, 0)):
        pairs = Counter(
            (
                CoupledChance(seed).token(p, seed),
                CoupledChance(seed + near[0]).token(p, seed + near[1]),
            )
            for seed in range(runs)
        )
        statistic = sum((pairs[a, b] - runs / 4) ** 2 / (runs / 4) for a in (0, 1) for b in (0, 1))
        assert statistic < 21.1


def test_uniform_numbers_are_the_seeds_own() -> None:
    draws = [FreeChance(seed).uniform() for seed in range(2000)]
    assert all(0 <= draw < 1 for draw in draws)
    assert FreeChance(3).uniform() == draws[3]
    assert sum(draw < 0.25 for draw in draws) / 2000 == pytest.approx(0.25, abs=0.04)
