"""The catalogue's bytes against counts that were published, and sums worked out by hand."""

from __future__ import annotations

import pytest

from specviz.catalogue import (
    LLAMA_3_1_8B,
    PAIRS,
    QWEN2_7B,
    QWEN3_1_7B,
    QWEN3_4B,
    QWEN3_8B,
    QWEN3_14B,
    QWEN3_32B,
    SMOLLM2,
    VICUNA_7B,
    VICUNA_13B,
    Pair,
    PublishedTarget,
    memory_of,
)
from specviz.shapes import cache_bytes, drafter_parameters, shape_of, weight_bytes

GIB = 2**30
# Parameter counts as the models' own pages give them.
PUBLISHED = [
    (SMOLLM2, 1_711_376_384),
    (QWEN3_1_7B, 1_720_574_976),
    (QWEN3_4B, 4_022_468_096),
    (QWEN3_8B, 8_190_735_360),
    (QWEN3_14B, 14_768_307_200),
    (QWEN3_32B, 32_762_123_264),
    (LLAMA_3_1_8B, 8_030_261_248),
    (VICUNA_7B, 6_738_415_616),
    (VICUNA_13B, 13_015_864_320),
    (QWEN2_7B, 7_615_616_512),
]


def pair_of(repository: str) -> Pair:
    return next(pair for pair in PAIRS if pair.drafter.repository == repository)


@pytest.mark.parametrize(("target", "count"), PUBLISHED, ids=lambda v: getattr(v, "name", ""))
def test_shapes_count_the_published_parameters(target: PublishedTarget, count: int) -> None:
    assert target.shape.num_parameters == count
    assert weight_bytes(target.shape, "bfloat16") == 2 * count


@pytest.mark.parametrize(
    ("target", "nf4", "per_1024"),
    [  # GiB of four-bit weights and MiB of keys and values, worked out by hand
        (SMOLLM2, 0.96, 192),
        (QWEN3_1_7B, 1.26, 112),
        (QWEN3_4B, 2.47, 144),
        (QWEN3_8B, 5.66, 144),
        (QWEN3_14B, 9.25, 160),
        (QWEN3_32B, 17.89, 256),
        (LLAMA_3_1_8B, 5.31, 128),
        (VICUNA_7B, 3.60, 512),
        (VICUNA_13B, 6.71, 800),
        (QWEN2_7B, 5.17, 56),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_four_bits_and_caches(target: PublishedTarget, nf4: float, per_1024: int) -> None:
    assert weight_bytes(target.shape, "nf4") / GIB == pytest.approx(nf4, abs=0.006)
    assert cache_bytes(target.shape, 1024, "bfloat16") == per_1024 * 2**20


def test_eight_bits_keep_a_scale_per_row_and_nothing_else_of_a_layer() -> None:
    # A layer of Llama 3.1 8B: 218,103,808 weights in 2 x 4096 (q, o) + 2 x 1024 (k, v)
    # + 2 x 14336 (gate, up) + 4096 (down) = 43,008 rows.
    layers = 32 * (218_103_808 + 4 * 43_008)
    rest = 2 * (2 * 128_256 * 4096 + 65 * 4096)
    assert weight_bytes(LLAMA_3_1_8B.shape, "int8") == layers + rest


@pytest.mark.parametrize(
    ("repository", "num_bytes"),
    [  # sizes of the published files
        ("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", 850e6),
        ("yuhuili/EAGLE3-Vicuna1.3-13B", 1.28e9),
        ("yuhuili/EAGLE-LLaMA3-Instruct-8B", 1.55e9),
        ("yuhuili/EAGLE-Qwen2-7B-Instruct", 1.65e9),  # it has more key heads than its target
        ("FasterDecoding/medusa-vicuna-7b-v1.3", 1.48e9),
    ],
)
def test_drafters_are_as_large_as_their_files(repository: str, num_bytes: float) -> None:
    assert pair_of(repository).drafter_bytes == pytest.approx(num_bytes, rel=0.03)


@pytest.mark.parametrize(
    ("target", "method", "count"),
    [
        # fc 2 x 4096^2, q k v o 4 x 4096^2, MLP 3 x 4096 x 11008
        (VICUNA_7B, "eagle", 33_554_432 + 67_108_864 + 135_266_304),
        # fc 3 x 2560^2, q 4096 x 5120, k v 2 x 1024 x 5120, o 2560 x 4096, MLP, head 32000 x 2560
        (
            QWEN3_4B,
            "eagle3",
            19_660_800 + 20_971_520 + 10_485_760 + 10_485_760 + 74_711_040 + 81_920_000,
        ),
    ],
)
def test_drafters_by_hand(target: PublishedTarget, method: str, count: int) -> None:
    assert drafter_parameters(method, target.shape) == count  # type: ignore[arg-type]


def test_what_a_pair_takes_by_hand() -> None:
    """Qwen3 4B in four bits with its EAGLE-3 and 4,096 tokens: 2.47 + 0.41 + 0.58 GiB."""
    taken = memory_of(pair_of("AngelSlim/Qwen3-4B_eagle3"), "nf4", 4096)
    assert taken.weights / GIB == pytest.approx(2.47, abs=0.006)
    assert taken.cache == 36 * 2 * 8 * 128 * 4096 * 2
    assert taken.drafter / GIB == pytest.approx(0.407, abs=0.001)
    assert taken.drafter_cache == 2 * 8 * 128 * 4096 * 2  # one layer like the target's
    assert taken.total == sum((taken.weights, taken.cache, taken.drafter, taken.drafter_cache))


def test_a_target_holds_no_more_than_it_was_made_for() -> None:
    pair = pair_of("FasterDecoding/medusa-vicuna-7b-v1.3")
    assert memory_of(pair, "nf4", 4096).cache == 2 * 512 * 2**20  # 2,048 tokens
    assert memory_of(pair, "nf4", 4096).drafter_cache == 0


def test_a_shape_is_read_from_a_config() -> None:
    config = {
        "model_type": "qwen3",
        "num_hidden_layers": 36,
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151_936,
        "tie_word_embeddings": True,
        "max_position_embeddings": 40_960,
    }
    assert shape_of(config) == QWEN3_4B.shape
    with pytest.raises(ValueError, match="memory is not known"):
        shape_of({"model_type": "mamba", "hidden_size": 8})


def test_the_drafters_name_methods_that_exist_here() -> None:
    from specviz.drafters import DRAFTERS

    assert {pair.drafter.method for pair in PAIRS} <= set(DRAFTERS)
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)
