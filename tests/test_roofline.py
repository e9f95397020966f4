"""The bounds of a machine, against figures worked out from published peaks."""

from __future__ import annotations

import pytest

from specviz import roofline
from specviz.roofline import Machine, Pass

A100 = Machine(312e12, 2.039e12)
H100 = Machine(989e12, 3.35e12)
H200 = Machine(989e12, 4.8e12)
RTX_3090 = Machine(71e12, 936e9)
LLAMA_8B = Pass(7_500_000_000, 2, num_layers=32, num_heads=32, num_kv_heads=8, head_size=128)


@pytest.mark.parametrize(
    ("machine", "rows"), [(A100, 153), (H100, 295), (H200, 206), (RTX_3090, 76)]
)
def test_free_rows_of_known_machines(machine: Machine, rows: int) -> None:
    assert roofline.free_rows(machine, 2) == pytest.approx(rows, abs=1)
    assert roofline.free_rows(machine, 0.5) == pytest.approx(rows / 4, abs=0.5)


def test_the_plain_ceiling_of_an_8b_model_on_an_h200() -> None:
    """15.0 GB a step at 4.8 TB/s: 320 tokens/s, and 1,728 with 5.4 tokens a round."""
    assert LLAMA_8B.weight_bytes == 15.0e9
    assert 1 / LLAMA_8B.least_seconds(H200) == pytest.approx(320)
    assert roofline.most_tokens_per_second(H200, LLAMA_8B, tau=1) == pytest.approx(320)
    assert roofline.most_tokens_per_second(H200, LLAMA_8B, tau=5.4) == pytest.approx(1728)


def test_a_drafts_bytes_lower_the_ceiling() -> None:
    ceiling = roofline.most_tokens_per_second(
        H200, LLAMA_8B, tau=3, num_draft_steps=3, draft_bytes=5e9
    )
    assert ceiling == pytest.approx(3 * 4.8e12 / 30e9)


def wide(num_rows: int) -> Pass:
    return Pass(7_500_000_000, 2, num_rows=num_rows)


def test_rows_are_free_up_to_the_bend_and_cost_in_proportion_behind_it() -> None:
    one = wide(1).least_seconds(H200)
    assert wide(200).least_seconds(H200) == one
    assert wide(200).is_memory_bound(H200)
    assert not wide(220).is_memory_bound(H200)
    assert wide(412).least_seconds(H200) == pytest.approx(2 * one, rel=0.01)
    assert wide(1).intensity == 1.0
    assert wide(1).intensity < H200.ridge == pytest.approx(206, abs=1)


def test_the_cache_of_the_context_is_read_too() -> None:
    """Llama 8B keeps 128 KiB a token: 2 x 32 layers x 8 heads x 128 x 2 bytes."""
    long = Pass(
        7_500_000_000, 2, context_length=1000, num_layers=32, num_heads=32, num_kv_heads=8,
        head_size=128,
    )  # fmt: skip
    assert long.cache_bytes == 1000 * 131_072
    assert long.bytes_moved == 15.0e9 + long.cache_bytes
    assert long.flops == 15.0e9 + 4 * 32 * 32 * 128 * 1000


def test_a_row_touches_its_own_experts_and_many_rows_touch_all() -> None:
    assert roofline.distinct_experts(8, 2, 1) == pytest.approx(2)
    assert roofline.distinct_experts(8, 2, 2) == pytest.approx(3.5)
    assert roofline.distinct_experts(8, 2, 60) == pytest.approx(8)
