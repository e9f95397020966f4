"""Losslessness of verification: every outcome enumerated, and compared with p to 1e-12.

Each check also runs on verifications that are wrong in a known way, and must fail there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.config import SamplingParams
from specviz.engine.verify import verify
from specviz.lm.sampling import CoupledChance, Sampler
from specviz.tree import DraftTree
from tests.engine.chances import ScriptedChance, enumerate_outcomes
from tests.engine.verifying import (
    BUSHY,
    CASES,
    CHAIN,
    SIBLINGS,
    TARGETS,
    TREES,
    Path,
    Table,
    Tokens,
    V,
    Verify,
    assert_chosen_exact,
    assert_sampled_exact,
    grown,
    ours,
    table,
    target_of,
)
from tests.engine.wrong import MISTAKES, own_draw_per_child, soft_greedy_walk, walk


@pytest.mark.parametrize("widths", [(1,), CHAIN, (2,), SIBLINGS, (2, 1)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_sampled_drafts_leave_the_targets_distribution(name: str, widths: tuple[int, ...]) -> None:
    assert_sampled_exact(ours, CASES[name], widths)


def test_a_sampled_tree_leaves_the_targets_distribution() -> None:
    assert_sampled_exact(ours, CASES["q has zeros"], BUSHY)


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
@pytest.mark.parametrize("name", TARGETS)
def test_chosen_drafts_leave_the_targets_distribution(name: str, tree: DraftTree) -> None:
    assert_chosen_exact(ours, TARGETS[name], tree)


@given(
    st.lists(st.lists(st.integers(0, V - 1), min_size=1, max_size=3), max_size=5),
    st.integers(0, 1000),
    st.integers(0, 2),
)
@settings(max_examples=30, deadline=None)
def test_any_chosen_tree_leaves_the_targets_distribution(
    paths: list[list[int]], seed: int, zeros: int
) -> None:
    assert_chosen_exact(ours, table(seed, zeros=zeros), DraftTree.from_paths(0, paths))


def check_sampled(check: Verify) -> None:
    for name in ("unlike", "nearly alike", "q has zeros"):
        for widths in (CHAIN, SIBLINGS):
            assert_sampled_exact(check, CASES[name], widths)


def check_chosen(check: Verify) -> None:
    for tree in TREES.values():
        assert_chosen_exact(check, table(1), tree)


@pytest.mark.parametrize("check", [check_sampled, check_chosen])
@pytest.mark.parametrize("mistake", ["none", *MISTAKES])
def test_wrong_walks_are_caught(mistake: Any, check: Callable[[Verify], None]) -> None:
    """A check that lets these pass would hold nothing."""

    def perhaps_wrong(*args: Any) -> Tokens:
        return walk(*args, mistake=mistake)

    is_of_no_effect = check is check_chosen and mistake == "keeps q as it was after a rejection"
    if mistake == "none" or is_of_no_effect:
        check(perhaps_wrong)
    else:
        with pytest.raises(AssertionError):
            check(perhaps_wrong)


def test_a_chosen_draft_is_a_point_mass() -> None:
    """Drafts picked greedily but tested against the draft's soft q bias the output."""
    tree, q = DraftTree.chain(0, (1,)), torch.stack((table(2)(()), table(2)((1,))))
    assert_chosen_exact(ours, table(1), tree)
    with pytest.raises(AssertionError):
        assert_chosen_exact(ours, table(1), tree, q)


# Temperature 0: one-hot on both sides before anything is compared.


def greedy_ours(
    tree: DraftTree, logits: Callable[[int], torch.Tensor], chance: ScriptedChance
) -> Tokens:
    sampler = Sampler(SamplingParams(), V)
    return ours(tree, lambda row: sampler.probs(logits(row), ()), None, chance)


def assert_greedy(check: Callable[..., Tokens], logits: Table, tree: DraftTree) -> None:
    wanted, path = [], list[int]()
    while True:
        path.append(int(logits(tuple(path)).argmax()))
        wanted.append(path[-1])
        drafted = {tree.path_tokens(row) for row in range(1, tree.num_draft_tokens + 1)}
        if tuple(path) not in drafted:
            break
    outcomes = enumerate_outcomes(lambda chance: check(tree, target_of(tree, logits), chance))
    assert {tokens for tokens, share in outcomes.items() if share > 0} == {tuple(wanted)}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_greedy_has_one_outcome_the_argmax_path(seed: int, tree: DraftTree) -> None:
    assert_greedy(greedy_ours, table(seed), tree)


def test_a_draft_that_is_likely_but_not_the_favourite_is_refused() -> None:
    """p(a) = 0.3, p(b) = 0.5, q(a) = 0.2: ratio tests accept a. At temperature 0 only b is right."""
    logits = torch.tensor([0.3, 0.5, 0.2]).log()
    assert_greedy(greedy_ours, lambda path: logits, DraftTree.chain(0, (0,)))
    with pytest.raises(AssertionError):
        assert_greedy(soft_greedy_walk, lambda path: logits, DraftTree.chain(0, (0,)))


