"""Linear layers for decoding: packed bf16 rows that need no company, and 4-bit copies of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from specviz.lm.int4 import GROUP, Int4Linear, quantise, why_not_int4
from specviz.lm.linear import PackedLinear, why_not_packed
from specviz.lm.packed import PackedLM
from specviz.lm.packed_loading import layer_widths, load_packed
from specviz.tree import DraftTree
from tests.models import family_config, tiny_folder

needs_packed = pytest.mark.skipif(why_not_packed() is not None, reason=str(why_not_packed()))
needs_int4 = pytest.mark.skipif(why_not_int4() is not None, reason=str(why_not_int4()))


@needs_packed
@pytest.mark.parametrize(("num_in", "num_out"), [(64, 96), (576, 960), (1536, 576), (576, 1000)])
@pytest.mark.parametrize("step", ["__call__", "silu", "times", "plus"])
def test_a_linear_row_does_not_depend_on_its_company(num_in: int, num_out: int, step: str) -> None:
    """The layout for 4 rows kept this up to 32 rows only: a larger tree wrote other text."""
    rng = torch.Generator().manual_seed(0)
    weight = torch.randn(num_out, num_in, generator=rng).bfloat16()
    linear = PackedLinear(weight, torch.randn(num_out, generator=rng).bfloat16())
    x = torch.randn(128, num_in, generator=rng).bfloat16()
    other = torch.randn(128, num_out, generator=rng).bfloat16()

    def apply(rows: slice) -> Tensor:
        extra = (other[rows],) if step in ("times", "plus") else ()
        result: Tensor = getattr(linear, step)(x[rows], *extra)
        return result

    alone = torch.cat([apply(slice(i, i + 1)) for i in range(128)])
    for count in (*range(1, 41), 48, 63, 64, 65, 96, 127, 128):
        assert torch.equal(apply(slice(0, count)), alone[:count]), count
    truth = x.double() @ weight.double().T + linear.bias.double()  # type: ignore[union-attr]
    wanted = {
        "__call__": truth,
        "silu": torch.nn.functional.silu(truth),
        "times": truth * other.double(),
        "plus": truth + other.double(),
    }[step]
    assert torch.allclose(alone.double(), wanted, rtol=0.02, atol=0.02 * float(truth.std()))


@pytest.mark.parametrize("scale", [1e-4, 1.0, 50.0])
def test_four_bits_are_as_near_as_four_bits_can_be(scale: float) -> None:
    weight = scale * torch.randn(24, 3 * GROUP, generator=torch.Generator().manual_seed(0))
    weight[3, :GROUP] = scale  # a group without any spread
    steps, facts = quantise(weight)
    assert (steps.shape, steps.dtype, int(steps.min()), int(steps.max())) == (
        (24, 96), torch.int32, 0, 15,
    )  # fmt: skip
    restored = dequantised(steps, facts)
    groups = weight.view(24, -1, GROUP)
    step = (groups.amax(-1) - groups.amin(-1)) / 15
    allowed = 0.55 * step + 0.01 * groups.abs().amax(-1)  # half a step, and bf16 scale and zero
    assert bool(((restored.view_as(groups) - groups).abs().amax(-1) <= allowed).all())


def dequantised(steps: Tensor, facts: Tensor) -> Tensor:
    """(out, in): (step - 8) * scale + zero, written out."""
    scale = facts[..., 0].float().T.repeat_interleave(GROUP, 1)
    zero = facts[..., 1].float().T.repeat_interleave(GROUP, 1)
    return (steps.float() - 8) * scale + zero


@needs_int4
@pytest.mark.parametrize(
    ("num_in", "num_out"), [(32, 16), (64, 96), (576, 192), (64, 328), (64, 97)]
)
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_four_bit_layer_is_its_dequantised_self(
    num_in: int, num_out: int, has_bias: bool
) -> None:
    """Also where the outputs are no multiple of 16, as many heads are: the kernel refuses those."""
    rng = torch.Generator().manual_seed(1)
    weight = torch.randn(num_out, num_in, generator=rng).bfloat16()
    bias = torch.randn(num_out, generator=rng).bfloat16() if has_bias else None
    linear, restored = Int4Linear(weight, bias), dequantised(*quantise(weight))
    for rows in (1, 2, 7):
        x = torch.randn(rows, num_in, generator=rng).bfloat16()
        other = torch.randn(rows, num_out, generator=rng).bfloat16()
        truth = x.float() @ restored.T + (0 if bias is None else bias.float())
        close = {"rtol": 0.02, "atol": 0.02 * float(truth.std())}
        assert torch.allclose(linear(x).float(), truth, **close)
        silu = torch.nn.functional.silu(truth)
        assert torch.allclose(linear.silu(x).float(), silu, **close)
        assert torch.allclose(linear.times(x, other).float(), truth * other.float(), **close)
        assert torch.allclose(linear.plus(x, other).float(), truth + other.float(), **close)


def test_a_width_that_does_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 32; got 48"):
        quantise(torch.zeros(4, 48))


@needs_int4
def test_a_model_of_such_a_width_says_why_it_has_no_four_bit_copy() -> None:
    assert why_not_int4((64, 96)) is None
    assert why_not_int4((64, 48)) == (
        "4-bit layers need widths that are multiples of 32; this model has 48"
    )
    assert layer_widths(family_config("llama", head_dim=8)) == (64, 96, 32)


@needs_packed
@needs_int4
def test_a_four_bit_copy_resembles_its_model(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "model")
    tree = DraftTree.chain(5, [(7 + 31 * i) % 97 for i in range(30)])

    def logits_of(lm: PackedLM) -> Tensor:
        return lm.read(tree, lm.new_cache(40)).logits.float()

    whole = logits_of(load_packed(folder, context=128))
    copy = logits_of(load_packed(folder, context=128, make=Int4Linear))
    correlation = torch.corrcoef(torch.stack((whole.flatten(), copy.flatten())))[0, 1]
    assert 0.8 < float(correlation) < 1 - 1e-6
