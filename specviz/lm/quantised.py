"""Targets with quantised layers: bitsandbytes' 8 and 4 bits, through transformers, on the plain path.

Only the matrices of the layers are quantised. Embedding, head and norms stay in the compute dtype,
so that logits and the hidden states that drafters read are ordinary numbers. Four bits are nf4 or
fp4 in blocks of 64, their scales quantised once more. Eight bits are LLM.int8 (Dettmers et al.
2022, arXiv:2208.07339): what it makes of a row may depend on the rows beside it.
"""

from __future__ import annotations

import warnings
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import BitsAndBytesConfig

from specviz.lm.device import half_dtype
from specviz.lm.plain import PlainLM, load_plain
from specviz.shapes import Form
from specviz.words import Refusal, message, recognised, word

PACKAGES = ("bitsandbytes", "accelerate")
QUANTISED: tuple[Form, ...] = ("int8", "nf4", "fp4")
CHECK_WIDTH = 64  # of the small layer that is tried first
# Of the largest output: how far a quantised layer may be from its own weights read back.
CHECK_TOLERANCE = 2e-2


def why_not_quantised(device: torch.device) -> str | None:
    """None if targets can be quantised on this machine; otherwise the reason."""
    for package in PACKAGES:
        if find_spec(package) is None:
            return word("path.no_package", name=package)
    if device.type not in ("cuda", "cpu"):
        return word("path.no_quantised_device", name=device.type)
    return None


def load_quantised(
    folder: Path, form: Form, *, device: torch.device, context: int | None = None
) -> PlainLM:
    """The checkpoint in `folder` with its layers in `form`.

    ValueError: it cannot be done here, or a layer of the model would have stayed as it is.
    """
    reason = why_not_quantised(device) or _why_not_right(form, device)
    if reason is not None:
        told = recognised(reason, "path.")
        raise Refusal(message("refusal.not_quantised", form=form, reason=told))
    dtype = compute_dtype(device)
    settings = {"quantization_config": _config(form, dtype), "device_map": {"": device}}
    with quiet():
        lm = load_plain(folder, dtype=dtype, device=device, context=context, settings=settings)
    _check_layers(lm, form)
    lm.path = word("path.quantised", path=lm.path, form=form)
    return lm


def described(form: Form, device: torch.device) -> str:
    """What was done to the weights, for traces."""
    arithmetic = str(compute_dtype(device)).removeprefix("torch.")
    key = "quantised.int8" if form == "int8" else "quantised.four_bits"
    return word(key, form=form, version=version("bitsandbytes"), arithmetic=arithmetic)


def compute_dtype(device: torch.device) -> torch.dtype:
    """What quantised weights are multiplied in, and what hidden states are."""
    return torch.float32 if device.type == "cpu" else half_dtype(device)


def quiet() -> warnings.catch_warnings[list[warnings.WarningMessage] | None]:
    """Without the library's remarks on what it does to every input: the trace says it once."""
    return warnings.catch_warnings(action="ignore")


def _config(form: Form, dtype: torch.dtype) -> Any:
    if form == "int8":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=form,
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )


def _why_not_right(form: Form, device: torch.device) -> str | None:
    """None if a small layer computes what its own weights, read back, say; otherwise the reason."""
    if form == "int8":
        return None  # the model's own checks compare its passes with each other
    import bitsandbytes as bnb
    from bitsandbytes.functional import dequantize_4bit

    dtype, generator = compute_dtype(device), torch.Generator().manual_seed(0)
    weight = torch.randn(CHECK_WIDTH, CHECK_WIDTH, generator=generator).to(dtype)
    layer = bnb.nn.Linear4bit(
        CHECK_WIDTH, CHECK_WIDTH, bias=False, compute_dtype=dtype, quant_type=form
    )
    layer.weight = bnb.nn.Params4bit(weight, requires_grad=False, quant_type=form)
    try:
        layer = layer.to(device)
        rows = torch.randn(3, CHECK_WIDTH, generator=generator).to(device, dtype)
        kept = dequantize_4bit(layer.weight.data, layer.weight.quant_state)
        true = rows.float() @ kept.float().T
        gap = (layer(rows).float() - true).abs().max() / true.abs().max()
    except (RuntimeError, NotImplementedError, ValueError, AttributeError) as error:
        return word("path.quantised_fails", text=str(error).splitlines()[0])
    if float(gap) <= CHECK_TOLERANCE:
        return None
    return word("path.quantised_wrong", gap=f"{float(gap):.1%}")


def _check_layers(lm: PlainLM, form: Form) -> None:
    """ValueError unless every matrix of the layers is quantised and the head is not.

    Layers of another class than Linear (GPT-2's) would silently stay as they are.
    """
    import bitsandbytes as bnb

    kind = bnb.nn.Linear8bitLt if form == "int8" else bnb.nn.Linear4bit
    left = [
        name
        for name, module in lm.decoder.named_modules()
        if not isinstance(module, kind | nn.Embedding) and _holds_matrix(module)
    ]
    if left:
        raise Refusal(message("refusal.left_whole", count=len(left), name=left[0], form=form))
    assert type(lm.model.get_output_embeddings()) is nn.Linear, "the head is never quantised"


def _holds_matrix(module: nn.Module) -> bool:
    own: Any = module.parameters(recurse=False)
    return any(parameter.ndim > 1 for parameter in own)
