"""Medusa heads in the names they are published under: the authors' file with logits of its own or
without, a whole model with heads inside, and vLLM's. Numbers are those of a slow reading in float64.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from specviz.config import SamplingParams
from specviz.drafters.medusa import Medusa, MedusaConfig
from specviz.drafters.medusa_files import are_heads
from specviz.lm.checkpoints import DrafterCheckpoint
from tests.drafters.own_texts import PROMPTS, with_weights
from tests.engine.lanes import PLAIN, MakeDrafter, Setup, kit_of
from tests.models import tiny

V, H, K = 97, 64, 3
CHOSEN = [60, 3, 41, 7, 8, 22, 90, 11, 12, 13, 50, 51]  # a token_map need not ascend


class Heads:
    """Random heads as mathematics has them; `named` writes them down as a publisher does."""

    def __init__(self, *, layers: int = 1, rows: int = V, bias: bool = True, seed: int = 3) -> None:
        rng = torch.Generator().manual_seed(seed)

        def drawn(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=rng).bfloat16()

        self.layers = layers
        self.weights = [[drawn(H, H) / 8 for _ in range(layers)] for _ in range(K)]
        self.biases = [[drawn(H) for _ in range(layers)] for _ in range(K)] if bias else None
        self.logits = [drawn(rows, H) for _ in range(K)]

    def named(self, block: str, logits: str = "") -> dict[str, Tensor]:
        """`block` with {i}, {j} and {kind}; `logits` with {i} and {n}, empty: the target's head."""
        found: dict[str, Tensor] = {}
        for i in range(K):
            for j in range(self.layers):
                found[block.format(i=i, j=j, kind="weight")] = self.weights[i][j]
                if self.biases is not None:
                    found[block.format(i=i, j=j, kind="bias")] = self.biases[i][j]
            if logits:
                found[logits.format(i=i, n=self.layers)] = self.logits[i]
        return found

    def guesses(self, state: Tensor, own: list[np.ndarray], ids: list[int]) -> list[list[int]]:
        """[head]: tokens, best first. own: (Vd, H) per head, row r for token ids[r]."""
        found = []
        for i in range(K):
            u = state.double().numpy()
            for j in range(self.layers):
                x = self.weights[i][j].double().numpy() @ u
                if self.biases is not None:
                    x = x + self.biases[i][j].double().numpy()
                u = u + x / (1 + np.exp(-x))
            order = np.argsort(-(own[i] @ u))
            found.append([ids[place] for place in order])
        return found


AUTHORS, VLLM = "{i}.{j}.linear.{kind}", "blocks.{i}.layers.{j}.{kind}"
TOKENS = torch.tensor(CHOSEN)
Case = tuple[Heads, dict[str, Tensor], dict[str, Any], str]


def case(name: str) -> Case:
    """The heads, their file, its config.json, and whose logits: own, target, listed or first."""
    if name == "authors":
        heads = Heads()
        return heads, heads.named(AUTHORS, "{i}.{n}.weight"), {"medusa_num_heads": 2}, "own"
    if name == "authors, two blocks":
        heads = Heads(layers=2)
        return heads, heads.named(AUTHORS, "{i}.{n}.weight"), {"medusa_num_layers": 2}, "own"
    if name == "authors, padded":
        heads = Heads(rows=V + 7)
        return heads, heads.named(AUTHORS, "{i}.{n}.weight"), {}, "own"
    if name == "shared head":
        heads = Heads()
        return heads, heads.named(AUTHORS), {"medusa_num_heads": 3}, "target"
    if name == "inside a model":
        heads = Heads()
        own = heads.named("medusa_head." + AUTHORS, "medusa_head.{i}.{n}.weight")
        model = {"model.norm.weight": torch.ones(H), "lm_head.weight": torch.ones(V, H)}
        return heads, own | model, {"model_type": "llama"}, "own"
    if name == "vllm":
        heads = Heads(bias=False, rows=len(CHOSEN))
        named = heads.named("medusa_heads." + VLLM, "medusa_heads.lm_heads.{i}.weight")
        return heads, named | {"token_map": TOKENS}, {"num_heads": 3}, "listed"
    heads = Heads()
    named = heads.named(VLLM, "lm_heads.{i}.weight")
    kept = {n: t for n, t in named.items() if "lm_heads" not in n or "lm_heads.0" in n}
    config = {"num_heads": 3, "medusa_fc_bias": True, "original_lm_head": True}
    return heads, kept, config, "first"


