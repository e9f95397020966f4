"""Passes of fixed shape against the plain path; once, frozen as a CUDA graph would freeze them."""

from __future__ import annotations

from random import Random

import pytest
import torch

from specviz.lm.attention import additive_mask, mask_of_sights, sights, visible_rows
from specviz.lm.base import FeatureTap
from specviz.lm.graphed import graphed
from specviz.lm.graphs import Recorder
from specviz.lm.lean import LeanBody
from specviz.lm.mimo import MimoConfig, MimoForCausalLM, register_mimo
from specviz.lm.plain import PlainLM
from specviz.lm.split_attention import attend, parts_of
from specviz.lm.static import ROW_SIZES, StaticLM, keys_for
from specviz.tree import DraftTree
from tests.engine.lanes import PLAIN, Setup
from tests.engine.test_generate import generated
from tests.lm.captured import CallingRecorder, RefusingRecorder, TracingRecorder
from tests.lm.test_plain import random_tokens, random_tree, stock_logits
from tests.models import family_config, random_model, tiny

CLOSE = {"rtol": 0.0, "atol": 1e-4}
TAPS = (FeatureTap("input", 1), FeatureTap("output", 1), FeatureTap("normed"), FeatureTap("input"))
LEAN, STOCK = ("llama_llama3_rope", "qwen2", "qwen3"), ("gemma2", "olmo2")


def both(family: str, recorder: Recorder | None = None) -> tuple[PlainLM, StaticLM]:
    """Two models of the same weights, as the fast one joins its own."""
    kind = "eager" if family == "gemma2" else "sdpa"
    plain, other = (
        PlainLM(random_model(family_config(family), attention=kind), 128) for _ in range(2)
    )
    fast = graphed(other, recorder or CallingRecorder())
    assert isinstance(fast, StaticLM), fast.path
    return plain, fast


@pytest.mark.parametrize("family", LEAN + STOCK)
def test_trees_of_all_sizes_read_as_on_the_plain_path(family):
    plain, fast = both(family)
    assert isinstance(fast.body, LeanBody) == (family in LEAN)
    rng = Random(5)
    for num_rows, num_cached in ((1, 0), (3, 9), (20, 1), (70, 20)):
        prefix, tree = random_tokens(rng, fast, num_cached), random_tree(rng, 97, num_rows)
        found = []
        for lm in (fast, plain):
            cache = lm.new_cache(num_cached + num_rows)
            features = lm.prefill(prefix, cache, TAPS)
            found.append((features, lm.read(tree, cache, TAPS)))
            assert cache.length == num_cached
        (ours_before, ours), (before, truth) = found
        torch.testing.assert_close(ours_before, before, **CLOSE)
        torch.testing.assert_close(ours.logits, truth.logits, **CLOSE)
        torch.testing.assert_close(ours.features, truth.features, **CLOSE)


def test_mimo_is_read_by_the_lean_pass_as_the_qwen2_it_is():
    register_mimo()
    model = random_model(MimoConfig(**family_config("qwen2").to_dict()))
    assert isinstance(model, MimoForCausalLM)
    fast = graphed(PlainLM(model, 128), CallingRecorder())
    assert isinstance(fast, StaticLM)
    assert isinstance(fast.body, LeanBody)
    plain = PlainLM(random_model(family_config("qwen2")), 128)
    prefix, cache = [5, 3, 1, 4], fast.new_cache(8)
    fast.prefill(prefix, cache)
    logits = fast.read(DraftTree((2, 7, 9), (-1, 0, 0)), cache).logits[2]
    torch.testing.assert_close(logits, stock_logits(plain, [*prefix, 2, 9])[-1], **CLOSE)


def test_a_frozen_pass_serves_any_text_and_any_cache(monkeypatch):
    """A length or a buffer that Python knew while a graph was captured would be there for ever."""
    monkeypatch.setattr("specviz.lm.graphed.TREES", (DraftTree.chain(3),))
    plain, fast = both("llama", TracingRecorder())
    for prefix in ([3, 4, 5], list(range(40))):
        cache = fast.new_cache(60)
        fast.prefill(prefix, cache)
        fast.read(DraftTree((6, 7, 8), (-1, 0, 0)), cache)
        cache.keep((0, 2))
        logits = fast.read(DraftTree((9, 10, 11, 12), (-1, 0, 1, 0)), cache).logits[2]
        truth = stock_logits(plain, [*prefix, 6, 8, 9, 10, 11])
        torch.testing.assert_close(logits, truth[-1], **CLOSE)


