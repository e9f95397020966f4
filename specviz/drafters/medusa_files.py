"""Published Medusa heads, brought to one form, or a sentence about what is wrong with the file.

Read are the authors' names (`0.0.linear.weight`), with logits of a head's own (`0.1.weight`) or
without, alone in a file or inside a whole model (`medusa_head.`); and vLLM's
(`blocks.0.layers.0.weight`, `lm_heads.0.weight`), which may name its tokens in a `token_map`. Heads
and layers are counted from the tensors: published configs are wrong about them. What a head
computes is `medusa`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specviz.drafters.base import TargetKit
from specviz.drafters.parts import known_ids, placed
from specviz.lm.checkpoints import DrafterCheckpoint, Shape, check_tensors

# H = hidden size, Vd = ids the heads may guess

INSIDE_A_MODEL = "medusa_head."
TOLERATED = "medusa_heads."
MAX_PADDING = 128  # rows by which two heads over one tokenizer may differ
METHOD = "Medusa"
Block = tuple[Tensor, Tensor | None]  # weight (H, H), bias (H,)


@dataclass(frozen=True, slots=True)
class HeadWeights:
    """Weights in the target's compute dtype, where it computes."""

    blocks: tuple[tuple[Block, ...], ...]  # [head][layer]
    logits: tuple[Tensor, ...]  # (Vd, H): one for each head, one for all, or none: the target's
    ids: Tensor  # (Vd,) ascending


@dataclass(frozen=True, slots=True)
class _Spelling:
    block: str
    logits: str
    pattern: re.Pattern[str]  # of a name that tells of a head (group 1)
    layer: re.Pattern[str]  # of a name that tells of a layer (group 1)

    def block_of(self, head: int, layer: int, kind: str) -> str:
        return self.block.format(head=head, layer=layer, kind=kind)

    def logits_of(self, head: int, num_layers: int) -> str:
        return self.logits.format(head=head, layers=num_layers)


AUTHORS = _Spelling(
    "{head}.{layer}.linear.{kind}",
    "{head}.{layers}.weight",
    re.compile(r"(\d+)\.\d+\.(?:linear\.)?\w+"),
    re.compile(r"\d+\.(\d+)\.linear\.\w+"),
)
VLLM = _Spelling(
    "blocks.{head}.layers.{layer}.{kind}",
    "lm_heads.{head}.weight",
    re.compile(r"blocks\.(\d+)\.layers\.\d+\.\w+"),
    re.compile(r"blocks\.\d+\.layers\.(\d+)\.\w+"),
)


def are_heads(names: Iterable[str]) -> bool:
    """Whether tensors of these names are Medusa heads, alone or inside a whole model."""
    plain = {name.removeprefix(INSIDE_A_MODEL).removeprefix(TOLERATED) for name in names}
    return bool(plain & {"0.0.linear.weight", "blocks.0.layers.0.weight"})


def read_heads(checkpoint: DrafterCheckpoint, kit: TargetKit) -> HeadWeights:
    """ValueError: what is missing, what is too much, or what does not fit this target."""
    checkpoint = _heads_alone(checkpoint)
    names = checkpoint.tensors
    spelling = VLLM if any(VLLM.pattern.fullmatch(name) for name in names) else AUTHORS
    heads, layers = _numbers(names, spelling.pattern), _numbers(names, spelling.layer)
    _check_count(checkpoint, heads)
    count, depth = max(len(heads), 1), max(len(layers), 1)
    _check_biases(checkpoint, spelling, count, depth)
    own = _own_logits(checkpoint, spelling, count, depth)
    _check(checkpoint, kit, spelling, (count, depth), own)
    ids, order = _ids_of(checkpoint, kit)
    tensors = placed(names, kit)

    def block(head: int, layer: int) -> Block:
        weight, bias = (spelling.block_of(head, layer, kind) for kind in ("weight", "bias"))
        return tensors[weight], tensors.get(bias)

    blocks = tuple(tuple(block(i, j) for j in range(depth)) for i in range(count))
    logits = tuple(_rows(checkpoint, tensors[name], name, kit)[order] for name in own)
    return HeadWeights(blocks, logits, ids)


def _heads_alone(checkpoint: DrafterCheckpoint) -> DrafterCheckpoint:
    """Without the model that may stand around them, and without prefixes."""
    tensors = checkpoint.tensors
    if any(name.startswith(INSIDE_A_MODEL) for name in tensors):
        tensors = {n: t for n, t in tensors.items() if n.startswith(INSIDE_A_MODEL)}
    bare = {n.removeprefix(INSIDE_A_MODEL).removeprefix(TOLERATED): t for n, t in tensors.items()}
    return replace(checkpoint, tensors=bare)


def _numbers(names: Iterable[str], pattern: re.Pattern[str]) -> list[int]:
    found = (pattern.fullmatch(name) for name in names)
    return sorted({int(match.group(1)) for match in found if match})


