"""Tiny EAGLE files under the names of each maker, for any target, and what the publications say of
them.

Written by hand from what is known of the published ones: names, shapes, config.json, and what is
missing from them. Every tensor is drawn wide, so that each matters to what is drafted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from specviz.lm.base import LanguageModel
from tests.drafters.published64 import Meaning

WIDE = 0.2
HEADS, WIDTH = 4, 24


@dataclass
class Published:
    config: dict[str, Any]
    tensors: dict[str, Tensor]  # under the published names
    meaning: Meaning
    method: str = "eagle3"
    boundaries: Sequence[int] = ()  # layers whose inputs are read; empty: the final norm's output
    ids: Tensor | None = None  # of the target's tokens; None: all of them
    place: str = "a-drafter"  # folders below the root
    is_pickled: bool = False

    def write(self, root: Path) -> Path:
        folder = root / self.place
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(self.config))
        if self.is_pickled:
            torch.save(self.tensors, folder / "pytorch_model.bin")
        else:
            save_file(self.tensors, folder / "model.safetensors")
        return folder


Maker = Callable[[LanguageModel], Published]


def wide(*shape: int, seed: int) -> Tensor:
    return WIDE * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def layer(
    prefix: str,
    size: int,
    inputs: int,
    *,
    kv_heads: int = 2,
    head_size: int = 0,
    is_biased: bool = False,
) -> dict[str, Tensor]:
    head_size = head_size or size // HEADS
    shapes = {
        "self_attn.q_proj.weight": (HEADS * head_size, inputs),
        "self_attn.k_proj.weight": (kv_heads * head_size, inputs),
        "self_attn.v_proj.weight": (kv_heads * head_size, inputs),
        "self_attn.o_proj.weight": (size, HEADS * head_size),
        "mlp.gate_proj.weight": (WIDTH, size),
        "mlp.up_proj.weight": (WIDTH, size),
        "mlp.down_proj.weight": (size, WIDTH),
    }
    if is_biased:
        for name in "qkv":
            rows = shapes[f"self_attn.{name}_proj.weight"][0]
            shapes[f"self_attn.{name}_proj.bias"] = (rows,)
    found = {prefix + name: wide(*shape, seed=i) for i, (name, shape) in enumerate(shapes.items())}
    return found | {f"{prefix}post_attention_layernorm.weight": 1.0 + wide(size, seed=50)}


def norms(sizes: dict[str, int]) -> dict[str, Tensor]:
    return {
        f"{name}.weight": 1.0 + wide(size, seed=60 + i)
        for i, (name, size) in enumerate(sizes.items())
    }


def flat_config(size: int, vocab_size: int, **more: Any) -> dict[str, Any]:
    """As of a Llama of one layer; None takes a key away."""
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_act": "silu",
        "hidden_size": size,
        "intermediate_size": WIDTH,
        "max_position_embeddings": 2048,
        "model_type": "llama",
        "num_attention_heads": HEADS,
        "num_hidden_layers": 1,
        "rms_norm_eps": 1e-5,
        "vocab_size": vocab_size,
        "torch_dtype": "float16",
        **more,
    }
    return {key: value for key, value in config.items() if value is not None}


def draft_ids(vocab_size: int) -> Tensor:
    """(Vd,) all but every fifth."""
    return torch.tensor([i for i in range(vocab_size) if i % 5 != 4])


def tables(vocab_size: int) -> dict[str, Tensor]:
    ids = draft_ids(vocab_size)
    is_drafted = torch.zeros(vocab_size, dtype=torch.bool)
    is_drafted[ids] = True
    return {"d2t": ids - torch.arange(len(ids)), "t2d": is_drafted}


def eagle_vicuna(lm: LanguageModel) -> Published:
    """The first: a pickle with the target's embedding, fc with a bias that config.json does not
    speak of, and no base of rotation."""
    size = lm.hidden_size
    tensors = {
        "embed_tokens.weight": lm.embed(torch.arange(lm.vocab_size)).float().clone(),
        "fc.weight": wide(size, 2 * size, seed=40),
        "fc.bias": wide(size, seed=41),
        **layer("layers.0.", size, size, kv_heads=4),
    }
    config = flat_config(size, lm.vocab_size)
    meaning = Meaning(1, "layers.0.")
    return Published(config, tensors, meaning, "eagle", is_pickled=True)


def eagle_llama3(lm: LanguageModel) -> Published:
    """No bias, and config.json says so; shared key heads; another base."""
    size = lm.hidden_size
    tensors = {"fc.weight": wide(size, 2 * size, seed=40), **layer("layers.0.", size, size)}
    config = flat_config(
        size, lm.vocab_size, bias=False, rope_theta=500000.0, num_key_value_heads=2
    )
    return Published(config, tensors, Meaning(1, "layers.0.", theta=500_000.0), "eagle")


def eagle_qwen2(lm: LanguageModel) -> Published:
    """Biases on queries, keys and values too, an embedding and a head of its own, `model.` before
    names, and a table of positions that nothing needs."""
    size = lm.hidden_size
    tensors = {
        "model.embed_tokens.weight": wide(lm.vocab_size, size, seed=30),
        "model.fc.weight": wide(size, 2 * size, seed=40),
        "model.fc.bias": wide(size, seed=41),
        **layer("model.layers.0.", size, size, is_biased=True),
        "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(2),
        "lm_head.weight": wide(lm.vocab_size, size, seed=31),
    }
    config = flat_config(
        size, lm.vocab_size, bias=True, qkv_bias=True, rope_theta=1e6, num_key_value_heads=2
    )
    return Published(config, tensors, Meaning(1, "layers.0.", theta=1e6), "eagle")


def eagle3_tensors(
    lm: LanguageModel, prefix: str, *, size: int = 0, extra_rows: int = 0, **more: Any
) -> dict[str, Tensor]:
    """What all of EAGLE-3 have but the head, the embedding and the tables."""
    size = size or lm.hidden_size
    named = {"norm": size, f"{prefix}input_layernorm": size, f"{prefix}hidden_norm": size}
    fc = wide(size + extra_rows, 3 * lm.hidden_size, seed=42)
    return {"fc.weight": fc, **norms(named), **layer(prefix, size, 2 * size, **more)}


def part_of(lm: LanguageModel, size: int = 0) -> dict[str, Tensor]:
    """The head and the tables of a drafter that names a part of the tokens."""
    rows = len(draft_ids(lm.vocab_size))
    head = wide(rows, size or lm.hidden_size, seed=43)
    return {"lm_head.weight": head, **tables(lm.vocab_size)}


def default_layers(lm: LanguageModel) -> tuple[int, ...]:
    return (2, lm.num_layers // 2, lm.num_layers - 3)


def eagle3_authors(lm: LanguageModel) -> Published:
    """`midlayer`, no embedding, no base of rotation; a tied head in config.json means nothing."""
    tensors = eagle3_tensors(lm, "midlayer.") | part_of(lm)
    ids = draft_ids(lm.vocab_size)
    config = flat_config(
        lm.hidden_size, lm.vocab_size, draft_vocab_size=len(ids), tie_word_embeddings=True
    )
    meaning = Meaning(3, "midlayer.")
    return Published(config, tensors, meaning, boundaries=default_layers(lm), ids=ids)


def eagle3_authors_whole(lm: LanguageModel) -> Published:
    """As for Vicuna 13B: all of the target's tokens, no table, and 40 layers in config.json."""
    tensors = eagle3_tensors(lm, "midlayer.", kv_heads=4)
    tensors["lm_head.weight"] = wide(lm.vocab_size, lm.hidden_size, seed=43)
    config = flat_config(
        lm.hidden_size, lm.vocab_size, draft_vocab_size=lm.vocab_size, num_hidden_layers=40
    )
    return Published(config, tensors, Meaning(3, "midlayer."), boundaries=default_layers(lm))


