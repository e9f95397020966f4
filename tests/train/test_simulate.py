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
    # Two rounds: from start 0, which accepts two tokens and gets a third of the target; and from
    # start 3, where the first guess is wrong.
    assert found.chain.conditional == (1 / 2, 1.0, 0.0)
    assert found.chain.tau == (3 + 1) / 2
    assert found.num_starts == 4


def test_rounds_start_where_the_last_one_ended() -> None:
    """Averaged over all places, easy stretches counted at each of their tokens, although decoding
    enters them once: the figure was a sixth above what the engine then reached."""
    hard, easy = [[10, 0]], [[0, 0]] * 3
    found = simulate(torch.tensor(hard * 3 + easy))
    assert found.chain.tau == (1 + 1 + 1 + 3) / 4
    assert found.chain.starts == (0, 1, 2, 3)
    assert found.hit_rates[0][0] == 1 / 4


def test_hit_rates_leave_out_what_is_behind_the_end() -> None:
    rates = hit_rates(RANKS)
    assert rates[0][:3] == [2 / 4, 1 / 4, 0.0]
    assert rates[1][:3] == [3 / 4, 0.0, 1 / 4]
    assert rates[2][:2] == [2 / 3, 1 / 3]  # three of the four are known


def test_a_tree_of_all_paths_accepts_what_was_found_at_all() -> None:
    found = simulate(RANKS, tree_rows=2000)
    # One round from start 0 takes all three levels and the target's own token: four places.
    assert found.tree.conditional == (1.0, 1.0, 1.0)
    assert found.tree.tau == 4.0


def test_what_is_behind_the_end_of_a_text_is_neither_kept_nor_lost() -> None:
    found = simulate(RANKS[2:3], tree_rows=2000)
    assert found.tree.conditional == (1.0, 1.0, 0.0)
    assert found.tree.tau == 3.0


def test_a_tree_that_holds_the_chain_accepts_no_less() -> None:
    """Where hard places stay hard, the product of hit rates fell below the chain's own tau."""
    easy, hard = [[0, 0, 0, 0]] * 5, [[10, 10, 10, 10]] * 5
    found = simulate(torch.tensor(easy + hard), tree_rows=5)
    assert found.chain.tau == pytest.approx((5 + 5 * 1) / 6)
    assert found.tree.tau == found.chain.tau


def test_acceptance_is_what_a_file_says() -> None:
    facts = acceptance(simulate(RANKS, tree_rows=2000))
    assert facts == {
        "conditional": [0.5, 1.0, 0.0],
        "chain_tau": 2.0,
        "tree_tau": 4.0,
        "tree_rows": 2000,
        "places": 4,
    }
