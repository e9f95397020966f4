"""The packed pass against the plain one, and its own promise: no row depends on another's company.

Close: to the same weights read in float32, about as close as transformers' own bfloat16 comes.
Bitwise: a tree gives exactly what reading its paths one row at a time gives, so that speculative
lanes and the plain lane cannot differ by rounding.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from specviz.lm.base import FeatureTap, LanguageModel
from specviz.lm.linear import why_not_packed
from specviz.lm.packed import PREFILL_CHUNK, DoubledNorm, PackedLM
from specviz.lm.packed_loading import load_packed, why_not
from specviz.lm.plain import load_plain
from specviz.tree import DraftTree
from tests.models import edit_config, family_config, random_model

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


@pytest.mark.parametrize("size", [1, 2, 5, 17, 64])
def test_a_tree_reads_bitwise_as_its_paths_one_row_at_a_time(packed: PackedLM, size: int) -> None:
    start = one_by_one(packed, PREFIX, 128)
    for seed in range(2):
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
        ("qwen3", {}, "for llama, mistral, qwen2, mimo models only"),
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
