"""A trained drafter's network put together: its own tensors, and what it borrows of the target.

Weights are cast to the target's compute dtype. What a checkpoint does not hold (embedding, head)
is the target's; a head over a draft vocabulary is the target's own rows of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.drafters.base import TargetKit
from specviz.lm.checkpoints import DrafterCheckpoint, Shape, draft_ids
from specviz.lm.draft_layer import CachedLayer, head_shape, rope_of
from specviz.lm.linear import Linear, best_linear
from specviz.words import word

# n = rows, H = hidden size, Vd = draft vocabulary

LAYER = "layers.0."
EMBEDDING = "embed_tokens.weight"
HEAD = "lm_head.weight"
COMPARED_ROWS = 4096  # of an embedding at once


def layer_shapes(hidden_size: int, in_width: int) -> dict[str, Shape]:
    """Tensors of a drafter's layer; in_width: inputs of queries, keys and values."""
    shapes: dict[str, Shape] = {
        f"{LAYER}self_attn.{name}_proj.weight": (None, in_width) for name in "qkv"
    }
    return shapes | {
        f"{LAYER}self_attn.o_proj.weight": (hidden_size, None),
        f"{LAYER}post_attention_layernorm.weight": (hidden_size,),
        f"{LAYER}mlp.gate_proj.weight": (None, hidden_size),
        f"{LAYER}mlp.up_proj.weight": (None, hidden_size),
        f"{LAYER}mlp.down_proj.weight": (hidden_size, None),
    }


def optional_shapes(kit: TargetKit, width: int | None = None) -> dict[str, Shape]:
    """What a checkpoint may hold besides: a draft vocabulary, an embedding, biases, Qwen3's norms.

    width: of the drafter's own states, where it differs from the target's.
    """
    size, attention = width or kit.hidden_size, f"{LAYER}self_attn."
    biases: dict[str, Shape] = {f"{attention}{name}_proj.bias": (None,) for name in "qkv"}
    norms: dict[str, Shape] = {f"{attention}{name}_norm.weight": (None,) for name in "qk"}
    return {
        **biases,
        **norms,
        f"{attention}o_proj.bias": (size,),
        "d2t": (None,),
        "t2d": (kit.vocab_size,),  # used in training alone
        EMBEDDING: (kit.vocab_size, size),
    }


def placed(tensors: Mapping[str, Tensor], kit: TargetKit) -> dict[str, Tensor]:
    """Real numbers in the target's dtype and on its device; whole ones as they are."""
    return {
        name: tensor.to(kit.device, kit.dtype) if tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }


def known_ids(checkpoint: DrafterCheckpoint, kit: TargetKit) -> Tensor:
    """(Vd,) ids of the draft vocabulary, those alone that the tokenizer defines."""
    ids = draft_ids(checkpoint, vocab_size=kit.vocab_size, num_known_tokens=kit.num_known_tokens)
    return ids.to(kit.device)


def setting(checkpoint: DrafterCheckpoint, name: str) -> Any:
    """A value of config.json that there is no guessing. ValueError: it is not there."""
    if checkpoint.config.get(name) is None:
        raise ValueError(
            f"config.json in {checkpoint.folder} does not say {name}; fetch the drafter again, or "
            "choose one in the flat form of a Llama config."
        )
    return checkpoint.config[name]


def layer_of(checkpoint: DrafterCheckpoint, tensors: Mapping[str, Tensor]) -> CachedLayer:
    """ValueError: heads do not fit, or a bias or a norm is there for some projections alone."""
    shape = head_shape(tensors, LAYER, int(setting(checkpoint, "num_attention_heads")))
    for kind, names in (("_proj.bias", "qkv"), ("_norm.weight", "qk")):
        whole = [f"{LAYER}self_attn.{name}{kind}" for name in names]
        lost = [name for name in whole if name not in tensors]
        if lost and len(lost) < len(whole):
            kept = next(name for name in whole if name in tensors)
            raise ValueError(
                f"The drafter in {checkpoint.folder} holds {kept} and lacks {lost[0]}: one was "
                "dropped on the way. Fetch it again."
            )
    for name in "qk":
        norm = tensors.get(f"{LAYER}self_attn.{name}_norm.weight")
        if norm is not None and len(norm) != shape.head_size:
            raise ValueError(
                f"The drafter in {checkpoint.folder} has {name}_norm of {len(norm)} numbers for "
                f"heads of {shape.head_size}; check num_attention_heads in config.json."
            )
    eps = float(setting(checkpoint, "rms_norm_eps"))
    return CachedLayer(tensors, LAYER, shape=shape, eps=eps, rope=rope_of(checkpoint.config, shape))


def without_copies(checkpoint: DrafterCheckpoint, kit: TargetKit) -> DrafterCheckpoint:
    """Less an embedding that is the target's own: a published one may take a gigabyte."""
    table = checkpoint.tensors.get(EMBEDDING)
    if table is None or table.shape != (kit.vocab_size, kit.hidden_size):
        return checkpoint
    for start in range(0, kit.vocab_size, COMPARED_ROWS):
        own = table[start : start + COMPARED_ROWS].to(kit.device, kit.dtype)
        ids = torch.arange(start, start + len(own), device=kit.device)
        if not torch.equal(own, kit.embed(ids)):
            return checkpoint
    tensors = {name: t for name, t in checkpoint.tensors.items() if name != EMBEDDING}
    return replace(checkpoint, tensors=tensors)


def embedding_of(tensors: Mapping[str, Tensor], kit: TargetKit) -> Callable[[Tensor], Tensor]:
    """ids (n,) -> (n, H): the drafter's own table if it holds one, else the target's."""
    table = tensors.get(EMBEDDING)
    return kit.embed if table is None else lambda ids: F.embedding(ids, table)


def target_head(
    checkpoint: DrafterCheckpoint, ids: Tensor, kit: TargetKit
) -> Linear | Callable[[Tensor], Tensor]:
    """(n, H) -> (n, Vd) logits by the target's head, of the draft vocabulary alone."""
    if "d2t" in checkpoint.tensors:
        return best_linear(kit.head_rows(ids))
    return lambda hidden: kit.head(hidden)[:, : len(ids)]


def own_or_target_head(
    checkpoint: DrafterCheckpoint, tensors: Mapping[str, Tensor], ids: Tensor, kit: TargetKit
) -> Linear | Callable[[Tensor], Tensor]:
    """(n, H) -> (n, Vd) logits by the drafter's own head if it holds one, else the target's."""
    if HEAD in tensors:
        return best_linear(tensors[HEAD][: len(ids)])
    return target_head(checkpoint, ids, kit)


def described(tensors: Mapping[str, Tensor], ids: Tensor) -> str:
    """What drafts, in numbers."""
    own = sum(t.numel() for t in tensors.values() if t.is_floating_point())
    return word("drafts.layer", size=f"{own / 1e6:.1f}", tokens=f"{len(ids):,}")
