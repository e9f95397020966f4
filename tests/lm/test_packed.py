"""The packed pass against the plain one, and its own promise: no row depends on another's company.

Close: to the same weights read in float32, about as close as transformers' own bfloat16 comes.
Bitwise: a tree gives exactly what reading its paths one row at a time gives, so that speculative
lanes and the plain lane cannot differ by rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from specviz.lm.base import FeatureTap, LanguageModel
from specviz.lm.int4 import GROUP, Int4Linear, quantise, why_not_int4
from specviz.lm.linear import PackedLinear, why_not_packed
from specviz.lm.packed import PREFILL_CHUNK, DoubledNorm, PackedLM
from specviz.lm.packed_loading import layer_widths, load_packed, why_not
from specviz.lm.plain import load_plain
from specviz.tree import DraftTree
from tests.models import edit_config, family_config, one_thread, random_model, tiny_folder

pytestmark = pytest.mark.skipif(why_not_packed() is not None, reason=str(why_not_packed()))

CPU = torch.device("cpu")
FAMILIES = (
    "llama", "llama_tied", "llama_llama3_rope", "llama_linear_rope", "llama_yarn_rope",
    "llama_padded", "qwen2", "mistral",
)  # fmt: skip
PREFIX = [(7 + 31 * i) % 97 for i in range(21)]
TREE = DraftTree.from_paths(5, [(1, 2, 3, 4), (1, 2, 9), (8, 7), (6,), (1, 5, 5, 5, 5)])
TAPS = (FeatureTap("input", 0), FeatureTap("output", 0), FeatureTap("output", 1))
TAPS += (FeatureTap("normed"),)


@pytest.fixture(autouse=True, scope="module")
def single() -> Iterator[None]:
    with one_thread():
        yield


def folder_of(family: str, folder: Path, **overrides: Any) -> Path:
    """A checkpoint whose weights are bfloat16 numbers, so that both passes have the same."""
    model = random_model(family_config(family, **overrides))
    model.bfloat16().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def packed(folder: Path) -> PackedLM:
    return load_packed(folder, context=128)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of("llama", tmp_path_factory.mktemp("llama"))


def read_after(lm: LanguageModel, prefix: list[int], tree: DraftTree) -> Tensor:
    cache = lm.new_cache(len(prefix) + len(tree))
    lm.prefill(prefix, cache)
    return lm.read(tree, cache).logits.float()


def test_it_reads_what_the_plain_path_reads(folder: Path, packed: PackedLM) -> None:
    truth = read_after(load_plain(folder, dtype=torch.float32, device=CPU), PREFIX, TREE)
    theirs = read_after(load_plain(folder, dtype=torch.bfloat16, device=CPU), PREFIX, TREE)
    ours = read_after(packed, PREFIX, TREE)
    error, bound = (float((x - truth).pow(2).mean().sqrt()) for x in (ours, theirs))
    assert error < 1.5 * bound
    assert error < 0.02 * float(truth.max() - truth.min())
    gaps = truth.topk(2).values.diff().abs().flatten()
    is_clear = gaps > 6 * bound
    assert torch.equal(ours.argmax(-1)[is_clear], truth.argmax(-1)[is_clear])
    assert int(is_clear.sum()) >= 5


def test_facts_of_the_model(folder: Path, packed: PackedLM) -> None:
    plain = load_plain(folder, dtype=torch.bfloat16, device=CPU)
    for fact in ("vocab_size", "hidden_size", "num_layers", "num_parameters"):
        assert getattr(packed, fact) == getattr(plain, fact), fact
    assert (packed.max_context, packed.dtype, packed.device) == (128, torch.bfloat16, CPU)


def test_features_embedding_and_head(folder: Path, packed: PackedLM) -> None:
    plain = load_plain(folder, dtype=torch.float32, device=CPU)
    found = []
    for lm in (packed, plain):
        cache = lm.new_cache(64)
        prompt = lm.prefill(PREFIX, cache, TAPS)
        output = lm.read(TREE, cache, TAPS)
        assert prompt is not None
        assert output.features is not None
        assert prompt.shape == (len(PREFIX), 4 * lm.hidden_size)
        assert output.features.shape == (len(TREE), 4 * lm.hidden_size)
        head = lm.head(output.features[:, -lm.hidden_size :])
        assert torch.allclose(head.float(), output.logits.float(), atol=1e-4)
        found.append((prompt.float(), output.features.float(), lm.embed(torch.tensor([3, 9]))))
    for ours, theirs in zip(*found, strict=True):
        assert float((ours - theirs).abs().max()) < 0.03 * float(theirs.max() - theirs.min())


def test_taps_do_not_change_the_scores(packed: PackedLM) -> None:
    plain, tapped = packed.new_cache(64), packed.new_cache(64)
    packed.prefill(PREFIX, plain)
    packed.prefill(PREFIX, tapped, TAPS)
    assert torch.equal(plain.buffer[:, :, :21], tapped.buffer[:, :, :21])
    without, with_taps = packed.read(TREE, plain), packed.read(TREE, tapped, TAPS)
    assert torch.equal(without.logits, with_taps.logits)
    assert without.features is None


def one_by_one(lm: PackedLM, tokens: list[int], capacity: int) -> Any:
    """A cache that was written one row at a time, as plain decoding does."""
    cache = lm.new_cache(capacity)
    for token in tokens:
        lm.read(DraftTree.chain(token), cache)
        cache.keep((0,))
    return cache


def random_tree(size: int, seed: int) -> DraftTree:
    rng = torch.Generator().manual_seed(seed)
    tokens, parents, used = [5], [-1], set[tuple[int, int]]()
    while len(tokens) < size:
        parent = int(torch.randint(len(tokens), (), generator=rng))
        token = int(torch.randint(97, (), generator=rng))
        if (parent, token) not in used:
            used.add((parent, token))
            tokens.append(token)
            parents.append(parent)
    return DraftTree(tuple(tokens), tuple(parents))


@pytest.mark.parametrize("size", [1, 2, 5, 17, 32])
def test_a_tree_reads_bitwise_as_its_paths_one_row_at_a_time(packed: PackedLM, size: int) -> None:
    start = one_by_one(packed, PREFIX, 96)
    for seed in range(3):
        tree = random_tree(size, seed)
        together = packed.read(tree, start.clone()).logits
        for row in range(size):
            cache = start.clone()
            for above in tree.path(row):
                alone = packed.read(DraftTree.chain(tree.tokens[above]), cache).logits[0]
                cache.keep((0,))
            assert torch.equal(together[row], alone)


def test_a_kept_path_is_bitwise_a_fresh_read(packed: PackedLM) -> None:
    """Round after round of trees with a branch kept: the cache stays the one-row lane's own."""
    speculative = one_by_one(packed, PREFIX, 160)
    text = list(PREFIX)
    for seed in range(6):
        tree = random_tree(12, seed)
        packed.read(tree, speculative)
        path = tree.path(11)
        speculative.keep(path)
        text += [tree.tokens[row] for row in path]
    fresh = one_by_one(packed, text, 160)
    assert speculative.length == fresh.length == len(text)
    end = len(text)
    assert torch.equal(speculative.buffer[:, :, :end], fresh.buffer[:, :, :end])
    probe = DraftTree.chain(3)
    assert torch.equal(packed.read(probe, speculative).logits, packed.read(probe, fresh).logits)