def test_caches_take_turns_in_the_slot():
    """Lanes share a model: each cache must find its rows, and a path kept late must find its own."""
    plain, fast = both("llama")
    rng, committed = Random(7), [[3, 4, 5], [9]]
    caches = [fast.new_cache(128) for _ in committed]
    for tokens, cache in zip(committed, caches, strict=True):
        fast.prefill(tokens[:-1], cache)
    for turn in range(8):
        for tokens, cache in zip(committed, caches, strict=True):
            tree = random_tree(rng, 97, 10)
            tree = DraftTree((tokens[-1], *tree.tokens[1:]), tree.parents, tree.num_lookahead_rows)
            fast.read(tree, cache)
            rows = tree.path(rng.randrange(tree.num_draft_tokens + 1))
            if turn == 3 and cache is caches[1]:
                fast.settle(caches[0])  # this one moves out before it keeps what it read
            cache.keep(rows)
            tokens += [*(tree.tokens[row] for row in rows[1:]), rng.randrange(97)]
            assert cache.length == len(tokens) - 1
    for tokens, cache in zip(committed, caches, strict=True):
        twin = cache.clone()
        cache.crop(2)
        fast.prefill(tokens[2:-1], cache)
        for each in (twin, cache):
            logits = fast.read(DraftTree.chain(tokens[-1]), each).logits[-1]
            torch.testing.assert_close(logits, stock_logits(plain, tokens)[-1], **CLOSE)


def test_answers_of_a_read_stay_when_the_next_one_comes():
    """A graph returns the same memory at every replay."""
    fast = both("llama")[1]
    cache = fast.new_cache(16)
    first = fast.read(DraftTree.chain(5), cache, TAPS)
    logits, features = first.logits.clone(), first.features.clone()
    fast.read(DraftTree.chain(6), cache, TAPS)
    assert torch.equal(first.logits, logits)
    assert torch.equal(first.features, features)


def test_numbers_that_are_none_stay_in_their_lane():
    """0 times NaN is no 0: rows masked for this lane must not hold another one's NaN."""
    fast = both("llama")[1]
    broken, sound = fast.new_cache(100), fast.new_cache(100)
    fast.prefill([3, 4, 5], sound)
    truth = fast.read(DraftTree.chain(6), sound).logits
    fast.prefill(list(range(60)), broken)
    broken.slot.rows[:, :, 1:60] = torch.nan
    assert torch.equal(fast.read(DraftTree.chain(6), sound).logits, truth)


def test_a_pass_is_captured_once_for_all_lanes_and_again_for_a_longer_text():
    plain = tiny(max_position_embeddings=1024)
    recorder = CallingRecorder()
    fast = graphed(plain, recorder)
    assert isinstance(fast, StaticLM)
    caches = [fast.new_cache(400) for _ in range(3)]
    before = recorder.num_recorded
    for cache in caches:
        fast.prefill([3] * 180, cache)
        fast.settle(cache)
        for size in ROW_SIZES:
            fast.read(DraftTree.chain(5, [6] * (size - 1)), cache)
    assert recorder.num_recorded == before + len(ROW_SIZES)
    fast.prefill([4] * 70, caches[0])  # 250 rows: all passes but the smallest reach past 256
    fast.settle(caches[0])
    assert recorder.num_recorded == before + len(ROW_SIZES) + len([s for s in ROW_SIZES if s > 4])
    fast.settle(caches[0])
    assert recorder.num_recorded == before + 2 * len(ROW_SIZES) - 3
    fast.new_cache(2000)  # a larger slot: what was captured knew the old one
    assert caches[0].length == 250
    logits = fast.read(DraftTree.chain(5), caches[0]).logits
    torch.testing.assert_close(
        logits[-1], stock_logits(plain, [3] * 180 + [4] * 70 + [5])[-1], **CLOSE
    )


def test_a_lane_writes_what_generate_writes_past_the_first_number_of_keys():
    config = {"max_position_embeddings": 512}
    fast = graphed(tiny(**config), CallingRecorder())
    prompt = [(5 * i) % 97 for i in range(240)]
    answer = Setup(fast, prompt, 40).answer(PLAIN)
    assert answer == generated(tiny(**config), prompt, 40)


