"""What an EAGLE-3 file says of its own network: which states it reads, and what it norms where.

One format has many makers: the authors (`midlayer`), SpecForge, AngelSlim, vLLM's speculators
(`norm_before_residual`), ModelOpt, EAGLE-3.1 (`fc_norm`, `norm_output`), and this project. A file
that leaves open what would spoil every guess is refused with what to add to its config.json.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from specviz.drafters.base import TargetKit
from specviz.drafters.parts import LAYER
from specviz.drafters.published import check_width, flag
from specviz.lm.base import FeatureTap
from specviz.lm.checkpoints import DrafterCheckpoint
from specviz.words import Refusal, message

MIN_LAYERS = 5  # of a target: in a shallower one the layers to read by default do not exist
NUM_STATES = 3  # low, middle, high
LAYER_IDS = "eagle_aux_hidden_state_layer_ids"
OWN_MEANING = "specviz_layer_ids"  # in config.json: the owner's word on what LAYER_IDS mean
MEANINGS = {"before": 0, "after": 1}  # the state that enters a layer, or the one that leaves it
FLAGS = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
NormBeforeFc = Literal["none", "each", "all"]


@dataclass(frozen=True, slots=True)
class Dialect:
    taps: tuple[FeatureTap, ...]  # states of the target, ascending, side by side
    norm_before_fc: NormBeforeFc  # of each state (3.1), of all side by side, or of none
    has_normed_residual: bool  # the layer adds to the normed feature, not to the feature
    has_normed_output: bool  # a draft goes on from what the head reads, not from the raw output


def dialect_of(checkpoint: DrafterCheckpoint, kit: TargetKit) -> Dialect:
    """Of a checkpoint in one form. ValueError: it is of another kind, another target's, or does
    not say enough."""
    config = checkpoint.config
    _check_kind(checkpoint)
    flags = {name: flag(config, name) for name in FLAGS}
    if flags["norm_before_fc"] and flags["fc_norm"]:
        raise _open(checkpoint, "says both norm_before_fc and fc_norm: only one can be true")
    before: NormBeforeFc = "none"
    if flags["fc_norm"] or flags["norm_before_fc"]:
        before = "each" if flags["fc_norm"] else "all"
    layers = _layers_of(checkpoint, kit, _num_states(checkpoint, kit))
    return Dialect(
        tuple(_tap(layer, kit.num_layers) for layer in layers),
        before,
        has_normed_residual=flags["norm_before_residual"],
        has_normed_output=flags["norm_output"],
    )


def verifier_of(config: Mapping[str, Any]) -> str:
    """The target that a config.json of speculators names; "" if it names none."""
    found: Any = config
    for key in ("speculators_config", "verifier", "name_or_path"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else ""


def _check_kind(checkpoint: DrafterCheckpoint) -> None:
    config = checkpoint.config
    kind = config.get("speculators_model_type")
    if "mask_hidden" in checkpoint.tensors or kind not in (None, "eagle3"):
        name = "P-EAGLE" if "mask_hidden" in checkpoint.tensors else kind
        raise _open(checkpoint, f"is of {name}, not of EAGLE-3")
    if (config.get("eagle_config") or {}).get("use_aux_hidden_state") is False:
        raise _open(checkpoint, "says use_aux_hidden_state: false; known are those that read three")
    if kind is not None and config.get("norm_before_residual") is None:
        # Its writer takes false for granted, its main reader true.
        raise _open(
            checkpoint, "does not say norm_before_residual: add true or false, as it was trained"
        )


def _num_states(checkpoint: DrafterCheckpoint, kit: TargetKit) -> int:
    """How many of the target's states fc reads."""
    fc = checkpoint.tensors.get("fc.weight")
    if fc is None or fc.ndim != 2 or f"{LAYER}hidden_norm.weight" not in checkpoint.tensors:
        return NUM_STATES  # what is wrong with it is told with the other tensors
    check_width(checkpoint, kit, columns=fc.shape[1])
    count, told = fc.shape[1] // kit.hidden_size, checkpoint.config.get("num_aux_hidden_states")
    if told not in (None, count):
        raise ValueError(
            f"config.json in {checkpoint.folder} says num_aux_hidden_states {told}, and fc reads "
            f"{count} hidden states of this target; it is another target's, or damaged."
        )
    return count