def eagle3_angelslim(lm: LanguageModel) -> Published:
    """Heads of another size than hidden / heads, a base in config.json that it was not trained
    with, and two signals behind the rows of fc."""
    size, ids = lm.hidden_size, draft_ids(lm.vocab_size)
    tensors = eagle3_tensors(lm, "midlayer.", extra_rows=2, head_size=size // 2) | part_of(lm)
    config = flat_config(
        size, lm.vocab_size, draft_vocab_size=len(ids), rope_theta=1000000, head_dim=size // 2
    )
    meaning = Meaning(3, "midlayer.", fc_rows=size)
    place = "AngelSlim/Qwen3-4B_eagle3"
    return Published(config, tensors, meaning, boundaries=default_layers(lm), ids=ids, place=place)


def eagle3_specforge(lm: LanguageModel) -> Published:
    """Layers by what leaves them, an embedding of its own, and scaled positions."""
    size, ids = lm.hidden_size, draft_ids(lm.vocab_size)
    tensors = eagle3_tensors(lm, "midlayer.") | part_of(lm)
    tensors["embed_tokens.weight"] = wide(lm.vocab_size, size, seed=30)
    layers = [1, lm.num_layers // 2, lm.num_layers - 2]
    config = flat_config(
        size,
        lm.vocab_size,
        architectures=["LlamaForCausalLMEagle3"],
        draft_vocab_size=len(ids),
        rope_theta=1e6,
        rope_scaling={"type": "linear", "factor": 2.0},
        eagle_config={"eagle_aux_hidden_state_layer_ids": layers, "use_aux_hidden_state": True},
    )
    read = tuple(layer + 1 for layer in layers)
    meaning = Meaning(3, "midlayer.", theta=1e6, slowed=2.0)
    return Published(config, tensors, meaning, boundaries=read, ids=ids)


def speculators(lm: LanguageModel, tensors: dict[str, Tensor], **more: Any) -> dict[str, Any]:
    """config.json with the layer's own inside."""
    config = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_config": {"algorithm": "eagle3", "verifier": {"name_or_path": "a/target"}},
        "draft_vocab_size": len(tensors["lm_head.weight"]),
        "norm_before_residual": False,
        "target_hidden_size": None,
        "transformer_layer_config": flat_config(
            lm.hidden_size,
            lm.vocab_size,
            rope_parameters={"rope_type": "default", "rope_theta": 5e5},
        ),
    }
    return config | more


def eagle3_speculators(lm: LanguageModel) -> Published:
    """The normed feature goes on, queries and keys are normed (qwen3), layers by what enters."""
    size, ids = lm.hidden_size, draft_ids(lm.vocab_size)
    tensors = eagle3_tensors(lm, "layers.0.") | part_of(lm)
    tensors |= norms({f"layers.0.self_attn.{name}_norm": size // HEADS for name in "qk"})
    tensors["embed_tokens.weight"] = lm.embed(torch.arange(lm.vocab_size)).float().clone()
    layers = [1, 3, lm.num_layers - 2]
    config = speculators(
        lm, tensors, norm_before_residual=True, eagle_aux_hidden_state_layer_ids=layers
    )
    config["transformer_layer_config"]["model_type"] = "qwen3"
    meaning = Meaning(3, "layers.0.", theta=5e5, has_normed_residual=True)
    return Published(config, tensors, meaning, boundaries=layers, ids=ids)


def eagle3_1(lm: LanguageModel) -> Published:
    """A norm for each state, and the normed output goes on."""
    tensors = eagle3_tensors(lm, "layers.0.") | part_of(lm)
    tensors |= norms({f"fc_norm.{i}": lm.hidden_size for i in range(3)})
    config = speculators(lm, tensors, fc_norm=True, norm_output=True)
    meaning = Meaning(3, "layers.0.", theta=5e5, before_fc="each", has_normed_output=True)
    ids = draft_ids(lm.vocab_size)
    return Published(config, tensors, meaning, boundaries=default_layers(lm), ids=ids)


def eagle3_modelopt(lm: LanguageModel) -> Published:
    """One norm over all states, up to what leaves the last layer, and the target's own head."""
    tensors = eagle3_tensors(lm, "layers.0.")
    tensors |= norms({"input_norm": 3 * lm.hidden_size})
    layers = [3, lm.num_layers // 2, lm.num_layers]
    config = flat_config(
        lm.hidden_size,
        lm.vocab_size,
        norm_before_fc=True,
        eagle_config={"eagle_aux_hidden_state_layer_ids": layers},
    )
    config["draft_vocab_size"] = None
    return Published(config, tensors, Meaning(3, "layers.0.", before_fc="all"), boundaries=layers)


def eagle3_wider(lm: LanguageModel) -> Published:
    """States of another width than the target's, and so an embedding of its own."""
    size, ids = lm.hidden_size + 8, draft_ids(lm.vocab_size)
    tensors = eagle3_tensors(lm, "layers.0.", size=size) | part_of(lm, size)
    tensors["embed_tokens.weight"] = wide(lm.vocab_size, size, seed=30)
    config = flat_config(
        size, lm.vocab_size, draft_vocab_size=len(ids), target_hidden_size=lm.hidden_size
    )
    meaning = Meaning(3, "layers.0.")
    return Published(config, tensors, meaning, boundaries=default_layers(lm), ids=ids)


PUBLISHED: dict[str, Maker] = {
    "EAGLE Vicuna": eagle_vicuna,
    "EAGLE Llama 3": eagle_llama3,
    "EAGLE Qwen2": eagle_qwen2,
    "EAGLE-3 authors": eagle3_authors,
    "EAGLE-3 authors, all tokens": eagle3_authors_whole,
    "EAGLE-3 AngelSlim": eagle3_angelslim,
    "EAGLE-3 SpecForge": eagle3_specforge,
    "EAGLE-3 speculators": eagle3_speculators,
    "EAGLE-3.1": eagle3_1,
    "EAGLE-3 ModelOpt": eagle3_modelopt,
    "EAGLE-3, wider": eagle3_wider,
}
