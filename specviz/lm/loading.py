"""A checkpoint folder to a language model: which forward pass reads it, chosen once, with a reason.

Precision "float32" is the exact reference: plain path, one rounding less than anything else.
Precision "bfloat16" and "auto" take the packed pass where it exists, else the plain path.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specviz.config import Precision
from specviz.lm import packed_loading
from specviz.lm.base import LanguageModel
from specviz.lm.folder import config_of, generation_config_of, tokenizer_of
from specviz.lm.int4 import Int4Linear, why_not_int4
from specviz.lm.low_rank import Updates
from specviz.lm.packed import PackedLM
from specviz.lm.plain import load_plain
from specviz.lm.support import check_tree_reading, default_context, refusal
from specviz.lm.text import TokenText, eos_ids
from specviz.words import Refusal, message, recognised, word


@dataclass(frozen=True, slots=True)
class LoadedLM:
    """A model with what its tokenizer and generation config say."""

    lm: LanguageModel
    tokenizer: Any
    text: TokenText
    eos: frozenset[int]
    architecture: str
    folder: Path


def load_target(folder: Path, precision: Precision, device: torch.device) -> LoadedLM:
    """The model in `folder`, ready to verify. ValueError says why it cannot."""
    config, tokenizer = config_of(folder), tokenizer_of(folder)
    return LoadedLM(
        lm=_load_lm(folder, config, precision, device),
        tokenizer=tokenizer,
        text=TokenText(tokenizer),
        eos=eos_ids(tokenizer, generation_config_of(folder)),
        architecture=(config.architectures or [config.model_type])[0],
        folder=folder,
    )


def load_copy(target: LoadedLM, num_layers: int | None) -> LanguageModel:
    """A cheaper copy of `target` to draft with: its first layers, or all of them in 4 bits (None)."""
    config = config_of(target.folder)
    if num_layers is None:
        if (reason := why_not_copied_in_int4(target)) is not None:
            raise Refusal(message("refusal.no_copy", reason=recognised(reason, "path.")))
        return packed_loading.load_packed(
            target.folder, context=target.lm.max_context, make=Int4Linear
        )
    if target.lm.device.type == "cpu" and packed_loading.why_not(config) is None:
        return packed_loading.load_packed(
            target.folder, context=target.lm.max_context, num_layers=num_layers
        )
    return load_plain(
        target.folder,
        dtype=target.lm.dtype,
        device=target.lm.device,
        context=target.lm.max_context,
        num_layers=num_layers,
    )


def load_tuned(target: LoadedLM, updates: Updates) -> LanguageModel:
    """The target with `updates` in its weights, read by the same forward pass as the target.

    ValueError: they are another model's.
    """
    context = target.lm.max_context
    if isinstance(target.lm, PackedLM):
        return packed_loading.load_packed(target.folder, context=context, updates=updates)
    return load_plain(
        target.folder,
        dtype=target.lm.dtype,
        device=target.lm.device,
        context=context,
        updates=updates,
    )


def why_not_copied_in_int4(target: LoadedLM) -> str | None:
    """None if the target can be copied in 4 bits on this machine; otherwise the reason."""
    if target.lm.device.type != "cpu":
        return word("path.int4_cpu_only")
    config = config_of(target.folder)
    return packed_loading.why_not(config) or why_not_int4(packed_loading.layer_widths(config))


def _load_lm(
    folder: Path, config: Any, precision: Precision, device: torch.device
) -> LanguageModel:
    context = default_context(config)
    if (reason := refusal(config, context)) is not None:
        raise ValueError(reason)
    if precision == "float32":
        return load_plain(folder, dtype=torch.float32, device=device, context=context)
    if device.type != "cpu":
        return load_plain(folder, dtype=torch.bfloat16, device=device, context=context)
    if (reason := packed_loading.why_not(config)) is not None:
        dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        lm = load_plain(folder, dtype=dtype, device=device, context=context)
        lm.path = word("path.not_packed", path=lm.path, reason=reason)
        return lm
    packed = packed_loading.load_packed(folder, context=context)
    if (reason := check_tree_reading(packed)) is not None:
        raise ValueError(reason)
    return packed
