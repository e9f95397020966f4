"""The width of a tree, on curves that are given."""

from __future__ import annotations

import pytest

from specviz.config import LaneSpec
from specviz.drafters import drafter_class
from specviz.engine.budgets import fitted_budget, lane_config

FREE = ((1, 1.0), (64, 1.0))
ROWS = (1, 2, 4, 8, 16, 32, 64)
LINEAR = tuple((n, float(n)) for n in ROWS)  # every row costs a whole step
# 4-bit kernels made for one row: the second already unpacks every weight.
UNPACKING = ((1, 1.0), (2, 4.3), (8, 4.4), (64, 5.0))
TYPICAL = ((1, 1.0), (2, 1.02), (4, 1.05), (8, 1.2), (16, 1.42), (32, 2.0), (64, 3.4))


def test_free_rows_are_all_read() -> None:
    assert fitted_budget(FREE, 32, 4) == 64


def test_rows_that_cost_a_step_each_are_not_read() -> None:
    assert fitted_budget(LINEAR, 32, 4) == 1


def test_a_dear_second_row_means_no_draft() -> None:
    """No tree of the assumed rates yields 4.4 tokens: plain decoding is faster."""
    assert fitted_budget(UNPACKING, 32, 4) == 1


def test_the_width_lies_where_rows_stop_paying() -> None:
    """Between the flat part and the steep one, and wider where rows are cheaper."""
    width = fitted_budget(TYPICAL, 32, 4)
    assert 4 <= width <= 16
    cheaper = tuple((n, 1 + (ratio - 1) / 4) for n, ratio in TYPICAL)
    assert fitted_budget(cheaper, 32, 4) > width


@pytest.mark.parametrize("name", ["eagle", "eagle2", "eagle3", "medusa", "mtp"])
def test_a_budget_that_nobody_set_follows_the_curve(name: str) -> None:
    drafter = drafter_class(name)
    config = lane_config(drafter, LaneSpec(name), TYPICAL, 32, is_adaptive=True)
    assert 4 <= config.budget <= 16
    least = lane_config(drafter, LaneSpec(name), LINEAR, 32, is_adaptive=True)
    assert least.budget == 2  # the least a tree can have


def test_a_budget_that_was_set_is_kept() -> None:
    spec = LaneSpec("eagle3", (("budget", 40),))
    assert lane_config(drafter_class("eagle3"), spec, LINEAR, 32, is_adaptive=True).budget == 40


def test_without_the_switch_or_a_curve_nothing_changes() -> None:
    drafter, spec = drafter_class("eagle3"), LaneSpec("eagle3")
    assert lane_config(drafter, spec, LINEAR, 32, is_adaptive=False) == drafter.Config()
    assert lane_config(drafter, spec, (), 32, is_adaptive=True) == drafter.Config()


@pytest.mark.parametrize("name", ["prompt_lookup", "draft_model"])
def test_a_drafter_without_a_tree_keeps_its_knobs(name: str) -> None:
    spec, drafter = LaneSpec(name), drafter_class(name)
    assert lane_config(drafter, spec, TYPICAL, 32, is_adaptive=True) == drafter.Config()


def test_a_tree_of_a_draft_model_follows_the_curve() -> None:
    spec, drafter = LaneSpec("draft_model", (("top_k", 4),)), drafter_class("draft_model")
    assert lane_config(drafter, spec, LINEAR, 32, is_adaptive=True).budget == 2
    chain = LaneSpec("mtp", (("top_k", 1),))
    mtp = drafter_class("mtp")
    assert lane_config(mtp, chain, LINEAR, 32, is_adaptive=True) == mtp.Config(top_k=1)
