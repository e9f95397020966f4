"""EAGLE-3 against float64 recomputed from the whole text, and against a language."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specviz.drafters.eagle3 import Eagle3
from specviz.lm.base import FeatureTap
from specviz.lm.checkpoints import DrafterCheckpoint
from tests.drafters.checkpoints import checkpoint, eagle, eagle3
from tests.drafters.eagle64 import Eagle64
from tests.drafters.eagle_rounds import (
    CYCLE,
    CycleLM,
    cycle_vocabulary,
    made,
    rounds_by_hand,
    text_target,
)
from tests.drafters.growth_by_hand import assert_same_tree, dynamic_by_hand
from tests.engine.lanes import Setup, kit_of
from tests.lm.layer64 import random_layer


@pytest.mark.parametrize("prefix", ["midlayer.", "layers.0."])
def test_it_drafts_what_the_whole_text_says(prefix: str) -> None:
    lm = text_target()
    weights = eagle3(lm)
    named = {n.replace("midlayer.", prefix): t for n, t in weights.tensors.items()}
    knobs = {"top_k": 4, "depth": 5, "budget": 16}
    make = made("eagle3", knobs, replace(weights, tensors=named))  # type: ignore[arg-type]
    for tokens, features, proposal in rounds_by_hand(make(kit_of(lm)), (2, 0, 3, 1, 0), 48):
        truth = Eagle64(weights, lm, tokens, features)
        wanted = dynamic_by_hand(truth.log_probs, truth.ids.tolist(), 4, 5, 16)
        assert_same_tree(proposal, wanted, tolerance=2e-4)


def test_it_reads_what_enters_a_low_a_middle_and_a_high_layer() -> None:
    lm = text_target()
    for num_layers, layers in ((28, (2, 14, 25)), (30, (2, 15, 27)), (36, (2, 18, 33))):
        kit = replace(kit_of(lm), num_layers=num_layers)
        drafter = Eagle3(Eagle3.Config(), kit)
        assert drafter.taps == tuple(FeatureTap("input", layer) for layer in layers)
    with pytest.raises(ValueError, match="has 4 layers"):
        Eagle3(Eagle3.Config(), replace(kit_of(lm), num_layers=4))


def cycle_weights(lm: CycleLM, which: int) -> DrafterCheckpoint:
    """fc takes one of the three features; the layer turns a token's state into the next token's.

    Of a unit vector u in 16 dimensions the norm makes 4 u, gate and up make silu(4) * 4 of it, and
    down adds to u what it takes to become its successor.
    """
    gain = 4.0 / (1.0 + torch.exp(torch.tensor(-4.0))) * 4.0
    layer = {
        name: torch.zeros_like(t)
        for name, t in random_layer("midlayer.", 16, 16, inputs=32, kv=8, scale=1, seed=0).items()
    }
    fc = torch.zeros(3, 16, 16)
    fc[which] = torch.eye(16)
    tensors = layer | {
        "fc.weight": torch.cat(list(fc), dim=1),
        "midlayer.mlp.gate_proj.weight": torch.eye(16),
        "midlayer.mlp.up_proj.weight": torch.eye(16),
        "midlayer.mlp.down_proj.weight": (lm.after_token.T - torch.eye(16)) / gain,
        "midlayer.post_attention_layernorm.weight": torch.ones(16),
        "midlayer.input_layernorm.weight": torch.ones(16),
        "midlayer.hidden_norm.weight": torch.ones(16),
        "norm.weight": torch.ones(16),
    }
    found, offsets = checkpoint(lm, tensors), cycle_vocabulary()
    ids = torch.arange(len(offsets)) + offsets
    own = {"d2t": offsets, "lm_head.weight": lm.head_weight.float()[ids]}
    config = found.config | {"draft_vocab_size": len(ids)}
    return replace(found, config=config, tensors={**found.tensors, **own})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_one_who_knows_the_language_is_right_at_every_depth(which: int, dtype: torch.dtype) -> None:
    """Any error of one in pairing rows with features, and nothing would be accepted."""
    lm = CycleLM(dtype)
    setup = Setup(lm, [CYCLE[(2 + i) % 11] for i in range(7)], 40)
    rounds = setup.play(made("eagle3", {"depth": 5}, cycle_weights(lm, which)))
    text = [token for round_ in rounds for token in round_.new_tokens]
    assert text == [CYCLE[(9 + i) % 11] for i in range(40)]
    for round_ in rounds:
        assert len(round_.verdict.accepted_rows) == max(round_.tree.depths)
    assert max(rounds[0].tree.depths) == 5


def test_another_drafters_weights_are_refused() -> None:
    lm = text_target()
    with pytest.raises(ValueError, match=r"EAGLE-3 drafter in .* lacks .* looks like EAGLE-1"):
        made("eagle3", {}, eagle(lm))(kit_of(lm))
    with pytest.raises(ValueError, match=r"EAGLE-1 drafter in .* looks like EAGLE-3"):
        made("eagle2", {}, eagle3(lm))(kit_of(lm))


def test_a_head_that_is_not_of_its_vocabulary_is_refused() -> None:
    lm = text_target()
    weights = eagle3(lm)
    short = {**weights.tensors, "lm_head.weight": torch.zeros(9, 16)}
    with pytest.raises(ValueError, match="9 in lm_head.weight, 25 in d2t"):
        made("eagle3", {}, replace(weights, tensors=short))(kit_of(lm))
