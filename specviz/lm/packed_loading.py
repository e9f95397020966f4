"""Packed weights from a checkpoint folder: which models qualify, and how they are laid out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from specviz.lm.checkpoint_files import first_line
from specviz.lm.folder import config_of, lacking, tensors_of
from specviz.lm.linear import Linear, PackedLinear, why_not_packed
from specviz.lm.low_rank import Updates, tuned
from specviz.lm.packed import (
    DoubledNorm,
    PackedLayer,
    PackedLM,
    PackedWeights,
)
from specviz.lm.packed_attention import HeadShape, Rotation
from specviz.words import word

MODEL_TYPES = ("llama", "mistral", "qwen2", "mimo")  # the same layer, with or without q/k/v biases
ROPE_TYPES = ("default", "linear", "llama3", "yarn")  # frequencies that do not change with length
MakeLinear = Callable[[Tensor, Tensor | None], Linear]


def why_not(config: Any) -> str | None:
    """None if a model of this config can run packed on this machine; otherwise the reason."""
    return why_not_llama_like(config) or why_not_packed()


def why_not_llama_like(config: Any) -> str | None:
    """None if it has the layers that `packed` and `batched` compute; otherwise the reason."""
    if config.model_type not in MODEL_TYPES:
        return word("path.few_models", names=", ".join(MODEL_TYPES))
    if config.hidden_act != "silu":
        return word("path.only_silu", name=config.hidden_act)
    rope = (config.rope_parameters or {}).get("rope_type", "default")
    if rope not in ROPE_TYPES:
        return word("path.rope", name=rope)
    if getattr(config, "mlp_bias", False):
        return word("path.mlp_bias")
    return None


def layer_widths(config: Any) -> tuple[int, ...]:
    """How many inputs the linear layers of a model of this config have."""
    heads = _heads_of(config)
    return (config.hidden_size, config.intermediate_size, heads.num_query_heads * heads.head_size)


def load_packed(
    folder: Path,
    *,
    context: int,
    num_layers: int | None = None,
    make: MakeLinear = PackedLinear,
    updates: Updates | None = None,
) -> PackedLM:
    """A packed model, or its first `num_layers` layers. `make` lays out each linear layer;
    `updates` are added to the weights.

    ValueError: the folder's weights cannot be read, or are not those of its config.
    """
    config, tensors = config_of(folder), tuned(tensors_of(folder), updates or {})
    try:
        weights = pack(config, tensors, context=context, num_layers=num_layers, make=make)
    except KeyError as error:
        raise ValueError(lacking(folder, [str(error.args[0])])) from error
    except RuntimeError as error:
        raise ValueError(
            f"The weights in {folder} do not fit its config.json ({first_line(error)}); "
            "fetch the checkpoint again."
        ) from error
    return PackedLM(weights, word("path.packed"))


def pack(
    config: Any,
    tensors: Mapping[str, Tensor],
    *,
    context: int,
    num_layers: int | None = None,
    make: MakeLinear = PackedLinear,
) -> PackedWeights:
    """`PackedWeights` of a Llama-like model with transformers' tensor names."""
    heads = _heads_of(config)
    eps = config.rms_norm_eps
    embedding = tensors["model.embed_tokens.weight"]
    head = embedding if config.tie_word_embeddings else tensors["lm_head.weight"]
    count = config.num_hidden_layers if num_layers is None else num_layers
    prefixes = [f"model.layers.{i}." for i in range(count)]
    used = [t for name, t in tensors.items() if not name.startswith("model.layers.")]
    used += [t for name, t in tensors.items() if name.startswith(tuple(prefixes))]
    return PackedWeights(
        heads=heads,
        embedding=embedding,
        layers=tuple(_pack_layer(tensors, prefix, heads, eps, make) for prefix in prefixes),
        final_norm=DoubledNorm(tensors["model.norm.weight"], eps),
        head=make(head, None),
        rotation=rotation_of(config, heads),
        vocab_size=len(head),
        num_parameters=sum(t.numel() for t in used),
        max_context=context,
    )


def _pack_layer(
    tensors: Mapping[str, Tensor], prefix: str, heads: HeadShape, eps: float, make: MakeLinear
) -> PackedLayer:
    def layer(name: str) -> Linear:
        return make(tensors[f"{prefix}{name}.weight"], tensors.get(f"{prefix}{name}.bias"))

    def fused(kind: str) -> Tensor | None:
        rows = [tensors.get(f"{prefix}self_attn.{name}_proj.{kind}") for name in "qkv"]
        found = [t for t in rows if t is not None]
        if len(found) < len(rows):
            return None
        return torch.cat([*(interleaved(t, heads.head_size) for t in found[:2]), found[2]])

    weight = fused("weight")
    assert weight is not None, "a Llama-like layer has query, key and value weights"
    return PackedLayer(
        input_norm=DoubledNorm(tensors[prefix + "input_layernorm.weight"], eps),
        qkv=make(weight, fused("bias")),
        output=layer("self_attn.o_proj"),
        mlp_norm=DoubledNorm(tensors[prefix + "post_attention_layernorm.weight"], eps),
        gate=layer("mlp.gate_proj"),
        up=layer("mlp.up_proj"),
        down=layer("mlp.down_proj"),
    )


def interleaved(rows: Tensor, head_size: int) -> Tensor:
    """Rows of each head reordered from halves (d0 .. d_half ..) to pairs (d0, d_half, d1, ...)."""
    halves = rows.view(-1, 2, head_size // 2, *rows.shape[1:])
    return halves.transpose(1, 2).flatten(0, 2)


def _heads_of(config: Any) -> HeadShape:
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return HeadShape(config.num_attention_heads, config.num_key_value_heads, size)


def rotation_of(config: Any, heads: HeadShape) -> Rotation:
    rope = LlamaRotaryEmbedding(config)  # transformers' own frequencies, whatever the rope type
    return Rotation(rope.inv_freq, float(rope.attention_scaling), heads)
