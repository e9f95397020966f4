"""What chains and trees would accept, from ranks written by hand."""

from __future__ import annotations

import pytest
import torch

from specviz.train.simulate import acceptance, hit_rates, simulate

# Four starts, three depths: how far down the drafter's list the target's token stands; 10: not
# found, -1: behind the end of the text.
RANKS = torch.tensor([[0, 0, 1], [0, 2, 0], [1, 0, -1], [10, 0, 0]])


def test_a_chain_is_accepted_while_first_guesses_are_right() -> None:
    found = simulate(RANKS)
    # Depth 1: starts 0 and 1 of four. Depth 2: start 0 of those. Depth 3: none.
    assert found.conditional == (2 / 4, 1 / 2, 0.0)
    assert found.chain_tau == pytest.approx(1 + 1 / 2 + 1 / 4)
    assert found.num_starts == 4


def test_hit_rates_leave_out_what_is_behind_the_end() -> None:
    rates = hit_rates(RANKS)
    assert rates[0][:3] == [2 / 4, 1 / 4, 0.0]
    assert rates[1][:3] == [3 / 4, 0.0, 1 / 4]
    assert rates[2][:2] == [2 / 3, 1 / 3]  # three of the four are known


def test_a_tree_of_all_paths_accepts_what_was_found_at_all() -> None:
    found = simulate(RANKS, tree_rows=2000)
    # Starts 0 and 1 down to depth 3, start 2 down to depth 2 where its text ends, start 3 nowhere.
    assert found.tree_tau == pytest.approx(1 + 3 / 4 + 3 / 4 + 3 / 4)


def test_a_tree_that_holds_the_chain_accepts_no_less() -> None:
    """Where hard places stay hard, the product of hit rates fell below the chain's own tau."""
    easy, hard = [[0, 0, 0, 0]] * 5, [[10, 10, 10, 10]] * 5
    found = simulate(torch.tensor(easy + hard), tree_rows=5)
    assert found.chain_tau == pytest.approx(1 + 4 * 0.5)
    assert found.tree_tau == found.chain_tau


def test_acceptance_is_what_a_file_says() -> None:
    facts = acceptance(simulate(RANKS, tree_rows=2000))
    assert facts == {
        "conditional": [0.5, 0.5, 0.0],
        "chain_tau": 1.75,
        "tree_tau": 3.25,
        "tree_rows": 2000,
        "places": 4,
    }
