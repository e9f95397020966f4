"""Many sequences at once: hidden states and logits are those of transformers, one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from specviz.lm.base import FeatureTap
from specviz.lm.batched import CHUNK, BatchedLM, SlotCache
from tests.models import family_config, random_model, tiny_folder, write_folder

CPU = torch.device("cpu")
FAMILIES = ("llama", "llama_tied", "llama_llama3_rope", "qwen2", "mistral")
LENGTHS = (23, 1, 9, 40)
CLOSE = 0.08  # of the norm: bfloat16 through five layers; a wrong mask is off by far more


@pytest.fixture(scope="module", params=FAMILIES)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[BatchedLM, Any]:
    """The batched model, and transformers' in float32 with the same bfloat16 weights."""
    config = family_config(request.param, num_hidden_layers=5, initializer_range=0.12)
    model = random_model(config).bfloat16()
    folder = write_folder(tmp_path_factory.mktemp(request.param), model)
    return BatchedLM(folder, CPU), AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def padded(sequences: list[Tensor]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)


def random_sequences(lengths: tuple[int, ...] = LENGTHS) -> list[Tensor]:
    random = torch.Generator().manual_seed(1)
    return [torch.randint(97, (length,), generator=random) for length in lengths]


def assert_close(found: Tensor, wanted: Tensor) -> None:
    error = (found.float() - wanted.float()).norm() / wanted.float().norm()
    assert error < CLOSE


@torch.no_grad()
def test_a_read_gives_the_hidden_states_of_transformers(pair: tuple[BatchedLM, Any]) -> None:
    lm, model = pair
    sequences = random_sequences()
    taps = (FeatureTap("input", 2), FeatureTap("normed"), FeatureTap("output", 4))
    taps += (FeatureTap("input", 0), FeatureTap("output", 1))
    normed, features = lm.read(padded(sequences), taps)
    assert features is not None
    before_norm: list[Tensor] = []
    model.model.norm.register_forward_pre_hook(lambda _, args: before_norm.append(args[0]))
    for row, sequence in enumerate(sequences):
        before_norm.clear()
        states = model.model(sequence[None], output_hidden_states=True).hidden_states
        wanted = (states[2], states[5], before_norm[0], states[0], states[2])
        parts = features[row, : len(sequence)].split(lm.hidden_size, dim=-1)
        for part, state in zip(parts, wanted, strict=True):
            assert_close(part, state[0])
        assert_close(normed[row, : len(sequence)], states[5][0])


@torch.no_grad()
def test_steps_from_a_cache_give_the_logits_of_a_whole_read(pair: tuple[BatchedLM, Any]) -> None:
    """More slots than attention takes together, each of its own length, one of them empty."""
    lm, model = pair
    lengths = tuple(3 + (7 * i) % 31 for i in range(CHUNK + 3))
    sequences = random_sequences(lengths)
    cache = SlotCache(lm, len(sequences) + 1, 40)
    slots = torch.arange(len(sequences)).flip(0) + 1  # not in order, and slot 0 stays empty
    batch = padded(sequences)
    lm.read(batch[:, :-2], cache=cache, slots=slots)
    for slot, sequence in zip(slots.tolist(), sequences, strict=True):
        cache.lengths[slot] = len(sequence) - 2
    for last in (2, 1):
        tokens = torch.zeros(len(sequences) + 1, dtype=torch.long)
        for slot, sequence in zip(slots.tolist(), sequences, strict=True):
            tokens[slot] = sequence[-last]
        logits = lm.step(tokens, cache)
        for slot, sequence in zip(slots.tolist(), sequences, strict=True):
            whole = model(sequence[None, : len(sequence) - last + 1]).logits[0, -1]
            assert_close(logits[slot], whole)
            assert cache.lengths[slot] == len(sequence) - last + 1


def test_padding_changes_nothing_but_by_rounding(pair: tuple[BatchedLM, Any]) -> None:
    lm, _ = pair
    sequences = random_sequences()
    together, _ = lm.read(padded(sequences))
    for row, sequence in enumerate(sequences):
        alone, _ = lm.read(sequence[None])
        assert_close(together[row, : len(sequence)], alone[0])


def test_the_head_gives_the_logits(pair: tuple[BatchedLM, Any]) -> None:
    lm, model = pair
    normed, _ = lm.read(random_sequences()[0][None])
    with torch.no_grad():
        assert_close(lm.head(normed[0]), model.lm_head(normed[0].float()))


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, random_model(family_config("gpt_neox")))
    with pytest.raises(ValueError, match="cannot be read in batches"):
        BatchedLM(folder, CPU)


def test_no_taps_give_no_features(tmp_path: Path) -> None:
    lm = BatchedLM(tiny_folder(tmp_path), CPU)
    assert lm.read(torch.ones(2, 3, dtype=torch.long))[1] is None
