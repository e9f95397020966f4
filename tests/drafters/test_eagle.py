"""EAGLE-1 and EAGLE-2 against float64 recomputed from the whole text, and against a language."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from specviz.config import SamplingParams
from specviz.drafters.eagle import ASSUMED_RATES
from specviz.drafters.static_growth import likeliest_paths
from specviz.lm.checkpoints import DrafterCheckpoint
from specviz.lm.sampling import FreeChance, Sampler
from tests.drafters.checkpoints import checkpoint, eagle
from tests.drafters.eagle64 import Eagle64
from tests.drafters.eagle_rounds import (
    CYCLE,
    CycleLM,
    V,
    context_of,
    cycle_vocabulary,
    made,
    rounds_by_hand,
    text_target,
)
from tests.drafters.growth_by_hand import assert_same_tree, dynamic_by_hand, static_by_hand
from tests.engine.lanes import Setup, kit_of
from tests.lm.layer64 import random_layer

ACCEPTED = (2, 0, 3, 1, 0)
TOLERANCE = 2e-4


def biased(weights: DrafterCheckpoint) -> DrafterCheckpoint:
    """As published for Vicuna: fc has a bias."""
    bias = 0.3 * torch.randn(16, generator=torch.Generator().manual_seed(8))
    return replace(weights, tensors={**weights.tensors, "fc.bias": bias})


@pytest.mark.parametrize("has_bias", [False, True])
def test_eagle2_drafts_what_the_whole_text_says(has_bias: bool) -> None:
    lm = text_target()
    weights = biased(eagle(lm)) if has_bias else eagle(lm)
    knobs = {"top_k": 4, "depth": 4, "budget": 16}
    drafter = made("eagle2", knobs, weights)(kit_of(lm))  # type: ignore[arg-type]
    for tokens, features, proposal in rounds_by_hand(drafter, ACCEPTED, 16):
        truth = Eagle64(weights, lm, tokens, features)
        wanted = dynamic_by_hand(truth.log_probs, truth.ids.tolist(), 4, 4, 16)
        assert_same_tree(proposal, wanted, tolerance=TOLERANCE)


def test_eagle1_drafts_what_the_whole_text_says() -> None:
    lm = text_target()
    weights = eagle(lm)
    ranks = likeliest_paths(ASSUMED_RATES, 15)
    drafter = made("eagle", {"budget": 16}, weights)(kit_of(lm))
    for tokens, features, proposal in rounds_by_hand(drafter, ACCEPTED, 16):
        truth = Eagle64(weights, lm, tokens, features)
        wanted = static_by_hand(truth.log_probs, truth.ids.tolist(), ranks, 30)
        assert len(wanted) == 15
        assert_same_tree(proposal, wanted, tolerance=TOLERANCE)


def test_measured_hit_rates_of_the_checkpoint_shape_the_tree() -> None:
    lm = text_target()
    weights = eagle(lm)
    rates = [[0.9, 0.01], [0.9, 0.01], [0.9, 0.01]]
    measured = replace(weights, config={**weights.config, "hit_rates": rates})
    drafter = made("eagle", {"budget": 4}, measured)(kit_of(lm))
    (_, _, proposal), *_ = rounds_by_hand(drafter, (0,), 16)
    assert proposal.tree.is_chain
    assert len(proposal.tree) == 4


@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_hot_children_are_drawn_from_the_q_that_is_told(temperature: float) -> None:
    """q of a row is the drafter's distribution under the run's settings, over its own vocabulary;
    the first child of a row is a draw from it."""
    lm, firsts = text_target(), list[int]()
    weights, settings = eagle(lm), SamplingParams(temperature=temperature, top_k=6)
    rng = torch.Generator().manual_seed(0)
    tokens: list[int] = torch.randint(V, (9,), generator=rng).tolist()
    features = torch.randn(8, 16, generator=rng)
    truth, sampler = Eagle64(weights, lm, tokens, features), Sampler(settings, V)
    for seed in range(150):
        context = replace(context_of(tokens, features), sampling=sampler, chance=FreeChance(seed))
        drafter = made("eagle", {"budget": 6}, weights)(kit_of(lm))
        drafter.start(context)
        proposal = drafter.propose(context)
        firsts.append(proposal.tree.tokens[1])
        assert proposal.child_probs is not None
        for row in range(len(proposal.tree) if seed < 3 else 0):
            if not proposal.tree.children(row):
                assert not proposal.child_probs[row].any()
                continue
            scores = torch.full((V,), -torch.inf, dtype=torch.float64)
            path = proposal.tree.path_tokens(row)
            scores[truth.ids] = truth.log_probs(path)
            wanted = sampler.probs(scores, [*tokens, *path])
            assert torch.allclose(proposal.child_probs[row], wanted, atol=TOLERANCE)
    counts = torch.bincount(torch.tensor(firsts), minlength=V) / 150
    scores = torch.full((V,), -torch.inf, dtype=torch.float64)
    scores[truth.ids] = truth.log_probs(())
    assert float((counts - sampler.probs(scores, tokens)).abs().max()) < 0.12


def cycle_weights(lm: CycleLM, reads: str) -> DrafterCheckpoint:
    """A layer that adds nothing, and fc that makes of token i + 1, of feature i, or of both the
    state whose head names token i + 2."""
    zero = {
        name: torch.zeros_like(t)
        for name, t in random_layer("layers.0.", 16, 8, inputs=16, kv=8, scale=1, seed=0).items()
    }
    shift = lm.after_token.T  # takes the state of a token to that of the next one
    blank = torch.zeros(16, 16)
    by_token = torch.eye(16) if reads in ("token", "both") else blank
    by_feature = shift if reads in ("feature", "both") else blank
    tensors = {**zero, "fc.weight": torch.cat([by_token, by_feature], dim=1)}
    found = checkpoint(lm, tensors)
    return replace(found, tensors={**found.tensors, "d2t": cycle_vocabulary()})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("reads", ["token", "feature", "both"])
@pytest.mark.parametrize("name", ["eagle", "eagle2"])
def test_one_who_knows_the_language_is_right_at_every_depth(
    name: str, reads: str, dtype: torch.dtype
) -> None:
    """Any error of one in pairing tokens with features, and nothing would be accepted."""
    lm = CycleLM(dtype)
    setup = Setup(lm, [CYCLE[(2 + i) % 11] for i in range(7)], 40)
    rounds = setup.play(made(name, {}, cycle_weights(lm, reads)))
    text = [token for round_ in rounds for token in round_.new_tokens]
    assert text == [CYCLE[(9 + i) % 11] for i in range(40)]
    for round_ in rounds:
        assert len(round_.verdict.accepted_rows) == max(round_.tree.depths)
    assert max(rounds[0].tree.depths) >= 4


@pytest.mark.parametrize("name", ["eagle", "eagle2"])
def test_a_prompt_of_one_token_has_no_feature_to_draft_from(name: str) -> None:
    lm = CycleLM(torch.float32)
    rounds = Setup(lm, [CYCLE[0]], 20).play(made(name, {}, cycle_weights(lm, "both")))
    assert len(rounds[0].tree) == 1
    assert len(rounds[1].verdict.accepted_rows) >= 4


Change = dict[str, Tensor | None]
WRONG: dict[str, tuple[Change, str]] = {
    "lacks": ({"fc.weight": None}, "lacks 1 tensors, fc.weight among them"),
    "input norm": (
        {"layers.0.input_layernorm.weight": torch.ones(16)},
        r"no use for, layers.0.input_layernorm.weight among them",
    ),
    "width": ({"fc.weight": torch.zeros(16, 64)}, "fc reads 64 numbers"),
    "order": ({"d2t": torch.tensor([3, 1, 1])}, "ascending ids"),
    "range": ({"d2t": torch.tensor([0, 0, 90])}, "ascending ids from 0 to 30"),
    "heads": ({"layers.0.self_attn.k_proj.weight": torch.zeros(6, 16)}, "does not fit 4 query"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("name", ["eagle", "eagle2"])
def test_weights_that_do_not_fit_are_refused(name: str, case: str) -> None:
    lm = text_target()
    weights, (change, reason) = eagle(lm), WRONG[case]
    tensors = {n: t for n, t in ({**weights.tensors, **change}).items() if t is not None}
    with pytest.raises(ValueError, match=reason):
        made(name, {}, replace(weights, tensors=tensors))(kit_of(lm))


@pytest.mark.parametrize("key", ["num_attention_heads", "rms_norm_eps"])
def test_a_config_that_does_not_say_is_refused(key: str) -> None:
    lm = text_target()
    weights = eagle(lm)
    config = {name: value for name, value in weights.config.items() if name != key}
    with pytest.raises(ValueError, match=f"does not say {key}"):
        made("eagle2", {}, replace(weights, config=config))(kit_of(lm))


def test_without_a_draft_vocabulary_the_whole_head_is_used() -> None:
    """A published checkpoint has none; ids the tokenizer does not know are still never drafted."""
    lm = text_target()
    weights = eagle(lm)
    tensors = {name: t for name, t in weights.tensors.items() if name != "d2t"}
    kit = kit_of(lm, num_known_tokens=20)
    drafter = made("eagle2", {"top_k": 10}, replace(weights, tensors=tensors))(kit)
    whole = replace(weights, tensors={**tensors, "d2t": torch.zeros(20, dtype=torch.long)})
    for tokens, features, proposal in rounds_by_hand(drafter, (1, 2), 16, prompt=9):
        truth = Eagle64(whole, lm, tokens, features)
        wanted = dynamic_by_hand(truth.log_probs, list(range(20)), 10, 4, 16)
        assert_same_tree(proposal, wanted, tolerance=TOLERANCE)