def _check_count(checkpoint: DrafterCheckpoint, heads: list[int]) -> None:
    whose = f"The {METHOD} drafter in {checkpoint.folder} holds"
    if missing := sorted(set(range(max(heads, default=0))) - set(heads)):
        raise ValueError(
            f"{whose} heads {', '.join(map(str, heads))} and no head {missing[0]}: part of it is "
            "missing; fetch it again."
        )
    config = checkpoint.config
    promised = int(config.get("medusa_num_heads") or config.get("num_heads") or 0)
    if heads and promised > len(heads):  # published configs promise too few, and do no harm
        raise ValueError(
            f"{whose} {len(heads)} heads and its config.json promises {promised}: part of it is "
            "missing; fetch it again."
        )


def _check_biases(checkpoint: DrafterCheckpoint, names: _Spelling, count: int, depth: int) -> None:
    """vLLM's heads may have none; the authors' have one for every block."""
    blocks = [(head, layer) for head in range(count) for layer in range(depth)]
    found = [block for block in blocks if names.block_of(*block, "weight") in checkpoint.tensors]
    bare = [
        name
        for block in found
        if (name := names.block_of(*block, "bias")) not in checkpoint.tensors
    ]
    is_free = names is VLLM and not checkpoint.config.get("medusa_fc_bias")
    if bare and not (is_free and len(bare) == len(found)):
        raise ValueError(
            f"The {METHOD} drafter in {checkpoint.folder} lacks the bias of {len(bare)} of its "
            f"{len(found)} blocks, {bare[0]} among them: a conversion dropped it, and every guess "
            "would be off. Fetch the original file."
        )


def _own_logits(
    checkpoint: DrafterCheckpoint, names: _Spelling, count: int, depth: int
) -> list[str]:
    """Names of the heads' own logits: one for each head, one for all of them, or none."""
    if "lm_head.weight" in checkpoint.tensors:
        return ["lm_head.weight"]
    own = [names.logits_of(head, depth) for head in range(count)]
    if checkpoint.config.get("original_lm_head"):
        own = own[:1]
    return own if checkpoint.tensors.keys() & set(own) else []


def _check(
    checkpoint: DrafterCheckpoint,
    kit: TargetKit,
    names: _Spelling,
    size: tuple[int, int],
    own: list[str],
) -> None:
    width, (count, depth) = kit.hidden_size, size
    required: dict[str, Shape] = {name: (None, width) for name in own}
    optional: dict[str, Shape] = {"d2t": (None,), "t2d": (kit.vocab_size,)}
    optional["token_map"] = (None,)
    for head in range(count):
        for layer in range(depth):
            required[names.block_of(head, layer, "weight")] = (width, width)
            optional[names.block_of(head, layer, "bias")] = (width,)
    if len(own) == 1:  # copies of the one head that all share
        optional |= {names.logits_of(head, depth): (None, width) for head in range(count)}
    check_tensors(checkpoint, required, optional, METHOD)


def _ids_of(checkpoint: DrafterCheckpoint, kit: TargetKit) -> tuple[Tensor, Tensor]:
    """(Vd,) ids the heads may guess, ascending, and the rows of their logits that stand for them.

    ValueError: the list of tokens is no list of the target's.
    """
    chosen = checkpoint.tensors.get("token_map")
    if chosen is None:
        ids = known_ids(checkpoint, kit)
        return ids, torch.arange(len(ids), device=kit.device)
    is_list = not chosen.is_floating_point() and len(chosen) > 0
    if not is_list or len(set(chosen.tolist())) < len(chosen):
        raise ValueError(f"token_map in {checkpoint.folder} is not a list of different tokens.")
    if int(chosen.min()) < 0 or int(chosen.max()) >= kit.vocab_size:
        raise ValueError(
            f"token_map in {checkpoint.folder} names token {int(chosen.max())}; this target has "
            f"tokens 0 to {kit.vocab_size - 1}, so it is of another target."
        )
    ids, order = chosen.long().sort()
    is_known = ids < kit.num_known_tokens
    return ids[is_known].to(kit.device), order[is_known].to(kit.device)


def _rows(checkpoint: DrafterCheckpoint, weight: Tensor, name: str, kit: TargetKit) -> Tensor:
    """The rows of a head's logits in the order of its list of tokens. ValueError: they are as
    many as the list, or this target, has no tokens."""
    chosen = checkpoint.tensors.get("token_map")
    count = checkpoint.tensors.get("d2t", chosen)
    if count is not None:
        if chosen is not None and len(weight) > len(chosen):
            return weight[chosen.long().to(weight.device)]  # cut to the list at loading, as in vLLM
        if len(weight) == len(count):
            return weight
        expected = f"{len(count):,}, as many as its list of tokens"
    else:
        is_padded = abs(len(weight) - kit.vocab_size) <= MAX_PADDING
        if len(weight) >= kit.num_known_tokens and is_padded:
            return weight
        expected = f"{kit.vocab_size:,} fit this target"
    raise ValueError(
        f"The {METHOD} drafter in {checkpoint.folder} has {name} of {len(weight):,} rows; {expected}."
    )