def _layers_of(checkpoint: DrafterCheckpoint, kit: TargetKit, count: int) -> Sequence[int]:
    """Ascending; the state meant is the one that enters the layer, and L is after the last one."""
    ids = _given_ids(checkpoint)
    if ids is None:
        return _default_layers(checkpoint, kit, count)
    shift = _shift(checkpoint, ids, kit.num_layers)
    layers = sorted({layer + shift for layer in ids})
    if len(layers) != count or len(ids) != count:
        raise _open(
            checkpoint, f"names {len(set(ids))} layers in {LAYER_IDS}, and fc reads {count}"
        )
    if layers[0] < 0 or layers[-1] > kit.num_layers:
        side = "before" if shift == 0 else "after"
        raise _open(
            checkpoint,
            f"reads the states {side} the layers {', '.join(map(str, ids))}, and this target has "
            f"the layers 0 to {kit.num_layers - 1}; it is another target's",
        )
    return layers


def _given_ids(checkpoint: DrafterCheckpoint) -> list[int] | None:
    config: Mapping[str, Any] = checkpoint.config
    top, nested = config.get(LAYER_IDS), (config.get("eagle_config") or {}).get(LAYER_IDS)
    if top is not None and nested is not None and top != nested:
        raise _open(checkpoint, f"says {LAYER_IDS} twice, {top} and {nested}: leave one")
    ids = nested if top is None else top
    if ids is None:
        return None
    if not isinstance(ids, list) or not ids or not all(type(layer) is int for layer in ids):
        raise _open(checkpoint, f"has {LAYER_IDS} that are no list of layers")
    return ids


def _default_layers(checkpoint: DrafterCheckpoint, kit: TargetKit, count: int) -> Sequence[int]:
    if count != NUM_STATES:
        raise _open(checkpoint, f"reads {count} hidden states, and does not say {LAYER_IDS}")
    if kit.num_layers < MIN_LAYERS:
        counts = {"layers": kit.num_layers, "needed": MIN_LAYERS}
        raise Refusal(message("refusal.too_few_layers", **counts))
    return (2, kit.num_layers // 2, kit.num_layers - 3)


def _shift(checkpoint: DrafterCheckpoint, ids: Sequence[int], num_layers: int) -> int:
    """0 if the ids mean states that enter layers, 1 if they mean states that leave them.

    speculators mean the first; SpecForge and SGLang the second, in the same words. What defaults
    and published files look like tells most others apart.
    """
    config = checkpoint.config
    if (told := config.get(OWN_MEANING)) is not None:
        if told not in MEANINGS:
            raise _open(checkpoint, f"has {OWN_MEANING} {told!r}: expected before or after")
        return MEANINGS[told]
    if config.get("speculators_model_type") is not None:
        return 0
    if min(ids) == 1:
        return 1
    if min(ids) == 2 or max(ids) == num_layers:
        return 0
    raise _open(
        checkpoint,
        f"names the layers {', '.join(map(str, ids))} and not whether their inputs or their outputs "
        f'are read: add "{OWN_MEANING}": "before" or "after"',
    )


def _tap(layer: int, num_layers: int) -> FeatureTap:
    if layer == num_layers:  # what leaves the last layer, not normed
        return FeatureTap("output", layer - 1)
    return FeatureTap("input", layer)


def _open(checkpoint: DrafterCheckpoint, what: str) -> ValueError:
    return ValueError(f"The EAGLE-3 drafter in {checkpoint.folder} {what} (config.json).")
