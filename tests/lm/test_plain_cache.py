"""The cache alone: rows are what they were, buffers stay where they are, copies are copies."""

from __future__ import annotations

import pytest
import torch

from specviz.lm.plain_cache import PlainCache
from specviz.tree import DraftTree
from tests.models import tiny

LAYERS, CAPACITY = 2, 10


def write(cache: PlainCache, values: list[int]) -> None:
    """One pass whose keys are `values` and whose values are their negatives."""
    cache.begin_pass(len(values))
    rows = torch.tensor(values, dtype=torch.float32).view(1, 1, -1, 1).expand(1, 2, -1, 4)
    for layer in range(LAYERS):
        cache.states.update(rows + 100 * layer, -rows - 100 * layer, layer)


def rows_of(cache: PlainCache) -> list[float]:
    """The committed keys, after checking that values and layers tell the same."""
    seen = [layer.keys[0, 0, : cache.length, 0] - 100 * i for i, layer in enumerate(cache.layers)]
    mirror = [-layer.values[0, 1, : cache.length, 3] for layer in cache.layers]
    assert torch.equal(seen[0], seen[1])
    assert torch.equal(mirror[0], seen[0])
    return seen[0].tolist()


@pytest.fixture
def cache():
    cache = PlainCache(LAYERS, CAPACITY)
    write(cache, [1, 2, 3])
    cache.keep(range(3))
    return cache


@pytest.mark.parametrize("rows", [(), (0,), (0, 1, 2), (0, 2, 3), (0, 3), (3, 0)])
def test_keep_commits_the_rows_in_order(cache, rows):
    write(cache, [10, 11, 12, 13])
    assert cache.length == 3
    cache.keep(rows)
    assert rows_of(cache) == [1, 2, 3, *(10 + row for row in rows)]
    write(cache, [20])
    cache.keep((0,))
    assert rows_of(cache)[-1] == 20


@pytest.mark.parametrize("rows", [(4,), (-1,), (0, 4)])
def test_rows_that_were_not_read_cannot_be_kept(cache, rows):
    write(cache, [10, 11, 12, 13])
    with pytest.raises(ValueError, match="last pass"):
        cache.keep(rows)
    assert cache.length == 3


def test_a_pass_is_kept_once(cache):
    write(cache, [10])
    cache.keep((0,))
    with pytest.raises(ValueError, match="last pass"):
        cache.keep((0,))


def test_crop(cache):
    write(cache, [10])
    cache.crop(2)
    assert rows_of(cache) == [1, 2]
    with pytest.raises(ValueError, match="last pass"):
        cache.keep((0,))
    with pytest.raises(ValueError, match="cannot crop 2"):
        cache.crop(3)


def test_room_for_the_pass_is_checked_before_anything_is_written(cache):
    with pytest.raises(ValueError, match="room for 10 rows and holds 3; a pass of 8"):
        cache.begin_pass(8)
    write(cache, [4] * 7)
    cache.keep(range(7))
    assert cache.length == CAPACITY


def test_a_clone_is_independent_and_as_large(cache):
    write(cache, [10, 11])
    twin = cache.clone()
    assert (twin.length, twin.capacity) == (3, CAPACITY)
    write(twin, [20, 21])
    twin.keep((1,))
    cache.keep((0,))
    assert rows_of(cache) == [1, 2, 3, 10]
    assert rows_of(twin) == [1, 2, 3, 21]


def test_a_clone_of_an_empty_cache():
    twin = PlainCache(LAYERS, CAPACITY).clone()
    write(twin, [5])
    twin.keep((0,))
    assert rows_of(twin) == [5]


def test_buffers_stay_where_they_are_for_a_hundred_rounds():
    """E01: a rollback that slices a fixed cache into a new, shorter one."""
    lm = tiny()
    cache = lm.new_cache(120)
    lm.prefill([3, 4], cache)
    before = [(layer.keys.data_ptr(), layer.values.shape) for layer in cache.layers]
    for step in range(100):
        lm.read(DraftTree((5, 6, 7), (-1, 0, 0)), cache)
        cache.keep((0, 2) if step % 10 == 0 else (0,))
    assert cache.length == 112
    assert [(layer.keys.data_ptr(), layer.values.shape) for layer in cache.layers] == before


def test_rows_beyond_the_committed_ones_are_never_read():
    """Memory that was never written may hold NaN; one such row would spoil every score."""
    lm = tiny()
    cache, poisoned = lm.new_cache(32), lm.new_cache(32)
    for each in (cache, poisoned):
        lm.prefill([3, 4, 5], each)
    for layer in poisoned.layers:
        layer.keys[..., 3:, :] = torch.nan
        layer.values[..., 3:, :] = torch.nan
    tree = DraftTree((6, 7, 8), (-1, 0, 0))
    assert torch.equal(lm.read(tree, cache).logits, lm.read(tree, poisoned).logits)
