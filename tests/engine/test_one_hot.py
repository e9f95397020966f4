"""The walk for one-hot targets is the general one, and knows numbers that are none."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch

from specviz.config import SamplingParams
from specviz.drafters.base import Proposal
from specviz.engine.lane import PathProbs
from specviz.engine.verify import verify, verify_one_hot
from specviz.lm.sampling import Sampler, make_chance
from specviz.tree import DraftTree
from tests.lm.test_plain import random_tree

V = 4  # few tokens, so that paths of several accepted rows are common


@pytest.mark.parametrize("rule", ["rejection", "coupled"])
def test_it_gives_the_verdict_of_the_general_walk_after_the_same_draws(rule: Any) -> None:
    num_accepted = 0
    for seed in range(200):
        rng = Random(seed)
        tree = random_tree(rng, V, 9)
        best = [rng.randrange(V) for _ in range(len(tree))]
        probs = torch.nn.functional.one_hot(torch.tensor(best), V).double()
        chances = [make_chance(rule, seed) for _ in range(2)]
        walk = verify(rule, tree, lambda row, p=probs: p[row], None, chances[0], 7)  # type: ignore[misc]
        verdict = verify_one_hot(rule, tree, best.__getitem__, chances[1])
        assert verdict == walk.verdict
        assert chances[0].uniform() == chances[1].uniform()
        last = (0, *verdict.accepted_rows)[-1]
        assert torch.equal(walk.last_residual, probs[last])  # which is why nobody need keep it
        num_accepted += len(verdict.accepted_rows)
    assert num_accepted > 100


def made(logits: torch.Tensor, **settings: Any) -> PathProbs:
    tree = DraftTree.chain(0, range(1, len(logits)))
    sampler = Sampler(SamplingParams(**settings), 3)  # the fourth id is padding
    return PathProbs(sampler, (5, 0), Proposal(tree, (1.0,) * len(tree)), logits)


def test_favourites_are_where_the_probabilities_are() -> None:
    logits = torch.tensor([[1.0, 3.0, 3.0, 9.0], [2.0, 1.0, 0.0, 9.0]])
    probs = made(logits)
    assert probs.is_one_hot
    assert [probs.favourite(row) for row in (0, 1)] == [1, 0]  # the lowest id among equals
    assert [int(probs(row).argmax()) for row in (0, 1)] == [1, 0]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_row_without_numbers_is_found_only_if_it_is_asked_for(bad: float) -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0, 0.0], [bad] * 4])
    probs = made(logits)
    assert probs.favourite(0) == 1
    with pytest.raises(FloatingPointError):
        probs.favourite(1)


@pytest.mark.parametrize("settings", [{"temperature": 1.0}, {"repetition_penalty": 1.2}])
def test_other_settings_are_not_one_hot_of_the_logits(settings: dict[str, float]) -> None:
    assert not made(torch.zeros(2, 4), **settings).is_one_hot
