"""What is wrong with a published EAGLE file is named when it is loaded, not met as bad guesses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from specviz.drafters.base import Drafter
from specviz.lm.base import FeatureTap
from specviz.lm.checkpoints import DrafterCheckpoint
from tests.drafters.eagle_rounds import made, text_target
from tests.drafters.published_files import PUBLISHED, Published, draft_ids, tables
from tests.engine.lanes import kit_of
from tests.engine.tables import TableLM

SIZE, V = TableLM.hidden_size, 31
Change = Callable[[Published], object]
IDS = "eagle_aux_hidden_state_layer_ids"


def loaded(published: Published) -> Drafter:
    checkpoint = DrafterCheckpoint(Path("folder"), published.config, published.tensors)
    name = "eagle3" if published.method == "eagle3" else "eagle2"
    return made(name, {}, checkpoint)(kit_of(text_target()))


def says(**changes: Any) -> Change:
    return lambda published: published.config.update(changes)


def holds(**changes: Tensor) -> Change:
    return lambda published: published.tensors.update(
        {name.replace("__", "."): tensor for name, tensor in changes.items()}
    )


def lacks(*names: str) -> Change:
    return lambda published: [published.tensors.pop(name) for name in names]


def reads(*layers: Any) -> Change:
    return says(**{IDS: list(layers)})


def nested(**changes: Any) -> Change:
    return says(eagle_config=changes)


AUTHORS, SPECULATORS, VICUNA = "EAGLE-3 authors", "EAGLE-3 speculators", "EAGLE Vicuna"
QWEN2, V31 = "EAGLE Qwen2", "EAGLE-3.1"
OTHER_TABLE = tables(V) | {"t2d": torch.arange(V) % 5 != 3}
FAULTS: dict[str, tuple[str, Change, str]] = {
    # tensors
    "no head": (AUTHORS, lacks("lm_head.weight"), "lacks lm_head.weight, and the target's head"),
    "no fc": (VICUNA, lacks("fc.weight"), "lacks 1 tensors, fc.weight among"),
    "no hidden norm": (
        AUTHORS,
        lacks("midlayer.hidden_norm.weight"),
        "lacks 1 tensors, layers.0.h",
    ),
    "one more norm": (
        AUTHORS,
        holds(extra_norm__weight=torch.ones(SIZE)),
        "no use for, extra_norm.weight",
    ),
    "norm without a flag": (
        AUTHORS,
        holds(input_norm__weight=torch.ones(3 * SIZE)),
        "no use for, input_norm.weight",
    ),
    "flag without its norms": (V31, lacks("fc_norm.1.weight"), "lacks 1 tensors, fc_norm.1"),
    "both spellings": (
        AUTHORS,
        holds(layers__0__hidden_norm__weight=torch.ones(SIZE)),
        "holds layers.0.hidden_norm.weight twice",
    ),
    "two layers": (
        SPECULATORS,
        holds(layers__1__input_layernorm__weight=torch.ones(SIZE)),
        "has 2 layers; known here are drafters of one",
    ),
    "parallel": (SPECULATORS, holds(mask_hidden=torch.ones(1, 1, 3 * SIZE)), "is of P-EAGLE"),
    # biases
    "dropped fc bias": (QWEN2, lacks("model.fc.bias"), "says bias, and fc.bias is not there"),
    "dropped qkv biases": (
        QWEN2,
        lacks(*(f"model.layers.0.self_attn.{name}_proj.bias" for name in "qkv")),
        "says qkv_bias, and layers.0.self_attn.q_proj.bias",
    ),
    "one bias dropped": (
        AUTHORS,
        holds(midlayer__self_attn__q_proj__bias=torch.ones(SIZE)),
        r"holds layers.0.self_attn.q_proj.bias and lacks layers.0.self_attn.k_proj.bias",
    ),
    "one norm dropped": (
        SPECULATORS,
        lacks("layers.0.self_attn.k_norm.weight"),
        "q_norm.weight and lacks layers.0.self_attn.k_norm",
    ),
    "no config of the layer": (
        SPECULATORS,
        says(transformer_layer_config={}),
        "does not say hidden_size",
    ),
    # tables
    "no table": (AUTHORS, lacks("d2t"), "names 25 of the target's 31 tokens, and d2t"),
    "ids for offsets": (
        AUTHORS,
        holds(d2t=draft_ids(V)),
        "d2t in folder holds the target's ids themselves",
    ),
    "ids for offsets, no mask": (
        AUTHORS,
        lambda p: (p.tensors.pop("t2d"), p.tensors.update(d2t=draft_ids(V))),
        "holds the target's ids themselves",
    ),
    "never filled": (
        AUTHORS,
        lambda p: (p.tensors.pop("t2d"), p.tensors.update(d2t=torch.zeros(25, dtype=torch.long))),
        "all zeros for 25 of 31 tokens",
    ),
    "never filled, nor the mask": (
        AUTHORS,
        holds(d2t=torch.zeros(25, dtype=torch.long), t2d=torch.zeros(V, dtype=torch.bool)),
        "all zeros for 25 of 31 tokens",
    ),
    "another export's mask": (AUTHORS, holds(**OTHER_TABLE), "t2d marks 25, not the same"),
    "out of range": (AUTHORS, holds(d2t=torch.full((25,), 9)), "ascending ids from 0 to 30"),
    "another head": (
        AUTHORS,
        holds(lm_head__weight=torch.ones(9, SIZE)),
        "9 in lm_head.weight, 25 in d2t",
    ),
    "another size told": (AUTHORS, says(draft_vocab_size=32000), "25 in d2t, 32000 in config.json"),
    # another target
    "other states": (AUTHORS, holds(fc__weight=torch.ones(SIZE, 3 * 24)), "fc reads 72 numbers"),
    "other states, EAGLE-1": (VICUNA, holds(fc__weight=torch.ones(24, 2 * 24)), "fc reads 48 num"),
    "other tokens": (AUTHORS, says(vocab_size=128256), "another target's: .* 128256 tokens"),
    "other tokens, EAGLE-1": (VICUNA, says(vocab_size=32000), "32000 tokens, this target has 31"),
    "other target width": (
        AUTHORS,
        says(target_hidden_size=5120),
        "5120 numbers in a hidden state",
    ),
    "other width told": (
        AUTHORS,
        says(hidden_size=24),
        "fc.weight of 16 rows; config.json says hidden_size 24",
    ),
    "activation": (AUTHORS, says(hidden_act="gelu"), "computes with gelu"),
    # rotation
    "unknown scaling": (AUTHORS, says(rope_scaling={"type": "foo", "factor": 2}), "'foo' scaling"),
    "dynamic": (AUTHORS, says(rope_scaling={"rope_type": "dynamic", "factor": 2}), "'dynamic' sc"),
    "half a scaling": (
        AUTHORS,
        says(rope_scaling={"rope_type": "llama3"}),
        "llama3 scaling .* can",
    ),
    # which states
    "meaning unknown": (AUTHORS, nested(**{IDS: [3, 5, 6]}), '"specviz_layer_ids": "before" or'),
    "meaning misspelt": (
        AUTHORS,
        lambda p: p.config.update({IDS: [3, 5, 6], "specviz_layer_ids": "input"}),
        "expected before or after",
    ),
    "past the last": (
        SPECULATORS,
        reads(2, 4, 9),
        "before the layers 2, 4, 9, and this target has",
    ),
    "after the last": (AUTHORS, nested(**{IDS: [1, 4, 8]}), "after the layers 1, 4, 8"),
    "negative": (SPECULATORS, reads(-1, 2, 4), "before the layers -1, 2, 4"),
    "too few": (SPECULATORS, reads(2, 4), "names 2 layers .* fc reads 3"),
    "twice the same": (SPECULATORS, reads(2, 4, 4), "names 2 layers .* fc reads 3"),
    "no list": (SPECULATORS, says(**{IDS: "2,4,5"}), "no list of layers"),
    "told twice": (
        AUTHORS,
        lambda p: p.config.update({IDS: [2, 4, 5], "eagle_config": {IDS: [1, 3, 4]}}),
        "twice",
    ),
    "five states": (
        AUTHORS,
        holds(fc__weight=torch.ones(SIZE, 5 * SIZE)),
        f"reads 5 hidden states, and does not say {IDS}",
    ),
    "states told": (AUTHORS, says(num_aux_hidden_states=5), "says num_aux_hidden_states 5, and fc"),
    "the last state alone": (AUTHORS, nested(use_aux_hidden_state=False), "use_aux_hidden_state"),
    # dialect
    "not said": (SPECULATORS, says(norm_before_residual=None), "add true or false, as it was"),
    "both norms": (V31, says(norm_before_fc=True), "both norm_before_fc and fc_norm"),
    "another speculator": (SPECULATORS, says(speculators_model_type="dflash"), "is of dflash, not"),
    # another method
    "EAGLE-1 as 3": (VICUNA, lambda p: setattr(p, "method", "eagle3"), "looks like EAGLE-1"),
    "EAGLE-3 as 1": (AUTHORS, lambda p: setattr(p, "method", "eagle"), "looks like EAGLE-3"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(fault: str) -> None:
    kind, change, reason = FAULTS[fault]
    published = PUBLISHED[kind](text_target())
    loaded(published)  # but for the fault, it loads
    change(published)
    with pytest.raises(ValueError, match=reason):
        loaded(published)


def test_zeros_are_right_for_a_table_of_all_tokens() -> None:
    published = PUBLISHED["EAGLE-3 authors, all tokens"](text_target())
    published.tensors["d2t"] = torch.zeros(V, dtype=torch.long)
    loaded(published)


@pytest.mark.parametrize(
    ("meaning", "layers"), [("before", (3, 5, 6)), ("after", (4, 6, 7)), (None, (2, 4, 5))]
)
def test_the_owner_may_say_what_layer_ids_mean(meaning: str | None, layers: Any) -> None:
    published = PUBLISHED[AUTHORS](text_target())
    if meaning is not None:
        published.config |= {IDS: [3, 5, 6], "specviz_layer_ids": meaning}
    assert loaded(published).taps == tuple(FeatureTap("input", layer) for layer in layers)


@pytest.mark.parametrize(
    ("ids", "layers"), [([1, 3, 4], (2, 4, 5)), ([5, 2, 4], (2, 4, 5)), ([3, 6, 7], None)]
)
def test_most_files_tell_it_by_their_ids(ids: list[int], layers: tuple[int, ...] | None) -> None:
    """SpecForge's first is 1, and its state leaves the layer; a first 2 enters it. In any order."""
    published = PUBLISHED[AUTHORS](text_target())
    published.config["eagle_config"] = {IDS: ids}
    if layers is None:
        with pytest.raises(ValueError, match='add "specviz_layer_ids"'):
            loaded(published)
    else:
        assert loaded(published).taps == tuple(FeatureTap("input", layer) for layer in layers)
