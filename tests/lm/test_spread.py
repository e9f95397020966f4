"""Where a model too large for one card goes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from specviz.lm.spread import check_places, placing


@pytest.mark.parametrize(
    ("needed", "free"), [(None, [8, 8]), (9, [8]), (8, [8, 8]), (20, [])], ids=str
)
def test_one_card_is_enough_or_all_there_is(needed, free):
    assert placing(needed, free) == {}


def test_a_model_larger_than_one_card_is_spread_and_never_into_main_memory():
    settings = placing(150, [100, 80])
    assert settings == {"device_map": "auto", "max_memory": {0: 90, 1: 72}}


def test_layers_off_the_cards_are_refused():
    """accelerate offloads without a word, and every pass then waits for the bus."""
    model = SimpleNamespace(hf_device_map={"embed": 0, "layers.0": 1, "layers.1": "disk"})
    with pytest.raises(ValueError, match="1 of its parts would lie in disk memory"):
        check_places(model)
    check_places(SimpleNamespace(hf_device_map={"embed": 0, "layers.0": 1}))
    check_places(SimpleNamespace(hf_device_map={"": "cpu"}))  # a model on a CPU is no offload
    check_places(SimpleNamespace())