CASES: tuple[str, ...] = (
    "authors",
    "authors, two blocks",
    "authors, padded",
    "shared head",
    "inside a model",
)
CASES += ("vllm", "vllm, one head for all")


def made(name: str) -> DrafterCheckpoint:
    _, tensors, config, _ = case(name)
    return DrafterCheckpoint(Path("heads"), config, tensors)


def medusa(checkpoint: DrafterCheckpoint, **knobs: Any) -> MakeDrafter:
    return with_weights(lambda kit: Medusa(MedusaConfig(**knobs), kit), {"medusa": checkpoint})


@pytest.mark.parametrize("name", CASES)
def test_guesses_are_those_of_a_slow_reading(name: str) -> None:
    lm, (heads, _, _, whose) = tiny(), case(name)
    target = lm.head(torch.eye(H)).double().numpy().T
    own = {
        "own": [rows[:V].double().numpy() for rows in heads.logits],
        "listed": [rows.double().numpy() for rows in heads.logits],
        "target": [target] * K,
        "first": [heads.logits[0].double().numpy()] * K,
    }[whose]
    drafter = medusa(made(name))(kit_of(lm))
    for seed in range(3):
        state = torch.randn(1, H, generator=torch.Generator().manual_seed(seed))
        wanted = heads.guesses(state[0], own, CHOSEN if whose == "listed" else list(range(V)))
        found = drafter.heads.guess(state, 5)  # type: ignore[attr-defined]
        for ours, slow in zip(found, wanted, strict=True):
            assert [token for token, _ in ours] == slow[:5]


@pytest.mark.parametrize("name", CASES)
def test_lanes_of_every_form_write_the_plain_lanes_text(name: str) -> None:
    lm = tiny()
    for sampling in (SamplingParams(), SamplingParams(temperature=0.9)):
        setup = Setup(lm, PROMPTS[0], 24, sampling, rule="coupled")
        rounds = setup.play(medusa(made(name), budget=12))
        assert len(rounds) > 3
        assert max(len(r.tree) for r in rounds) == 12
        assert [t for r in rounds for t in r.new_tokens] == setup.answer(PLAIN)


def test_heads_are_known_by_their_names() -> None:
    assert all(are_heads(case(name)[1]) for name in CASES)
    assert not are_heads(["model.embed_tokens.weight", "fc.weight", "midlayer.hidden_norm.weight"])


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("authors", {"1.0.linear.bias": None}, "lacks the bias of 1 of its 3 blocks, 1.0.linear"),
        ("vllm, one head for all", {"blocks.2.layers.0.bias": None}, "lacks the bias of 1 of its"),
        ("authors", {"1.0.linear.weight": None, "1.0.linear.bias": None, "1.1.weight": None},
         "holds heads 0, 2 and no head 1: part of it is missing"),
        ("shared head", {"2.0.linear.weight": None, "2.0.linear.bias": None},
         "holds 2 heads and its config.json promises 3"),
        ("authors", {"2.1.weight": torch.ones(V + 200, H)}, "2.1.weight of 297 rows; 97 fit this"),
        ("authors", {"2.1.weight": torch.ones(V, 32)}, "2.1.weight of 97 x 32; any x 64 fits"),
        ("authors", {"2.1.weight": None}, "lacks 1 tensors, 2.1.weight among them"),
        ("vllm", {"token_map": torch.tensor([1, 1, 2])}, "is not a list of different tokens"),
        ("vllm", {"token_map": torch.tensor([1, 500])}, "names token 500; this target has tokens"),
        ("vllm", {"medusa_heads.lm_heads.1.weight": torch.ones(5, H)}, "5 rows; 12, as many as"),
    ],
)  # fmt: skip
def test_faults_are_named(name: str, change: dict[str, Tensor | None], words: str) -> None:
    whole = made(name)
    changed = {n: t for n, t in (whole.tensors | change).items() if t is not None}
    with pytest.raises(ValueError, match=words):
        medusa(replace(whole, tensors=changed))(kit_of(tiny()))
