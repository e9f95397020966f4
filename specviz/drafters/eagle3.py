"""EAGLE-3: one layer reads three of the target's hidden states and names the next tokens itself
(Li et al. 2025, arXiv:2503.01840).

Rows, trees and cache are EAGLE-2's. Published files and our own are read alike: what their makers
do differently is settled in `published` and `eagle3_dialect`. Training is in `eagle3_net`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from specviz.drafters.base import TargetKit
from specviz.drafters.eagle import DynamicConfig, DynamicDrafter
from specviz.drafters.eagle3_dialect import Dialect, dialect_of
from specviz.drafters.parts import (
    EMBEDDING,
    HEAD,
    LAYER,
    described,
    embedding_of,
    known_ids,
    layer_of,
    layer_shapes,
    optional_shapes,
    own_or_target_head,
    placed,
    setting,
    without_copies,
)
from specviz.drafters.published import check_config, in_one_form, own_base, width_of
from specviz.lm.checkpoints import DrafterCheckpoint, Shape, check_tensors
from specviz.lm.draft_cache import DraftCache
from specviz.lm.draft_layer import norm_of
from specviz.lm.linear import best_linear
from specviz.lm.packed import DoubledNorm
from specviz.words import word

# n = rows of a pass, H = hidden size, F = 3 H (low, mid, high), Vd = draft vocabulary

MAX_SIGNALS = 3  # rows that AngelSlim adds to fc, for stopping early; no part of the feature


class Eagle3(DynamicDrafter):
    Config: ClassVar[type] = DynamicConfig
    title: ClassVar[str] = "EAGLE-3"
    summary: ClassVar[str] = "One layer reads low, middle and high states; the tree grows by need."
    paper: ClassVar[str] = "Li et al. 2025, arXiv:2503.01840"

    def __init__(self, config: DynamicConfig, kit: TargetKit) -> None:
        network = Eagle3Network(kit.trained("eagle3"), kit)
        super().__init__(config, network, network.dialect.taps, kit)


class Eagle3Network:
    """fc over three features, one layer over (embedding, feature), norm and head of its own."""

    def __init__(self, checkpoint: DrafterCheckpoint, kit: TargetKit) -> None:
        checkpoint = in_one_form(checkpoint)
        width = width_of(checkpoint)
        self.dialect = dialect_of(checkpoint, kit)
        _check(checkpoint, kit, self.dialect, width)
        checkpoint = without_copies(checkpoint, kit)
        tensors = placed(checkpoint.tensors, kit)

        def norm(name: str) -> DoubledNorm:
            return norm_of(tensors[f"{name}.weight"], float(setting(checkpoint, "rms_norm_eps")))

        self.ids = known_ids(checkpoint, kit)
        self.layer = layer_of(checkpoint, tensors)
        self.embed = embedding_of(tensors, kit)
        bias = tensors.get("fc.bias")
        self._fc = best_linear(tensors["fc.weight"][:width], None if bias is None else bias[:width])
        self._norms_before_fc = [norm(name) for name in norms_before_fc(self.dialect)]
        self._embedding_norm = norm(LAYER + "input_layernorm")
        self._feature_norm = norm(LAYER + "hidden_norm")
        self._final_norm = norm("norm")
        self._head = own_or_target_head(checkpoint, tensors, self.ids, kit)
        self.description = _described(checkpoint, tensors, self.ids)

    def fused(self, features: Tensor) -> Tensor:
        if self._norms_before_fc:
            chunks = features.chunk(len(self._norms_before_fc), dim=-1)
            normed = [
                norm(chunk) for norm, chunk in zip(self._norms_before_fc, chunks, strict=True)
            ]
            features = torch.cat(normed, dim=-1)
        return self._fc(features)

    def read(
        self, tokens: Tensor, features: Tensor, depths: Tensor, visible: Tensor, cache: DraftCache
    ) -> Tensor:
        normed = self._feature_norm(features)
        x = torch.cat((self._embedding_norm(self.embed(tokens)), normed), dim=-1)
        residual = normed if self.dialect.has_normed_residual else features
        hidden = self.layer.run(x, residual, depths, visible, cache)
        return self._final_norm(hidden) if self.dialect.has_normed_output else hidden

    def logits(self, hidden: Tensor) -> Tensor:
        return self._head(hidden if self.dialect.has_normed_output else self._final_norm(hidden))


def norms_before_fc(dialect: Dialect) -> tuple[str, ...]:
    """Names of the norms, each for an equal share of the features."""
    if dialect.norm_before_fc == "each":
        return tuple(f"fc_norm.{i}" for i in range(len(dialect.taps)))
    return ("input_norm",) if dialect.norm_before_fc == "all" else ()


def _described(checkpoint: DrafterCheckpoint, tensors: Mapping[str, Tensor], ids: Tensor) -> str:
    """What drafts, and what was decided over its file's head."""
    text = described(tensors, ids)
    if HEAD not in tensors:
        text = word("drafts.borrowed_head", network=text)
    if (base := own_base(checkpoint)) is not None:
        text = word("drafts.own_base", network=text, base=f"{base:,.0f}")
    return text


