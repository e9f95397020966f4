"""The plain path against independent truths: sequential reads, and the stock model's own forward."""

from __future__ import annotations

from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.lm import plain
from specviz.lm.base import FeatureTap
from specviz.lm.plain import PlainLM
from specviz.tree import DraftTree
from tests.models import FAMILIES, family_config, micro, random_model, tiny

CPU = torch.device("cpu")
CLOSE = {"rtol": 0.0, "atol": 1e-4}
KINDS = [
    (name, attention)
    for name in FAMILIES
    for attention in ("sdpa", "eager")
    if (name, attention) != ("gemma2", "sdpa")  # transformers has no softcapped sdpa
]


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def lm(request):
    name, attention = request.param
    return PlainLM(random_model(family_config(name), attention=attention), 128)


def random_tree(rng: Random, vocab_size: int, num_rows: int) -> DraftTree:
    """Any shape, siblings differ, with up to three lookahead rows at the end."""
    parents, tokens, taken = [-1], [rng.randrange(vocab_size)], set()
    while len(parents) < num_rows:
        key = (rng.randrange(len(parents)), rng.randrange(vocab_size))
        if key not in taken:
            taken.add(key)
            parents.append(key[0])
            tokens.append(key[1])
    return DraftTree(tuple(tokens), tuple(parents), min(rng.randrange(4), num_rows - 1))


def random_tokens(rng: Random, lm, count: int) -> list[int]:
    return [rng.randrange(lm.vocab_size) for _ in range(count)]


def stock_logits(lm, tokens) -> torch.Tensor:
    """(T, V) of the unmodified model: no mask, no positions, no cache of ours."""
    with torch.no_grad():
        return lm.model(input_ids=torch.tensor([list(tokens)]), use_cache=False).logits[0]


def num_hooks(lm) -> int:
    modules = lm.model.modules()
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in modules)


def path_tokens(tree: DraftTree, row: int) -> list[int]:
    return [tree.tokens[i] for i in tree.path(row)]


def leaves(tree: DraftTree) -> list[int]:
    """Rows without children, lookahead rows included: their paths pass through every row."""
    return [row for row in range(len(tree)) if row not in tree.parents]


@pytest.mark.parametrize("num_cached", [0, 1, 40])
def test_every_row_reads_as_its_path_does_in_the_stock_model(lm, num_cached):
    """A01, A02: one-token prompts (nothing cached yet) are no special case."""
    rng = Random(num_cached)
    prefix, tree = random_tokens(rng, lm, num_cached), random_tree(rng, lm.vocab_size, 20)
    cache = lm.new_cache(num_cached + 20)
    lm.prefill(prefix, cache)
    logits = lm.read(tree, cache).logits
    assert cache.length == num_cached
    for leaf in leaves(tree):
        rows = tree.path(leaf)
        truth = stock_logits(lm, [*prefix, *path_tokens(tree, leaf)])[num_cached:]
        torch.testing.assert_close(logits[list(rows)], truth, **CLOSE)


def test_every_row_reads_as_its_path_does_one_token_at_a_time(lm):
    rng = Random(3)
    prefix, tree = random_tokens(rng, lm, 5), random_tree(rng, lm.vocab_size, 8)
    cache = lm.new_cache(40)
    lm.prefill(prefix, cache)
    logits = lm.read(tree, cache).logits
    for row in range(len(tree)):
        alone = cache.clone()
        for token in path_tokens(tree, row):
            truth = lm.read(DraftTree.chain(token), alone).logits[-1]
            alone.keep((0,))
        torch.testing.assert_close(logits[row], truth, **CLOSE)


def test_rounds_of_kept_paths_equal_a_fresh_read(lm):
    """E17: after each round the cache holds the committed tokens but the root, no row more."""
    rng = Random(11)
    committed = random_tokens(rng, lm, 3)
    cache = lm.new_cache(128)
    lm.prefill(committed[:-1], cache)
    for _ in range(6):
        tree = random_tree(rng, lm.vocab_size, 10)
        tree = DraftTree((committed[-1], *tree.tokens[1:]), tree.parents, tree.num_lookahead_rows)
        lm.read(tree, cache)
        rows = tree.path(rng.randrange(tree.num_draft_tokens + 1))
        cache.keep(rows)
        committed += [*(tree.tokens[row] for row in rows[1:]), rng.randrange(lm.vocab_size)]
        assert cache.length == len(committed) - 1
    logits = lm.read(DraftTree.chain(committed[-1]), cache).logits[-1]
    torch.testing.assert_close(logits, stock_logits(lm, committed)[-1], **CLOSE)


