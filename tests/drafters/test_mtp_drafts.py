"""What the mtp drafter drafts, a chain or a tree, against a slow module that keeps nothing."""

from __future__ import annotations

import pytest
import torch

from specviz.config import SamplingParams
from specviz.drafters.base import DraftContext
from specviz.drafters.mtp import Mtp, MtpConfig
from specviz.lm.base import FeatureTap, LanguageModel
from specviz.lm.sampling import Sampler, make_chance
from tests.drafters.checkpoints import MAKERS
from tests.drafters.growth_by_hand import Path, assert_same_tree, dynamic_by_hand
from tests.drafters.mtp_reference import Reference
from tests.engine.lanes import kit_of
from tests.models import tiny


def test_several_rounds_against_the_slow_module() -> None:
    """Whatever was accepted before: rows of the text carry the model's true states, and nothing
    of an earlier draft is left."""
    lm = tiny()
    drafter = Mtp(MtpConfig(num_draft_tokens=4, top_k=1), kit_of(lm))
    slow, ids = slow_module(lm), known_ids(lm)
    tokens = list(range(30, 41))
    drafter.start(context_of(lm, tokens))
    for num_accepted in (0, 2, 4, 0, 1):
        context = context_of(lm, tokens)
        proposal = drafter.propose(context)
        drafted, probs = list[int](), [1.0]
        assert context.features is not None
        for _ in range(4):
            out = slow.outputs(context.features, tokens + drafted)[-1]
            chances = torch.softmax(lm.head(out.float()[None])[0, ids].double(), dim=0)
            drafted.append(int(ids[chances.argmax()]))
            probs.append(float(chances.max()))
        assert list(proposal.tree.tokens) == [tokens[-1], *drafted]
        assert proposal.tree.is_chain
        assert proposal.draft_probs == pytest.approx(probs, rel=1e-4)
        assert proposal.child_probs is None
        assert len(proposal.step_seconds) == len(proposal.candidates) == 4
        tokens += [*drafted[:num_accepted], 50 + num_accepted]
    assert any(token not in set(ids.tolist()) for token in range(lm.vocab_size))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_its_tree_is_the_slow_modules_tree_by_hand(temperature: float) -> None:
    """Chosen, not drawn, at any temperature; behind rounds of which much or nothing was accepted."""
    lm = tiny()
    drafter = Mtp(MtpConfig(num_draft_tokens=3, top_k=3, budget=9), kit_of(lm))
    slow, ids, tokens = slow_module(lm), known_ids(lm), list(range(30, 41))
    drafter.start(context_of(lm, tokens, temperature=temperature))
    for num_accepted in (0, 2, 3, 0):
        context = context_of(lm, tokens, temperature=temperature)
        proposal = drafter.propose(context)

        def log_probs(path: Path, context: DraftContext = context) -> torch.Tensor:
            assert context.features is not None
            out = slow.outputs(context.features, [*context.tokens, *path])[-1]
            return torch.log_softmax(lm.head(out.float()[None])[0, ids].double(), dim=0)

        wanted = dynamic_by_hand(log_probs, ids.tolist(), top_k=3, depth=3, budget=9)
        assert_same_tree(proposal, wanted, tolerance=1e-4)
        assert proposal.child_probs is None
        tree = proposal.tree
        deep = next(row for row in range(len(tree)) if tree.depths[row] == num_accepted)
        tokens += [*tree.path_tokens(deep), 50 + num_accepted]


def test_a_chain_is_no_longer_than_its_rows() -> None:
    lm, tokens = tiny(), [7, 8, 9]
    for rows in (2, 4, 16):
        drafter = Mtp(MtpConfig(num_draft_tokens=6, top_k=1, budget=rows), kit_of(lm))
        drafter.start(context_of(lm, tokens))
        assert len(drafter.propose(context_of(lm, tokens)).tree) == min(rows, 7)


def test_no_draft_where_there_is_no_state_or_no_room() -> None:
    lm = tiny()
    drafter = Mtp(MtpConfig(top_k=1), kit_of(lm))
    drafter.start(context_of(lm, [7]))
    assert drafter.propose(context_of(lm, [7])).tree.tokens == (7,)
    assert drafter.propose(context_of(lm, [7, 8], max_depth=0)).tree.tokens == (8,)
    assert len(drafter.propose(context_of(lm, [7, 8, 9], max_depth=2)).tree) == 3


def known_ids(lm: LanguageModel) -> torch.Tensor:
    offsets = MAKERS["mtp"](lm).tensors["d2t"]
    return offsets + torch.arange(len(offsets))


def context_of(
    lm: LanguageModel, tokens: list[int], max_depth: int = 20, *, temperature: float = 0.0
) -> DraftContext:
    """As the engine gives it, its features read afresh."""
    features = lm.prefill(tokens[:-1], lm.new_cache(128), [FeatureTap("normed")])
    params = SamplingParams(temperature=temperature)
    sampler, chance = Sampler(params, lm.vocab_size), make_chance("rejection", 0)
    return DraftContext(tuple(tokens), features, sampler, chance, max_depth)


def slow_module(lm: LanguageModel) -> Reference:
    checkpoint = MAKERS["mtp"](lm)
    prefix = f"model.layers.{lm.num_layers}."
    tensors = {
        name.removeprefix(prefix): tensor
        for name, tensor in checkpoint.tensors.items()
        if name.startswith(prefix)
    }
    return Reference(tensors, lm.embed(torch.arange(lm.vocab_size)), _Shape())


class _Shape:
    """Of the module in `tests.drafters.checkpoints`."""

    hidden_size, num_attention_heads, rms_norm_eps = 64, 4, 1e-5
    rope_parameters = {"rope_theta": 500.0}
