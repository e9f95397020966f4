"""A checkpoint folder to a language model: which forward pass reads it, chosen once, with a reason.

Precision "float32" is the exact reference: plain path, one rounding less than anything else.
Precision "bfloat16" and "auto" take the packed pass where it exists, else the plain path. Quantised
layers are read by the plain path; "auto" takes them on a GPU that has no room for 16 bits. On a GPU
every plain model is captured if it can be (`graphed`), and a large one spread over several GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specviz.config import Precision
from specviz.fitting import TOKENS, WORKING_BYTES
from specviz.lm import packed_loading
from specviz.lm.base import LanguageModel
from specviz.lm.checkpoint_files import read_json
from specviz.lm.device import half_dtype
from specviz.lm.folder import config_of, generation_config_of, tokenizer_of
from specviz.lm.graphed import captured
from specviz.lm.int4 import Int4Linear, why_not_int4
from specviz.lm.low_rank import Updates
from specviz.lm.packed import PackedLM
from specviz.lm.plain import load_plain
from specviz.lm.quantised import QUANTISED, described, load_quantised, why_not_quantised
from specviz.lm.room import free_bytes
from specviz.lm.spread import free_on_cards, placing
from specviz.lm.support import check_tree_reading, default_context, refusal
from specviz.lm.text import TokenText, eos_ids
from specviz.shapes import Form, cache_bytes, shape_of, weight_bytes
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
    form: Form = "bfloat16"  # how its layers are kept

    @property
    def quantisation(self) -> str:
        """What was done to the weights, for traces."""
        return described(self.form, self.lm.device) if self.form in QUANTISED else "none"


def load_target(folder: Path, precision: Precision, device: torch.device) -> LoadedLM:
    """The model in `folder`, ready to verify. ValueError says why it cannot."""
    config, tokenizer = config_of(folder), tokenizer_of(folder)
    form = form_of(folder, precision, device)
    return LoadedLM(
        lm=_load_lm(folder, config, form, device),
        tokenizer=tokenizer,
        text=TokenText(tokenizer),
        eos=eos_ids(tokenizer, generation_config_of(folder)),
        architecture=(config.architectures or [config.model_type])[0],
        folder=folder,
        form=form,
    )


def form_of(folder: Path, precision: Precision, device: torch.device) -> Form:
    """How the layers will be kept. "auto": 16 bits, or what is nearest to it for which there are
    kernels on a CPU, or room on a GPU."""
    if precision != "auto":
        return precision
    if device.type == "cpu":
        is_packed = packed_loading.why_not(config_of(folder)) is None
        return "bfloat16" if is_packed else "float32"
    free, needed = free_bytes(device), needed_bytes(folder, "bfloat16")
    is_short = free is not None and needed is not None and needed > free
    return "nf4" if is_short and why_not_quantised(device) is None else "bfloat16"


def needed_bytes(folder: Path, form: Form) -> int | None:
    """Of the weights and of what reading takes besides, for the text that runs have room for.

    None: the folder's config.json does not tell (another kind of model than the catalogue's).
    """
    try:
        shape = shape_of(read_json(folder / "config.json"))
    except ValueError:
        return None
    return weight_bytes(shape, form) + cache_bytes(shape, TOKENS, form) + WORKING_BYTES


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
    copy = load_plain(
        target.folder,
        dtype=target.lm.dtype,
        device=target.lm.device,
        context=target.lm.max_context,
        settings={"num_hidden_layers": num_layers},
    )
    return captured(copy)


def load_tuned(target: LoadedLM, updates: Updates) -> LanguageModel:
    """The target with `updates` in its weights, read by the same forward pass as the target.

    ValueError: they are another model's, or its layers are quantised.
    """
    if target.form in QUANTISED:
        raise Refusal(message("refusal.tuned_quantised", form=target.form))
    context = target.lm.max_context
    if isinstance(target.lm, PackedLM):
        return packed_loading.load_packed(target.folder, context=context, updates=updates)
    lm = load_plain(
        target.folder,
        dtype=target.lm.dtype,
        device=target.lm.device,
        context=context,
        updates=updates,
    )
    return captured(lm)


def why_not_copied_in_int4(target: LoadedLM) -> str | None:
    """None if the target can be copied in 4 bits on this machine; otherwise the reason."""
    if target.lm.device.type != "cpu":
        return word("path.int4_cpu_only")
    config = config_of(target.folder)
    return packed_loading.why_not(config) or why_not_int4(packed_loading.layer_widths(config))


def _load_lm(folder: Path, config: Any, form: Form, device: torch.device) -> LanguageModel:
    context = default_context(config)
    if (reason := refusal(config, context)) is not None:
        raise ValueError(reason)
    if form in QUANTISED:
        return captured(load_quantised(folder, form, device=device, context=context))
    dtype = torch.float32 if form == "float32" else half_dtype(device)
    if device.type != "cpu":
        places = placing(needed_bytes(folder, form), free_on_cards())
        lm = load_plain(folder, dtype=dtype, device=device, context=context, settings=places)
        return captured(lm)
    reason = packed_loading.why_not(config)
    if form == "float32" or reason is not None:
        lm = load_plain(folder, dtype=dtype, device=device, context=context)
        if reason is not None:
            lm.path = word("path.not_packed", path=lm.path, reason=reason)
        return lm
    packed = packed_loading.load_packed(folder, context=context)
    if (reason := check_tree_reading(packed)) is not None:
        raise ValueError(reason)
    return packed
