"""A drafter's layer over its cache against the same layer in float64, recomputed whole."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from specviz.lm.draft_cache import DraftCache
from specviz.lm.draft_layer import CachedLayer, head_shape, rope_of
from specviz.lm.linear import PackedLinear, PlainLinear, best_linear, why_not_packed
from specviz.lm.packed_attention import HeadShape
from tests.lm.layer64 import layer64, random_layer

H, HEADS, EPS, THETA = 32, 4, 1e-5, 500.0
DTYPES = [torch.float32, torch.bfloat16]
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.12}
# Of a tree behind 5 rows: levels of 2 and 3 rows; a row's parent among all rows before it.
STABLE, PARENTS = 5, (4, 4, 5, 6, 5)
DEPTHS = (0, 0, 1, 1, 1)


def weights(dtype: torch.dtype, inputs: int, *, biased: bool) -> dict[str, Tensor]:
    tensors = random_layer("l.", H, 48, inputs=inputs, kv=16, scale=0.2, seed=3)
    if biased:
        for i, name in enumerate("qkv"):
            weight = tensors[f"l.self_attn.{name}_proj.weight"]
            tensors[f"l.self_attn.{name}_proj.bias"] = 0.5 * weight[:, i]
    return {name: tensor.to(dtype) for name, tensor in tensors.items()}


FIXED = [False, True]


def new_cache(layer: CachedLayer, capacity: int, *, fixed: bool) -> DraftCache:
    return layer.fixed_cache(capacity) if fixed else layer.new_cache(capacity)


def cached(tensors: dict[str, Tensor]) -> CachedLayer:
    shape = head_shape(tensors, "l.", HEADS)
    return CachedLayer(
        tensors, "l.", shape=shape, eps=EPS, rope=rope_of({"rope_theta": THETA}, shape)
    )


def rows(count: int, width: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed)).to(dtype)


def truth(
    tensors: dict[str, Tensor], x: Tensor, residual: Tensor, positions: Tensor, visible: Tensor
) -> Tensor:
    return layer64(
        tensors,
        "l.",
        x,
        residual,
        positions=positions,
        visible=visible,
        heads=HEADS,
        eps=EPS,
        theta=THETA,
    )


def causal(count: int) -> Tensor:
    return torch.ones(count, count, dtype=torch.bool).tril()


def read_on(layer: CachedLayer, cache: DraftCache, x: Tensor, residual: Tensor) -> Tensor:
    count = len(x)
    found = layer.run(x, residual, torch.arange(count), causal(count), cache)
    cache.crop(cache.length)  # all of them are there to stay
    return found


def assert_close(found: Tensor, wanted: Tensor, dtype: torch.dtype) -> None:
    gap = float((found.double() - wanted).abs().max() / wanted.abs().max())
    assert gap < TOLERANCE[dtype] * (0.1 if dtype == torch.bfloat16 else 1)


@pytest.mark.parametrize("fixed", FIXED)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("inputs", "biased"), [(H, True), (2 * H, False)])
def test_a_chain_in_pieces_is_the_whole(
    dtype: torch.dtype, inputs: int, biased: bool, fixed: bool
) -> None:
    tensors = weights(dtype, inputs, biased=biased)
    layer, x, residual = cached(tensors), rows(40, inputs, dtype), rows(40, H, dtype, 1)
    cache = new_cache(layer, 40, fixed=fixed)
    pieces = [0, 37, 38, 40]
    found = [
        read_on(layer, cache, x[start:end], residual[start:end])
        for start, end in zip(pieces, pieces[1:], strict=False)
    ]
    assert cache.length == 40
    assert_close(torch.cat(found), truth(tensors, x, residual, torch.arange(40), causal(40)), dtype)


def paths() -> Tensor:
    """(10, 10) who sees whom: stable rows causally, tree rows all of these and their own path."""
    visible = torch.zeros(STABLE + len(PARENTS), STABLE + len(PARENTS), dtype=torch.bool)
    visible[:STABLE, :STABLE] = causal(STABLE)
    for row, parent in enumerate(PARENTS, start=STABLE):
        visible[row] = visible[parent]
        visible[row, row] = True
    return visible


@pytest.mark.parametrize("fixed", FIXED)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tree_level_by_level_sees_its_own_paths(dtype: torch.dtype, fixed: bool) -> None:
    """And cropping leaves nothing of it: the rows read afterwards are those of a fresh cache."""
    tensors = weights(dtype, H, biased=False)
    layer, x, residual = cached(tensors), rows(10, H, dtype), rows(10, H, dtype, 1)
    cache, visible = new_cache(layer, 12, fixed=fixed), paths()
    found = [read_on(layer, cache, x[:5], residual[:5])]
    for start, end in ((5, 7), (7, 10)):
        depths = torch.tensor(DEPTHS[start - 5 : end - 5])
        seen = visible[start:end, STABLE:end]
        found.append(layer.run(x[start:end], residual[start:end], depths, seen, cache))
    positions = torch.tensor([*range(STABLE), *(STABLE + depth for depth in DEPTHS)])
    assert_close(torch.cat(found), truth(tensors, x, residual, positions, visible), dtype)
    cache.crop(STABLE)
    after = read_on(layer, cache, x[7:9], residual[7:9])
    order = [0, 1, 2, 3, 4, 7, 8]
    wanted = truth(tensors, x[order], residual[order], torch.arange(7), causal(7))
    assert_close(after, wanted[5:], dtype)


def test_the_reference_notices_what_it_should() -> None:
    """Positions, mask and residual each matter: a test that cannot fail would hold nothing."""
    tensors = weights(torch.float32, H, biased=False)
    x, residual = rows(10, H, torch.float32), rows(10, H, torch.float32, 1)
    right = truth(tensors, x, residual, torch.arange(10), causal(10))
    late = truth(tensors, x, residual, torch.arange(10) * 2, causal(10))
    seeing = truth(tensors, x, residual, torch.arange(10), torch.ones(10, 10, dtype=torch.bool))
    for other in (late, seeing, truth(tensors, x, x, torch.arange(10), causal(10))):
        assert float((right - other).abs().max()) > 0.1


def test_a_cache_that_is_full_says_so() -> None:
    layer = cached(weights(torch.float32, H, biased=False))
    with pytest.raises(ValueError, match="holds 3 rows"):
        read_on(layer, layer.new_cache(3), rows(4, H, torch.float32), rows(4, H, torch.float32))
    with pytest.raises(ValueError, match="holds 256 rows"):
        read_on(
            layer, layer.fixed_cache(3), rows(257, H, torch.float32), rows(257, H, torch.float32)
        )


def test_heads_come_from_the_weights() -> None:
    """A published 4B drafter has head_dim 128 where hidden / heads is 80."""
    tensors = random_layer("l.", H, 48, inputs=H, kv=16, scale=0.2, seed=3)
    assert head_shape(tensors, "l.", 4).num_kv_heads == 2
    tensors["l.self_attn.q_proj.weight"] = torch.zeros(64, H)
    tensors["l.self_attn.o_proj.weight"] = torch.zeros(H, 64)
    assert head_shape(tensors, "l.", 4).head_size == 16
    for heads in (3, 7, 64):
        with pytest.raises(ValueError, match="does not fit"):
            head_shape(tensors, "l.", heads)


@pytest.mark.parametrize(
    ("config", "base"),
    [
        ({}, 10_000.0),
        ({"rope_theta": 77.0}, 77.0),
        ({"rope_theta": 77.0, "rope_parameters": {"rope_type": "default", "rope_theta": 9.0}}, 9.0),
    ],
)
def test_the_base_of_the_rotation(config: dict[str, object], base: float) -> None:
    shape = head_shape(random_layer("l.", H, 8, inputs=H, kv=16, scale=1, seed=0), "l.", HEADS)
    speeds = rope_of(config, shape).inverse_frequencies
    assert torch.allclose(speeds, base ** (-torch.arange(4) / 4))


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
LINEAR = {"type": "linear", "factor": 2.0}


@pytest.mark.parametrize("scaling", [LLAMA3, YARN, LINEAR])
@pytest.mark.parametrize("layout", ["old", "new"])
def test_scaled_positions_are_the_targets_own(scaling: dict[str, Any], layout: str) -> None:
    """Angles at near and far positions, by transformers' own rotation of a model with that config,
    whichever way the config is written. Reading leaves the config as it was."""
    new = {**scaling, "rope_theta": 5e5}
    config = {"rope_parameters": new} if layout == "new" else {"rope_scaling": scaling}
    config |= {"max_position_embeddings": 256, "rope_theta": 5e5}
    before = copy.deepcopy(config)
    found = rope_of(config, HeadShape(2, 1, 32))
    assert config == before
    model = LlamaConfig(
        hidden_size=64,
        num_attention_heads=2,
        head_dim=32,
        max_position_embeddings=256,
        rope_parameters={"rope_type": scaling.get("type"), **new},
    )
    positions = torch.tensor([[10, 5000]])
    cos, sin = LlamaRotaryEmbedding(model)(torch.zeros(1), positions)
    factors = found.at(positions[0], 5001)[:, 0]  # of the first query head
    torch.testing.assert_close(factors.real, cos[0, :, :16])
    torch.testing.assert_close(factors.imag, sin[0, :, :16])


@pytest.mark.parametrize(
    ("hidden", "heads", "kv_heads", "head_size"),
    [
        (4096, 32, 32, 128),  # Llama 2 and Vicuna 7B
        (5120, 40, 40, 128),  # Vicuna 13B
        (4096, 32, 8, 128),  # Llama 3 8B, Qwen3 8B
        (8192, 64, 8, 128),  # Llama 3 70B
        (3584, 28, 4, 128),  # Qwen2 7B
        (2048, 16, 8, 128),  # Qwen3 1.7B
        (2560, 32, 8, 128),  # Qwen3 4B: not hidden / heads
        (2560, 32, 8, 80),  # a first export of its drafter
        (5120, 64, 8, 128),  # Qwen3 32B
    ],
)
def test_heads_of_large_drafters(hidden: int, heads: int, kv_heads: int, head_size: int) -> None:
    """Shapes alone: nothing is allocated."""
    rows = {"q": heads * head_size, "k": kv_heads * head_size, "v": kv_heads * head_size}
    tensors = {
        f"l.self_attn.{name}_proj.weight": torch.empty(count, 2 * hidden, device="meta")
        for name, count in rows.items()
    }
    tensors["l.self_attn.o_proj.weight"] = torch.empty(hidden, rows["q"], device="meta")
    assert head_shape(tensors, "l.", heads) == HeadShape(heads, kv_heads, head_size)


def test_plain_layers_stand_in_for_packed_ones() -> None:
    rng = torch.Generator().manual_seed(0)
    weight, x, other = (torch.randn(s, generator=rng) for s in ((5, 7), (3, 7), (3, 5)))
    plain, y = PlainLinear(weight, weight[:, 0]), x @ weight.T + weight[:, 0]
    assert torch.allclose(plain(x), y, atol=1e-5)
    assert torch.allclose(plain.silu(x), y * torch.sigmoid(y), atol=1e-5)
    assert torch.allclose(plain.times(x, other), y * other, atol=1e-5)
    assert torch.allclose(plain.plus(x, other), y + other, atol=1e-5)
    assert isinstance(best_linear(weight), PlainLinear)
    packed = PackedLinear if why_not_packed() is None else PlainLinear
    assert isinstance(best_linear(weight.bfloat16()), packed)


def test_nine_heads_of_64_are_no_surprise() -> None:
    """LlamaConfig's own hidden size, 4096, is not a multiple of the default target's 9 heads: every
    drafter of it failed to load."""
    speeds = rope_of({"rope_theta": 100000}, HeadShape(9, 3, 64)).inverse_frequencies
    expected = torch.tensor([100000.0 ** (-i / 32) for i in range(32)])
    torch.testing.assert_close(speeds, expected)
