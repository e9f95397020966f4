"""Greedy lanes on tiny transformers models, float32, against transformers' own `generate`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers

from specviz.config import SamplingParams
from specviz.lm.base import LanguageModel
from specviz.lm.plain import PlainLM
from specviz.tree import DraftTree
from tests.engine.doubles import bushy, half, making, oracle
from tests.engine.lanes import (
    ALL_SETTINGS,
    PLAIN,
    SETTING_IDS,
    Knobs,
    Setup,
    registered,
)
from tests.models import random_model, tiny

PROMPTS = ([7], [5, 6, 7, 8, 9, 10, 11, 7, 8], [40, 41, 42, 40, 41, 42, 40, 41] * 3)


@pytest.fixture(scope="module")
def target() -> PlainLM:
    return tiny(num_hidden_layers=6)  # EAGLE-3 reads three different ones


@pytest.fixture(scope="module")
def draft() -> PlainLM:
    return tiny(num_hidden_layers=1)  # the same first layer: seeds are drawn in order


def generated(lm: PlainLM, prompt: list[int], count: int, **options: Any) -> list[int]:
    with torch.random.fork_rng():
        ids = lm.model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False,
            max_new_tokens=count,
            pad_token_id=0,
            **({"eos_token_id": None} | options),
        )
    answer: list[int] = ids[0, len(prompt) :].tolist()
    return answer


@pytest.mark.parametrize("penalty", [1.0, 1.3, 0.7])
@pytest.mark.parametrize(("name", "knobs"), ALL_SETTINGS, ids=SETTING_IDS)
def test_a_lane_writes_what_generate_writes(
    target: PlainLM, draft: PlainLM, name: str, knobs: Knobs, penalty: float
) -> None:
    prompt = PROMPTS[1]
    sampling = SamplingParams(repetition_penalty=penalty)
    setup = Setup(target, prompt, 16, sampling, draft=draft)
    try:
        answer = setup.answer(registered(name, knobs))
    except ValueError as reason:
        pytest.skip(str(reason))
    assert answer == generated(target, prompt, 16, repetition_penalty=penalty)


@pytest.mark.parametrize("prompt", PROMPTS, ids=["one token", "repeats", "copies"])
def test_doubles_write_what_generate_writes(target: PlainLM, prompt: list[int]) -> None:
    wanted = generated(target, prompt, 40)
    setup = Setup(target, prompt, 24)
    for guess in (
        oracle(len(prompt), wanted),
        half(len(prompt), wanted, 97),
        bushy(len(prompt), wanted, 97),
    ):
        assert setup.answer(making(guess)) == wanted[:24]


@pytest.mark.parametrize("index", [1, 4, 9])
def test_an_end_token_stops_both(target: PlainLM, index: int) -> None:
    prompt = PROMPTS[1]
    answer = generated(target, prompt, 40)
    ends = [answer[index], answer[index + 3]]
    wanted = generated(target, prompt, 20, eos_token_id=ends)
    setup = Setup(target, prompt, 20, eos=frozenset(ends))
    assert setup.answer(making(oracle(len(prompt), answer))) == wanted


def test_an_accepted_prefix_never_moves_the_buffer(target: PlainLM) -> None:
    """A rollback once sliced a fixed cache into a shorter one. Ours keeps address and size."""
    prompt = PROMPTS[1]
    wanted = generated(target, prompt, 110)
    lane = Setup(target, prompt, 100).lane(making(half(len(prompt), wanted, 97)))
    lane.play_round()
    facts = [(layer.keys.data_ptr(), layer.keys.shape) for layer in lane.parts.cache.layers]  # type: ignore[attr-defined]
    while lane.end_reason is None:
        lane.play_round()
    assert facts == [(x.keys.data_ptr(), x.keys.shape) for x in lane.parts.cache.layers]  # type: ignore[attr-defined]
    assert list(lane.tokens[len(prompt) :]) == wanted[:100]


def near_the_end(lm: LanguageModel, name: str, knobs: Knobs) -> list[int]:
    prompt = [(5 * i) % 97 for i in range(lm.max_context - 6)]
    return Setup(lm, prompt, 50, draft=lm).answer(registered(name, knobs))


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize(("name", "knobs"), ALL_SETTINGS, ids=SETTING_IDS)
def test_the_last_positions_of_the_context(
    target: PlainLM, family: str, name: str, knobs: Knobs
) -> None:
    """GPT-2 looks positions up in a table: a window row past its end was an index error."""
    config = transformers.GPT2Config(
        vocab_size=97, n_embd=32, n_layer=2, n_head=2, n_positions=64, initializer_range=0.2
    )
    lm = target if family == "llama" else PlainLM(random_model(config), 64)
    try:
        answer = near_the_end(lm, name, knobs)
    except ValueError as reason:
        pytest.skip(str(reason))
    assert answer == near_the_end(lm, "autoregressive", {})
    assert len(answer) == 6


def test_a_tree_round_agrees_with_rounds_of_one_row(target: PlainLM) -> None:
    """Keeping a branch in the middle of a tree leaves the cache a plain lane would have."""
    prompt = PROMPTS[1]
    wanted = generated(target, prompt, 40)
    tree = Setup(target, prompt, 24).lane(making(bushy(len(prompt), wanted, 97)))
    plain = replace(Setup(target, prompt, 24)).lane(PLAIN)
    while tree.end_reason is None:
        tree.play_round()
    while plain.end_reason is None:
        plain.play_round()
    ours, theirs = tree.parts.cache, plain.parts.cache
    after = [target.read(DraftTree.chain(3), cache).logits for cache in (ours, theirs)]
    assert torch.allclose(*after, atol=1e-4)