def test_rejected_rows_leave_nothing_behind(packed: PackedLM) -> None:
    cache, clean = (one_by_one(packed, PREFIX, 96) for _ in range(2))
    packed.read(random_tree(30, 1), cache)
    cache.keep((0,))
    packed.read(DraftTree.chain(5), clean)
    clean.keep((0,))
    tree = random_tree(7, 2)
    assert torch.equal(packed.read(tree, cache).logits, packed.read(tree, clean).logits)
    cache.crop(10)
    clean.crop(10)
    assert torch.equal(packed.read(tree, cache).logits, packed.read(tree, clean).logits)


@pytest.mark.parametrize(("num_in", "num_out"), [(64, 96), (576, 960), (1536, 576), (576, 1000)])
@pytest.mark.parametrize("step", ["__call__", "silu", "times", "plus"])
def test_a_linear_row_does_not_depend_on_its_company(num_in: int, num_out: int, step: str) -> None:
    rng = torch.Generator().manual_seed(0)
    weight = torch.randn(num_out, num_in, generator=rng).bfloat16()
    linear = PackedLinear(weight, torch.randn(num_out, generator=rng).bfloat16())
    x = torch.randn(32, num_in, generator=rng).bfloat16()
    other = torch.randn(32, num_out, generator=rng).bfloat16()

    def apply(rows: slice) -> Tensor:
        extra = (other[rows],) if step in ("times", "plus") else ()
        result: Tensor = getattr(linear, step)(x[rows], *extra)
        return result

    alone = torch.cat([apply(slice(i, i + 1)) for i in range(32)])
    for count in range(1, 33):
        assert torch.equal(apply(slice(0, count)), alone[:count]), count
    truth = x.double() @ weight.double().T + linear.bias.double()  # type: ignore[union-attr]
    wanted = {
        "__call__": truth,
        "silu": torch.nn.functional.silu(truth),
        "times": truth * other.double(),
        "plus": truth + other.double(),
    }[step]
    assert torch.allclose(alone.double(), wanted, rtol=0.02, atol=0.02 * float(truth.std()))