def test_room_is_counted_as_on_the_plain_path():
    fast = both("llama")[1]
    cache = fast.new_cache(10)
    fast.prefill([1, 2, 3], cache)
    with pytest.raises(ValueError, match="room for 10 rows and holds 3; a pass of 8"):
        fast.read(DraftTree.chain(4, range(7)), cache)
    fast.read(DraftTree.chain(4, range(6)), cache)  # the pass fills up to 8 rows
    with pytest.raises(ValueError, match="last pass's 7"):
        cache.keep((7,))
    cache.keep(range(7))
    assert cache.length == 10
    with pytest.raises(ValueError, match="cannot crop 10"):
        cache.crop(11)
    with pytest.raises(ValueError, match="layers 0 to 1; layer 2"):
        fast.prefill([3], fast.new_cache(4), (FeatureTap("input", 2),))


@pytest.mark.parametrize("num_rows", [1, 5, 33, 64])
def test_a_mask_of_sights_is_the_additive_mask(num_rows):
    for seed, length in enumerate((0, 1, 77)):
        tree = random_tree(Random(seed), 97, num_rows)
        visible = visible_rows(tree)
        truth = additive_mask(visible, length, dtype=torch.float32, device=torch.device("cpu"))
        bits = torch.tensor(sights(tree))
        made = mask_of_sights(bits, torch.tensor(length), 192, torch.float32)
        assert torch.equal(made[:, : length + num_rows], truth[0, 0])
        assert bool((made[:, length + num_rows :] < -1e37).all())


@pytest.mark.parametrize(("num_keys", "num_rows"), [(256, 1), (384, 5), (1024, 64)])
def test_parts_join_to_the_whole(num_keys, num_rows):
    """Against float64, with whole parts hidden from every row."""
    rng = torch.Generator().manual_seed(0)
    heads, kv_heads, size, seen = 6, 2, 16, num_keys // 3
    assert parts_of(num_keys, 3 * num_rows, kv_heads) > 1
    queries = torch.randn(num_rows, heads, size, generator=rng)
    keys, values = torch.randn(2, kv_heads, num_keys, size, generator=rng)
    mask = torch.zeros(num_rows, num_keys)
    mask[:, seen:] = torch.finfo(torch.float32).min / 2
    ours = attend(queries, keys, values, mask.repeat(3, 1)).view(num_rows, heads, size)
    for head in range(heads):
        own = slice(None, seen)
        scores = queries[:, head].double() @ keys[head // 3, own].double().T / size**0.5
        truth = scores.softmax(-1) @ values[head // 3, own].double()
        torch.testing.assert_close(ours[:, head].double(), truth, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize(
    ("num_keys", "num_rows", "num_kv_heads", "num_parts"),
    [(256, 4, 8, 4), (4096, 4, 8, 16), (1024, 256, 8, 4), (1000, 4, 8, 1), (4096, 512, 32, 1)],
)
def test_parts_give_every_processor_work(num_keys, num_rows, num_kv_heads, num_parts):
    assert parts_of(num_keys, num_rows, num_kv_heads) == num_parts


@pytest.mark.parametrize(
    ("count", "keys"), [(1, 256), (256, 256), (257, 384), (385, 512), (513, 768), (5000, 6144)]
)
def test_numbers_of_keys_are_few(count, keys):
    assert keys_for(count) == keys


def test_what_cannot_be_captured_stays_plain_and_says_why():
    plain = tiny()
    assert graphed(plain, RefusingRecorder()) is plain
    assert plain.path.endswith(
        "(no CUDA graphs: its pass cannot be captured: "
        "operation not permitted when stream is capturing)"
    )


def test_without_a_gpu_the_plain_path_stays_and_says_why():
    plain = tiny()
    assert graphed(plain) is plain
    assert plain.path.endswith("(no CUDA graphs: graphs need a CUDA device, this is cpu)")


def test_a_body_that_reads_otherwise_is_not_used(monkeypatch):
    """A family may change what its layers compute under the same names."""
    monkeypatch.setattr("specviz.lm.lean._norm", lambda module: lambda x: x)
    fast = graphed(tiny(), CallingRecorder())
    assert isinstance(fast, StaticLM)
    assert fast.path.startswith("CUDA graphs of the decoder of LlamaForCausalLM")