def test_the_favourites_branch_wins_though_another_goes_deeper() -> None:
    """Worry in the field: a likely sibling with a longer matching path might be taken."""
    logits = {(): [5.0, 4.9, 0.0], (0,): [0.0, 0.0, 9.0]}

    def table_of(path: Path) -> torch.Tensor:
        return torch.tensor(logits.get(path, [0.0, 9.0, 0.0]))

    tree = DraftTree.from_paths(0, [(1, 1, 1, 1), (0,)])
    assert_greedy(greedy_ours, table_of, tree)
    verdict = verify(
        "rejection",
        tree,
        lambda row: Sampler(SamplingParams(), V).probs(table_of(tree.path_tokens(row)), ()),
        None,
        CoupledChance(0),
        0,
    ).verdict
    assert verdict.accepted_rows == (5,)
    assert verdict.next_token == 2
    assert verdict.row_status == ("root", "rejected", *["unreached"] * 3, "accepted")


# Coupled: the target's own draw decides, whatever was drafted.


def coupled(tree: DraftTree, target: Any, draft: Any, chance: Any) -> Tokens:
    verdict = verify("coupled", tree, target, draft, chance, 0).verdict
    assert verdict.next_token is not None
    return (*(tree.tokens[row] for row in verdict.accepted_rows), verdict.next_token)


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
@pytest.mark.parametrize("name", TARGETS)
def test_coupled_leaves_the_targets_distribution(name: str, tree: DraftTree) -> None:
    assert_chosen_exact(coupled, TARGETS[name], tree)


def test_a_fresh_draw_for_every_sibling_is_caught() -> None:
    def wrong(tree: DraftTree, target: Any, draft: Any, chance: Any) -> Tokens:
        return own_draw_per_child(tree, target, chance)

    with pytest.raises(AssertionError):
        assert_chosen_exact(wrong, table(1), TREES["siblings"])


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_coupled_writes_what_plain_decoding_would(tree: DraftTree) -> None:
    """The same noise at the same position: each token is the one drawn without any draft."""
    p = table(1)
    for seed in range(200):
        chance, path = CoupledChance(seed), list[int]()
        for token in coupled(tree, target_of(tree, p), None, CoupledChance(seed)):
            path.append(chance.token(p(tuple(path)), len(path) + 1))
            assert token == path[-1]


# What a verdict says of itself.


@pytest.mark.parametrize("rule", ["rejection", "coupled"])
@pytest.mark.parametrize("name", CASES)
def test_verdicts_tell_what_happened(rule: Any, name: str) -> None:
    case = CASES[name]

    def run(chance: ScriptedChance) -> str:
        tree, q = grown((2, 1), case.q, chance)
        target = target_of(tree, case.p)
        told = verify(rule, tree, target, q, chance, 0)
        verdict = told.verdict
        path = (0, *verdict.accepted_rows)
        assert all(tree.parents[row] == above for above, row in zip(path, path[1:], strict=False))
        kind = "recovered" if tree.children(path[-1]) else "bonus"
        assert verdict.next_token_kind == kind
        assert float(told.last_residual[verdict.next_token]) > 0
        assert abs(float(told.last_residual.sum()) - 1) < 1e-12
        tried = {trial.row: trial for trial in verdict.trials}
        for row in range(1, len(tree)):
            status = verdict.row_status[row]
            assert (row in tried) == (status in ("accepted", "rejected"))
            assert (status == "accepted") == (row in verdict.accepted_rows)
            p = float(target(tree.parents[row])[tree.tokens[row]])
            assert verdict.target_probs[row] == (p if row in tried else None)
            if row in tried:
                assert 0 <= tried[row].threshold <= 1
                assert 0 <= tried[row].target_prob <= 1
        return kind

    assert sum(enumerate_outcomes(run).values()) == pytest.approx(1.0)


def test_a_residual_that_vanishes_by_rounding_falls_back_to_p() -> None:
    """0 / 0 gave NaN in other codes. A draft equal to p but for rounding can still be refused."""

    class Refusing(CoupledChance):
        def uniform(self) -> float:
            return 1.0  # no real draw is; it stands for a threshold of 1 - 1e-16

    p = torch.tensor([0.25, 0.75, 0.0], dtype=torch.float64)
    tree = DraftTree((0, 1, 0), (-1, 0, 0))
    told = verify("rejection", tree, lambda row: p, p.expand(3, -1), Refusing(0), 0)
    assert told.verdict.row_status == ("root", "rejected", "rejected")
    assert bool(torch.isfinite(told.last_residual).all())
    assert told.verdict.next_token in (0, 1)
    told = verify("rejection", tree, lambda row: p, None, Refusing(0), 0)
    assert bool(torch.isfinite(told.last_residual).all())
    assert told.verdict.next_token in (0, 1)
