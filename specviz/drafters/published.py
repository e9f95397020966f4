"""Published EAGLE files in the form that ours have: names of tensors, config.json, base of rotation.

Read here is what all makers' files have in common. What EAGLE-3's dialects mean is in
`eagle3_dialect`; what a network computes is in `eagle` and `eagle3`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from specviz.drafters.base import TargetKit
from specviz.drafters.parts import LAYER, setting
from specviz.lm.checkpoints import DrafterCheckpoint

RENAMED = {
    "midlayer.": LAYER,  # EAGLE-3's own authors
    "aux_norm_low.": "fc_norm.0.",  # early files of EAGLE-3.1
    "aux_norm_mid.": "fc_norm.1.",
    "aux_norm_high.": "fc_norm.2.",
}
POSITIONS = "rotary_emb.inv_freq"  # a table that old files carry, and that config.json tells
# Some makers trained with another base than their config.json says. AngelSlim's training ignored
# rope_theta, and its drafters for Qwen3 were measured to be right more often at 10,000.
TRAINED_BASES = {"angelslim": 10_000.0}
OWN_BASE = "specviz_rope_theta"  # in config.json: the owner's word, before all others
BIASES = {  # key of config.json -> what it promises
    "bias": ("fc.bias",),
    "qkv_bias": tuple(f"{LAYER}self_attn.{name}_proj.bias" for name in "qkv"),
    "attention_bias": tuple(f"{LAYER}self_attn.{name}_proj.bias" for name in "qkv"),
}


def in_one_form(checkpoint: DrafterCheckpoint) -> DrafterCheckpoint:
    """The layer under `layers.0.`, no `model.` before names, a flat config.

    ValueError: two tensors come to the same name.
    """
    tensors = {}
    for name, tensor in checkpoint.tensors.items():
        if name.endswith(POSITIONS):
            continue
        if (new := _renamed(name)) in tensors:
            raise ValueError(
                f"The drafter in {checkpoint.folder} holds {new} twice, under two names; fetch "
                "another export."
            )
        tensors[new] = tensor
    return replace(checkpoint, config=_flat(checkpoint), tensors=tensors)


def check_config(checkpoint: DrafterCheckpoint, kit: TargetKit) -> None:
    """ValueError: config.json tells of another target or layer, or of biases that are not there."""
    config, folder = checkpoint.config, checkpoint.folder
    for key, what, here in (
        ("vocab_size", "tokens", kit.vocab_size),
        ("target_hidden_size", "numbers in a hidden state", kit.hidden_size),
    ):
        if config.get(key) not in (None, here):
            raise ValueError(
                f"The drafter in {folder} is another target's: config.json says {config[key]} "
                f"{what}, this target has {here}. Choose a drafter made for this one."
            )
    if config.get("hidden_act") not in (None, "silu"):
        raise ValueError(
            f"The drafter in {folder} computes with {config['hidden_act']}; known here is silu."
        )
    if len(layers := _layers(checkpoint)) > 1:
        raise ValueError(
            f"The drafter in {folder} has {len(layers)} layers; known here are drafters of one."
        )
    for key, names in BIASES.items():
        if config.get(key) and (lost := [n for n in names if n not in checkpoint.tensors]):
            raise ValueError(
                f"config.json in {folder} says {key}, and {lost[0]} is not there: it was dropped "
                "on the way. Fetch the drafter again."
            )


def check_width(
    checkpoint: DrafterCheckpoint, kit: TargetKit, *, columns: int, parts: int | None = None
) -> None:
    """ValueError: `columns` inputs of fc are not `parts` vectors, or any number of them, that are
    as wide as the target's hidden states."""
    if columns != (parts or max(columns // kit.hidden_size, 1)) * kit.hidden_size:
        raise ValueError(
            f"The drafter in {checkpoint.folder} is another target's: fc reads {columns} numbers, "
            f"and hidden states of this target have {kit.hidden_size}. Choose a drafter made for "
            "this one."
        )


def flag(config: Mapping[str, Any], name: str) -> bool:
    """On the config's own level, or where SpecForge and ModelOpt keep such things."""
    own, nested = config.get(name), (config.get("eagle_config") or {}).get(name)
    return bool(nested if own is None else own)


def own_base(checkpoint: DrafterCheckpoint) -> float | None:
    """The base of rotation it was trained with, where that is not what its config.json says."""
    told = checkpoint.config.get(OWN_BASE)
    return float(told) if told else TRAINED_BASES.get(_maker(checkpoint.folder))


def width_of(checkpoint: DrafterCheckpoint) -> int:
    """Of the drafter's own states."""
    return int(setting(checkpoint, "hidden_size"))


def _renamed(name: str) -> str:
    name = name.removeprefix("model.")
    for theirs, ours in RENAMED.items():
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    return name


def _flat(checkpoint: DrafterCheckpoint) -> dict[str, Any]:
    """speculators keep the layer's config in one of its own, inside."""
    config = checkpoint.config
    flat = {**config, **(config.get("transformer_layer_config") or {})}
    if (base := own_base(checkpoint)) is not None:
        flat["rope_parameters"] = {**(flat.get("rope_parameters") or {}), "rope_theta": base}
    return flat


def _maker(folder: Path) -> str:
    """Who published it, if its folder tells: by the repository's id, or as a cache writes that. A
    drafter named on the command line lies behind a link."""
    places = (*folder.parts, *(folder / "config.json").resolve().parts)
    names = {name for place in places for name in place.lower().split("--")}
    return next((maker for maker in TRAINED_BASES if maker in names), "")


def _layers(checkpoint: DrafterCheckpoint) -> set[str]:
    return {name.split(".")[1] for name in checkpoint.tensors if name.startswith("layers.")}