def test_crop_forgets(lm):
    rng = Random(2)
    tokens = random_tokens(rng, lm, 12)
    cache = lm.new_cache(40)
    lm.prefill(tokens, cache)
    cache.crop(4)
    assert cache.length == 4
    lm.prefill(tokens[:3], cache)
    logits = lm.read(DraftTree.chain(5), cache).logits[-1]
    torch.testing.assert_close(logits, stock_logits(lm, [*tokens[:4], *tokens[:3], 5])[-1], **CLOSE)


def test_features_and_ends_agree_with_the_stock_model(lm):
    """What drafters are fed: the layers' own states, and a head that gives the pass's logits."""
    rng = Random(9)
    prefix, tree = random_tokens(rng, lm, 6), random_tree(rng, lm.vocab_size, 9)
    last = lm.num_layers - 1
    taps = (
        FeatureTap("input", 0),
        FeatureTap("output", last),
        FeatureTap("normed"),
        FeatureTap("input", last),
    )
    cache = lm.new_cache(32)
    lm.prefill(prefix, cache)
    output = lm.read(tree, cache, taps)
    first, before_norm, normed, into_last = output.features.chunk(4, -1)
    torch.testing.assert_close(first, lm.embed(torch.tensor(tree.tokens)), **CLOSE)
    torch.testing.assert_close(lm.head(normed), output.logits, **CLOSE)
    assert not torch.equal(before_norm, into_last)
    for row in leaves(tree):
        with torch.no_grad():
            ids = torch.tensor([[*prefix, *path_tokens(tree, row)]])
            states = lm.model(input_ids=ids, use_cache=False, output_hidden_states=True)
        # transformers lists the embedding, then every layer's output, the last one normed.
        torch.testing.assert_close(into_last[row], states.hidden_states[last][0, -1], **CLOSE)
        torch.testing.assert_close(normed[row], states.hidden_states[-1][0, -1], **CLOSE)


def test_prefill_gives_the_features_a_read_gives(lm):
    tokens = random_tokens(Random(4), lm, 9)
    taps = (FeatureTap("output", 0), FeatureTap("normed"))
    features = lm.prefill(tokens, lm.new_cache(9), taps)
    read = lm.read(DraftTree.chain(tokens[0], tokens[1:]), lm.new_cache(9), taps).features
    torch.testing.assert_close(features, read, **CLOSE)


def test_taps_leave_the_logits_bitwise_alone(lm):
    tree = random_tree(Random(1), lm.vocab_size, 8)
    taps = (FeatureTap("input", 1), FeatureTap("output", 0), FeatureTap("normed"))
    plain_output, hooks = lm.read(tree, lm.new_cache(8)), num_hooks(lm)
    tapped = lm.read(tree, lm.new_cache(8), taps)
    assert plain_output.features is None
    assert torch.equal(plain_output.logits, tapped.logits)
    assert num_hooks(lm) == hooks


def test_prefill_without_tokens_or_taps():
    lm = tiny()
    assert lm.prefill([3, 4], lm.new_cache(4)) is None
    assert lm.prefill([], lm.new_cache(4), (FeatureTap("normed"),)).shape == (0, lm.hidden_size)


@pytest.mark.parametrize("side", ["input", "output"])
def test_a_layer_that_is_not_there(side):
    lm = tiny()
    with pytest.raises(ValueError, match="layers 0 to 1; layer 2"):
        lm.prefill([3, 4], lm.new_cache(4), (FeatureTap(side, 2),))
    assert num_hooks(lm) == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 40), st.integers(1, 20))
def test_any_tree_after_any_prefix(seed, num_cached, num_rows):
    rng, lm = Random(seed), _TINY
    prefix, tree = random_tokens(rng, lm, num_cached), random_tree(rng, lm.vocab_size, num_rows)
    cache = lm.new_cache(num_cached + num_rows)
    lm.prefill(prefix, cache)
    logits = lm.read(tree, cache).logits
    row = rng.randrange(num_rows)
    truth = stock_logits(lm, [*prefix, *path_tokens(tree, row)])[-1]
    torch.testing.assert_close(logits[row], truth, **CLOSE)


