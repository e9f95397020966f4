"""A trained draft model as a language model: layers of its own between the target's embedding and
some rows of the target's head. Its row i of logits belongs to the i-th of those rows.

Packed in bfloat16 where the target computes so on a CPU; else a transformers Llama.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from specviz.lm.base import LanguageModel
from specviz.lm.checkpoints import DrafterCheckpoint, Shape, check_tensors
from specviz.lm.draft_layer import head_shape
from specviz.lm.graphed import captured
from specviz.lm.linear import best_linear
from specviz.lm.packed import PackedLM
from specviz.lm.packed_loading import pack
from specviz.lm.plain import PlainLM

# H = hidden size, V = vocabulary of the target, Vd = ids the draft may name

ROPE = ("rope_parameters", "rope_theta", "rope_scaling", "max_position_embeddings")
NOT_WEIGHTS = ("d2t", "t2d")


def load_draft_lm(
    checkpoint: DrafterCheckpoint, embedding: Tensor, head: Tensor, *, context: int
) -> LanguageModel:
    """embedding (V, H) and head (Vd, H) of the target, in the dtype and on the device of drafting.

    ValueError: the checkpoint is none of transformers' Llama names, or does not fit the target.
    """
    config = _config_of(checkpoint, embedding)
    own = {name: t for name, t in checkpoint.tensors.items() if name not in NOT_WEIGHTS}
    tensors = {name: t.to(embedding.device, embedding.dtype) for name, t in own.items()}
    tensors |= {"model.embed_tokens.weight": embedding, "lm_head.weight": head}
    if embedding.device.type == "cpu" and embedding.dtype == torch.bfloat16:
        return PackedLM(pack(config, tensors, context=context, make=best_linear), "packed draft")
    with torch.random.fork_rng():  # the weights drawn here are replaced at once
        model = LlamaForCausalLM(config)
        model.lm_head = nn.Linear(head.shape[1], len(head), bias=False)
    model.load_state_dict(tensors)
    return captured(PlainLM(model.to(embedding.device, embedding.dtype), context))


def num_own_parameters(checkpoint: DrafterCheckpoint) -> int:
    return sum(t.numel() for name, t in checkpoint.tensors.items() if name not in NOT_WEIGHTS)


def num_layers_of(checkpoint: DrafterCheckpoint) -> int:
    names = [n for n in checkpoint.tensors if n.endswith(".input_layernorm.weight")]
    return max(1, len(names))


def _config_of(checkpoint: DrafterCheckpoint, embedding: Tensor) -> Any:
    """Sizes from the weights, the rest from config.json."""
    vocab_size, width = embedding.shape
    num_layers, tensors, given = num_layers_of(checkpoint), checkpoint.tensors, checkpoint.config
    prefixes = [f"model.layers.{i}." for i in range(num_layers)]
    required: dict[str, Shape] = {"model.norm.weight": (width,)}
    for prefix in prefixes:
        required |= _layer_shapes(prefix, width)
    optional: dict[str, Shape] = {"d2t": (None,), "t2d": (vocab_size,)}
    check_tensors(checkpoint, required, optional, "draft_model")
    lacking = [name for name in ("num_attention_heads", "rms_norm_eps") if name not in given]
    if lacking:
        raise ValueError(f"config.json in {checkpoint.folder} does not say {lacking[0]}.")
    shape = head_shape(tensors, prefixes[0], int(given["num_attention_heads"]))
    return LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=width,
        intermediate_size=len(tensors[prefixes[0] + "mlp.up_proj.weight"]),
        num_hidden_layers=num_layers,
        num_attention_heads=shape.num_query_heads,
        num_key_value_heads=shape.num_kv_heads,
        head_dim=shape.head_size,
        rms_norm_eps=float(given["rms_norm_eps"]),
        tie_word_embeddings=False,
        **{name: given[name] for name in ROPE if given.get(name) is not None},
    )


def _layer_shapes(prefix: str, width: int) -> dict[str, Shape]:
    inward = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj")
    shapes: dict[str, Shape] = {f"{prefix}{name}.weight": (None, width) for name in inward}
    shapes |= {f"{prefix}mlp.up_proj.weight": (None, width)}
    outward = ("self_attn.o_proj", "mlp.down_proj")
    shapes |= {f"{prefix}{name}.weight": (width, None) for name in outward}
    norms = ("input_layernorm", "post_attention_layernorm")
    return shapes | {f"{prefix}{name}.weight": (width,) for name in norms}