def test_prompts_longer_than_a_chunk_read_as_one(llama: Path) -> None:
    """300 tokens in passes of 256: the same scores as one row at a time, to bfloat16's rounding."""
    lm = load_packed(llama, context=512)
    prompt = [(7 + 31 * i) % 97 for i in range(PREFILL_CHUNK + 44)]
    chunked = read_after(lm, prompt, TREE)
    alone = lm.read(TREE, one_by_one(lm, prompt, 512)).logits.float()
    spread = float(alone.max() - alone.min())
    assert float((chunked - alone).abs().max()) < 0.03 * spread
    assert lm.prefill([], lm.new_cache(4)) is None


def test_a_norm_of_pairs_is_the_root_mean_square_norm() -> None:
    rng = torch.Generator().manual_seed(0)
    weight, x = torch.randn(64, generator=rng).bfloat16(), torch.randn(9, 64, generator=rng)
    for scale in (1e-3, 1.0, 1e3):
        rows = (x * scale).bfloat16()
        truth = rows.double() * (rows.double().pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
        ours = DoubledNorm(weight, 1e-6)(rows).double()
        assert torch.allclose(ours, truth * weight.double(), rtol=0.01, atol=1e-6)


def test_a_cache_keeps_to_its_capacity(llama: Path) -> None:
    lm = load_packed(llama, context=128)
    cache = lm.new_cache(6)
    lm.prefill([1, 2, 3], cache)
    lm.read(DraftTree.chain(4, (5, 6)), cache)
    with pytest.raises(ValueError, match="holds 6 rows; this pass needs 7"):
        lm.read(DraftTree.chain(4, (5, 6, 7)), cache)
    address = cache.buffer.data_ptr()
    lm.read(DraftTree.chain(4, (5, 6)), cache)
    cache.keep((0, 2))
    twin = cache.clone()
    cache.crop(1)
    assert (twin.length, cache.length, twin.capacity) == (5, 1, 6)
    assert cache.buffer.data_ptr() == address != twin.buffer.data_ptr()


# Which models qualify.


@pytest.mark.parametrize(
    ("family", "overrides", "reason"),
    [
        ("qwen3", {}, "for llama, mistral, qwen2 models only"),
        ("llama", {"hidden_act": "gelu"}, "has SiLU only, this model has gelu"),
        ("llama", {"mlp_bias": True}, "MLP layers have biases"),
        (
            "llama",
            {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}},
            "rope type dynamic changes with the length",
        ),
    ],
)
def test_what_cannot_be_packed_says_why(
    family: str, overrides: dict[str, Any], reason: str
) -> None:
    assert reason in str(why_not(family_config(family, **overrides)))


@pytest.mark.parametrize("family", FAMILIES)
def test_what_can_be_packed_has_no_reason_not_to(family: str) -> None:
    assert why_not(family_config(family)) is None


def test_attention_biases_are_read(tmp_path: Path) -> None:
    folder = folder_of("llama", tmp_path, attention_bias=True)
    truth = read_after(load_plain(folder, dtype=torch.float32, device=CPU), PREFIX, TREE)
    ours = read_after(load_packed(folder, context=128), PREFIX, TREE)
    assert float((ours - truth).abs().max()) < 0.05 * float(truth.max() - truth.min())


def test_a_head_size_of_its_own_is_read(tmp_path: Path) -> None:
    folder = folder_of("llama", tmp_path, head_dim=32)
    truth = read_after(load_plain(folder, dtype=torch.float32, device=CPU), PREFIX, TREE)
    ours = read_after(load_packed(folder, context=128), PREFIX, TREE)
    assert float((ours - truth).abs().max()) < 0.05 * float(truth.max() - truth.min())


# Copies to draft with.


def test_a_truncated_copy_is_the_first_layers(llama: Path, tmp_path: Path) -> None:
    for source in llama.iterdir():
        (tmp_path / source.name).write_bytes(source.read_bytes())
    short = load_packed(llama, context=128, num_layers=1)
    edit_config(tmp_path, num_hidden_layers=1, layer_types=None)
    alone = load_packed(tmp_path, context=128)
    assert (short.num_layers, alone.num_layers) == (1, 1)
    assert torch.equal(read_after(short, PREFIX, TREE), read_after(alone, PREFIX, TREE))
    whole = load_packed(llama, context=128)
    assert short.num_parameters < whole.num_parameters
    assert not torch.equal(read_after(short, PREFIX, TREE), read_after(whole, PREFIX, TREE))


needs_int4 = pytest.mark.skipif(why_not_int4() is not None, reason=str(why_not_int4()))


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


@needs_int4
def test_a_four_bit_copy_resembles_its_model(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "model")
    whole = read_after(load_packed(folder, context=128), PREFIX, TREE)
    copy = read_after(load_packed(folder, context=128, make=Int4Linear), PREFIX, TREE)
    correlation = torch.corrcoef(torch.stack((whole.flatten(), copy.flatten())))[0, 1]
    assert 0.8 < float(correlation) < 1 - 1e-6