_TINY = tiny()


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_chunks_of_a_prompt_read_as_the_whole(monkeypatch, attention):
    """A13: 1 x 300, 3 x 100 and 300 x 1; top-1 equal, probabilities within 1e-4."""
    lm = tiny(attention=attention, max_position_embeddings=512)
    tokens = random_tokens(Random(0), lm, 300)
    truth = stock_logits(lm, tokens)
    for rows in (300, 100, 1):
        monkeypatch.setattr(plain, "PREFILL_ROWS", rows)
        normed = lm.prefill(tokens, lm.new_cache(300), (FeatureTap("normed"),))
        logits = lm.head(normed)
        assert torch.equal(logits.argmax(-1), truth.argmax(-1))
        gap = (logits.softmax(-1) - truth.softmax(-1)).abs().max()
        assert gap < 1e-4


@pytest.mark.parametrize("length", [255, 256, 257, 511, 512, 513, 1023, 1024, 1025])
def test_prompts_around_powers_of_two(length):
    """E10: a shape error at the size where a cache grows or a chunk ends."""
    lm = tiny(max_position_embeddings=2048)
    tokens = random_tokens(Random(length), lm, length)
    cache = lm.new_cache(length + 8)
    lm.prefill(tokens[:-1], cache)
    logits = lm.read(DraftTree.chain(tokens[-1], (1, 2, 3, 4, 5, 6, 7)), cache).logits
    truth = stock_logits(lm, [*tokens, 1, 2, 3, 4, 5, 6, 7])[-8:]
    torch.testing.assert_close(logits, truth, **CLOSE)


def test_many_runs_in_one_process():
    """E14: bookkeeping of lengths that goes wrong only after a hundred runs."""
    lm, rng = tiny(max_position_embeddings=512), Random(5)
    for run in range(150):
        tokens = random_tokens(rng, lm, rng.randrange(1, 400))
        draft = random_tokens(rng, lm, rng.randrange(9))
        cache = lm.new_cache(len(tokens) + 30)
        lm.prefill(tokens[:-1], cache)
        logits = lm.read(DraftTree.chain(tokens[-1], draft), cache).logits
        cache.keep(range(rng.randrange(1, len(draft) + 2)))
        if run % 10 == 0:
            truth = stock_logits(lm, [*tokens, *draft])[len(tokens) - 1 :]
            torch.testing.assert_close(logits, truth, **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("num_cached", [0, 1, 40])
def test_half_precision_stays_finite(dtype, attention, num_cached):
    """E11, E12: a mask of the dtype's lowest number overflows to minus infinity, then NaN."""
    model = random_model(family_config("llama"), attention=attention).to(dtype)
    lm, rng = PlainLM(model, 128), Random(1)
    tree = random_tree(rng, lm.vocab_size, 64)
    cache = lm.new_cache(num_cached + 64)
    lm.prefill(random_tokens(rng, lm, num_cached), cache)
    logits = lm.read(tree, cache).logits
    assert logits.dtype == dtype
    assert torch.isfinite(logits).all()


def test_a_read_that_is_not_kept_leaves_no_trace():
    lm = tiny()
    cache = lm.new_cache(16)
    lm.prefill([3, 4, 5], cache)
    lm.read(DraftTree((6, 7, 8, 9), (-1, 0, 0, 1)), cache)
    again = lm.read(DraftTree.chain(10), cache).logits[-1]
    torch.testing.assert_close(again, stock_logits(lm, [3, 4, 5, 10])[-1], **CLOSE)


def test_what_a_model_says_of_itself():
    lm = micro()
    assert (lm.vocab_size, lm.hidden_size, lm.num_layers, lm.max_context) == (11, 32, 1, 64)
    assert lm.num_parameters == sum(p.numel() for p in lm.model.parameters())
    assert (lm.device, lm.dtype) == (CPU, torch.float32)
    assert "LlamaForCausalLM" in lm.path
    assert "sdpa" in lm.path
    assert not any(p.requires_grad for p in lm.model.parameters())


def test_gradients_pass_through_the_frozen_head():
    """Training a drafter needs the loss behind the target's head; its weights stay as they are."""
    lm = micro()
    hidden = torch.ones(2, 32, requires_grad=True)
    lm.head(hidden).square().sum().backward()
    assert hidden.grad.abs().sum() > 0