def _check(checkpoint: DrafterCheckpoint, kit: TargetKit, dialect: Dialect, width: int) -> None:
    """ValueError: these are not the weights of such a drafter for this target."""
    check_config(checkpoint, kit)
    _check_rows(checkpoint, width)
    features = len(dialect.taps) * kit.hidden_size
    norms = norms_before_fc(dialect)
    required: dict[str, Shape] = layer_shapes(width, 2 * width) | {
        "fc.weight": (None, features),
        LAYER + "input_layernorm.weight": (width,),
        LAYER + "hidden_norm.weight": (width,),
        "norm.weight": (width,),
        **{f"{name}.weight": (features // len(norms),) for name in norms},
    }
    if width != kit.hidden_size:  # the target's own would not fit
        required[EMBEDDING] = (kit.vocab_size, width)
    optional: dict[str, Shape] = optional_shapes(kit, width) | {
        "fc.bias": (None,),
        HEAD: (None, width),
    }
    check_tensors(checkpoint, required, optional, "EAGLE-3")
    _check_counts(checkpoint, kit, width)


def _check_rows(checkpoint: DrafterCheckpoint, width: int) -> None:
    fc = checkpoint.tensors.get("fc.weight")
    if fc is not None and not 0 <= len(fc) - width <= MAX_SIGNALS:
        raise ValueError(
            f"The EAGLE-3 drafter in {checkpoint.folder} has fc.weight of {len(fc)} rows; "
            f"config.json says hidden_size {width}. One of the two is another drafter's."
        )


def _check_counts(checkpoint: DrafterCheckpoint, kit: TargetKit, width: int) -> None:
    """ValueError: table, head and config.json tell of different numbers of tokens."""
    table, head = checkpoint.tensors.get("d2t"), checkpoint.tensors.get(HEAD)
    whose = f"The EAGLE-3 drafter in {checkpoint.folder}"
    if head is None:
        if table is None and width == kit.hidden_size:
            return  # the target's head stands in
        part = "a part" if table is not None else "all"
        raise ValueError(
            f"{whose} lacks {HEAD}, and the target's head cannot stand in for one of {width} "
            f"numbers over {part} of its tokens: fetch a whole export."
        )
    if table is None and len(head) != kit.vocab_size:
        raise ValueError(
            f"{whose} names {len(head)} of the target's {kit.vocab_size} tokens, and d2t, which "
            "tells which ones, is not there: fetch a whole export."
        )
    told = checkpoint.config.get("draft_vocab_size")
    counts = {HEAD: len(head), "d2t": None if table is None else len(table), "config.json": told}
    if len({count for count in counts.values() if count is not None}) > 1:
        said = ", ".join(f"{count} in {name}" for name, count in counts.items() if count)
        raise ValueError(
            f"{whose} tells of different numbers of tokens that it drafts from: {said}. They are "
            "of different exports: fetch it again."
        )
