"""The cost account: parts worked out by hand, sums that must close, and the recorded traces."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz import cost
from specviz.trace import RoundTrace
from specviz.tree import DraftTree
from tests import recorded
from tests.traces import greedy_verdict, lane_start, round_trace


def a_round(num_drafts: int, seconds: tuple[float, float, float], steps: float) -> RoundTrace:
    """A chain that keeps its first draft token; each draft step takes `steps` seconds."""
    tree = DraftTree.chain(0, range(10, 10 + num_drafts))
    made = round_trace(tree, greedy_verdict(tree, (10, 5)), seconds=seconds)
    return replace(made, draft_step_seconds=(steps,) * num_drafts)


@pytest.fixture
def plain() -> list[RoundTrace]:
    """Plain steps of 2.0 s: 1.8 of it the pass, 0.2 the host's."""
    return [a_round(0, (0.0, 1.8, 0.2), 0.0) for _ in range(5)]


@pytest.fixture
def rounds() -> list[RoundTrace]:
    """Three drafts of 0.2 s and 0.1 s around them, a pass of 2.2 s, 0.3 s of walk."""
    return [a_round(3, (0.7, 2.2, 0.3), 0.2) for _ in range(4)]


def test_each_term_in_plain_steps(rounds: list[RoundTrace], plain: list[RoundTrace]) -> None:
    account = cost.account(rounds, plain)
    assert account.plain_seconds == pytest.approx(2.0)
    assert account.costs.draft_step == pytest.approx(0.1)
    assert account.costs.host == pytest.approx(0.2)
    assert account.costs.reads == ((1, pytest.approx(0.9)), (4, pytest.approx(1.1)))
    assert account.draft_steps_per_round == 3
    assert account.rho == pytest.approx(1.6)
    assert account.rho_of_medians == pytest.approx(1.1 + 3 * 0.1 + 0.2)
    assert account.read_growth == pytest.approx(2.2 / 1.8)


def test_parts_and_excess_add_up(rounds: list[RoundTrace], plain: list[RoundTrace]) -> None:
    account = cost.account(rounds, plain)
    parts = (account.parts.read, account.parts.draft, account.parts.host)
    assert parts == pytest.approx((1.1, 0.3, 0.2))
    excess = (account.excess.read, account.excess.draft, account.excess.host)
    assert excess == pytest.approx((0.2, 0.3, 0.1))
    assert account.excess.largest == "draft"


def test_rounds_average_to_the_parts() -> None:
    for lane in recorded.recordings("chat_rainbows"):
        each = [lane.account.of_round(r) for r in lane.rounds]
        for name in ("read", "draft", "host"):
            mean = sum(getattr(parts, name) for parts in each) / len(each)
            assert mean == pytest.approx(getattr(lane.account.parts, name))
        assert each[0].total == pytest.approx(lane.rounds[0].seconds / lane.account.plain_seconds)


def test_medians_do_not_follow_one_disturbed_round(
    rounds: list[RoundTrace], plain: list[RoundTrace]
) -> None:
    """A pass that took ten times as long moves the totals, and not what a pass costs."""
    disturbed = [*rounds, a_round(3, (0.7, 22.0, 0.3), 0.2)]
    account = cost.account(disturbed, plain)
    assert account.costs.delta(4) == pytest.approx(1.1)
    assert account.rho_of_medians == pytest.approx(1.6)
    assert account.rho == pytest.approx((4 * 3.2 + 23.0) / 5 / 2.0)


def test_sizes_that_were_read_once_stay_out_of_the_curve(
    rounds: list[RoundTrace], plain: list[RoundTrace]
) -> None:
    odd = a_round(1, (0.3, 9.0, 0.3), 0.2)
    assert [n for n, _ in cost.account([*rounds, odd], plain).costs.reads] == [1, 4]
    assert [n for n, _ in cost.account([odd], plain).costs.reads] == [1, 2]


def test_the_usual_read_is_one_that_checked_something(
    rounds: list[RoundTrace], plain: list[RoundTrace]
) -> None:
    """A copier that finds nothing in most rounds reads one row in most: that says nothing of reads."""
    account = cost.account([*rounds, *plain, *plain], plain)
    assert account.usual_read.num_rows == 4
    assert account.read_growth == pytest.approx(2.2 / 1.8)
    assert cost.account(plain, plain).read_growth == 1.0


def test_a_drafter_without_passes_is_all_host(plain: list[RoundTrace]) -> None:
    copied = [replace(a_round(3, (0.1, 2.0, 0.3), 0.0), draft_step_seconds=()) for _ in range(4)]
    account = cost.account(copied, plain)
    assert account.draft_step is None
    assert account.costs.draft_step == 0
    assert account.parts.draft == 0
    assert account.parts.host == pytest.approx(0.2)


def test_what_cannot_be_accounted_for_is_refused(
    rounds: list[RoundTrace], plain: list[RoundTrace]
) -> None:
    with pytest.raises(ValueError, match="a round of the lane"):
        cost.account([], plain)
    with pytest.raises(ValueError, match="a round of the lane"):
        cost.account(rounds, [])
    still = [replace(r, draft_seconds=0.0, verify_seconds=0.0, commit_seconds=0.0) for r in plain]
    with pytest.raises(ValueError, match="no times"):
        cost.account(rounds, still)


def test_a_lane_is_compared_within_its_backbone() -> None:
    target, tuned = lane_start(0), replace(lane_start(1), backbone="mtp")
    mtp = replace(lane_start(2, "mtp"), backbone="mtp")
    assert cost.plain_lane_of(mtp, [target, tuned, mtp]) == tuned
    assert cost.plain_lane_of(mtp, [target, mtp]) is None


@pytest.mark.parametrize("name", recorded.NAMES)
def test_accounts_of_recorded_lanes_close(name: str) -> None:
    """On real clocks: the parts are rho, S is tau over rho, medians tell nearly the same."""
    for lane in recorded.recordings(name):
        account = lane.account
        assert account.parts.total == pytest.approx(account.rho)
        assert account.excess.total == pytest.approx(account.rho - 1)
        assert account.speedup == pytest.approx(account.tau / account.rho)
        assert account.rho_of_medians == pytest.approx(account.rho, rel=0.15)


def test_plain_decoding_costs_one_plain_step() -> None:
    plain = recorded.rounds("chat_rainbows", 0)
    account = cost.account(plain, plain)
    assert (account.rho, account.speedup, account.alpha) == (1.0, 1.0, None)
    assert account.excess.total == pytest.approx(0)


@pytest.mark.parametrize("name", recorded.NAMES)
def test_theory_predicts_a_recorded_chain_from_its_alpha_and_costs(name: str) -> None:
    """alpha, c, eta and delta of the run itself put into the formulas: tau and rho come back."""
    told = {r.start.drafter: r.account.predicted for r in recorded.recordings(name)}
    assert told["lookahead"] is None  # its drafts are no chains of one length
    (lane,) = [r for r in recorded.recordings(name) if r.start.drafter == "draft_model"]
    choice = told["draft_model"]
    assert choice is not None
    assert choice.num_draft_tokens == 3
    assert choice.tau == pytest.approx(lane.account.tau, rel=0.05)
    assert choice.rho == pytest.approx(lane.account.rho, rel=0.1)
