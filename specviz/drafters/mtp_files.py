"""Published MTP modules, brought to one form, or a sentence about what is wrong with the file.

Read are DeepSeek-V3's names, which GLM uses too (`model.layers.61.eh_proj`: the layer behind the
target's last), Xiaomi MiMo's (`model.mtp_layers.0.input_proj`, which joins state and embedding the
other way round) and Qwen3.5's (`mtp.fc`). A module lies in a file of its own or in the target's.
Of several modules the first is read, and used for every step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from torch import Tensor

from specviz.drafters.base import TargetKit
from specviz.drafters.parts import LAYER, layer_of, layer_shapes, optional_shapes, placed, setting
from specviz.lm.checkpoints import DrafterCheckpoint, Shape, check_tensors
from specviz.lm.draft_cache import DraftCache
from specviz.lm.draft_layer import CachedLayer, norm_of
from specviz.lm.family_layer import FamilyLayer, load_family_layer

# n = rows of a pass, m = keys that `visible` speaks of, H = hidden size

LLAMA_LIKE = (None, "llama", "mistral", "qwen2", "qwen3", "mimo")  # whose layer `CachedLayer` is
KEPT = ("d2t", "t2d")
REPEATED = ("embed_tokens.weight", "shared_head.head.weight")  # the target's own
STATEFUL = "linear_attention"


@dataclass(frozen=True, slots=True)
class Spelling:
    """What a family calls the parts of a module, inside its prefix."""

    prefix: str
    embedding_norm: str
    state_norm: str
    projection: str
    final_norm: str
    layer: str = ""  # before the names of the block
    is_state_first: bool = False  # in the product that joins state and embedding
    hides_first: bool = False  # the embedding beside the text's first state counts as zeros


MIMO = Spelling(
    *("model.mtp_layers.0.", "token_layernorm", "hidden_layernorm", "input_proj"),
    final_norm="final_layernorm",
    is_state_first=True,
    hides_first=True,
)
QWEN = Spelling(
    *("mtp.", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc", "norm"), layer="layers.0."
)
DEEPSEEK_LAYER = re.compile(r"model\.layers\.(\d+)\.eh_proj\.weight")
ELSEWHERE = re.compile(r"(model\.(layers|mtp_layers|embed|norm|visual)|lm_head|visual|mtp)\b.*")


def deepseek(layer: int) -> Spelling:
    return Spelling(f"model.layers.{layer}.", "enorm", "hnorm", "eh_proj", "shared_head.norm")


def are_module(names: Iterable[str]) -> bool:
    """Whether an MTP module is among tensors of these names."""
    marks = {f"{known.prefix}{known.projection}.weight" for known in (MIMO, QWEN)}
    return any(name in marks or DEEPSEEK_LAYER.fullmatch(name) for name in names)


class Block(Protocol):
    """The module's one layer."""

    device: Any

    def new_cache(self, capacity: int) -> Any: ...
    def norm_of(self, weight: Tensor) -> Callable[[Tensor], Tensor]: ...
    def positions(self, depths: Tensor, visible: Tensor, cache: Any) -> Tensor:
        """(n,) in the text, of rows that are about to be read."""

    def run(self, x: Tensor, depths: Tensor, visible: Tensor, cache: Any) -> Tensor:
        """(n, H) before the final norm; x (n, H), the rest as in `DraftCache.attend`."""


class LlamaBlock:
    """A Llama layer with its input norm."""

    def __init__(
        self, checkpoint: DrafterCheckpoint, tensors: Mapping[str, Tensor], eps: float
    ) -> None:
        self.layer: CachedLayer = layer_of(checkpoint, tensors)
        self.device, self.width, self.dtype = self.layer.device, self.layer.width, self.layer.dtype
        self.new_cache, self.fixed_cache = self.layer.new_cache, self.layer.fixed_cache
        self._eps = eps
        self._input_norm = self.norm_of(tensors[f"{LAYER}input_layernorm.weight"])

    def norm_of(self, weight: Tensor) -> Callable[[Tensor], Tensor]:
        return norm_of(weight, self._eps)

    def positions(self, depths: Tensor, visible: Tensor, cache: DraftCache) -> Tensor:
        return cache.positions(depths, visible)

    def run(self, x: Tensor, depths: Tensor, visible: Tensor, cache: DraftCache) -> Tensor:
        return self.layer.run(self._input_norm(x), x, depths, visible, cache)


@dataclass(frozen=True, slots=True)
class Module:
    spelling: Spelling
    block: Block
    embedding_norm: Callable[[Tensor], Tensor]
    state_norm: Callable[[Tensor], Tensor]
    final_norm: Callable[[Tensor], Tensor]
    projection: Tensor  # (H, 2 H)
    tensors: dict[str, Tensor]  # all that the module holds of its own


def read_module(checkpoint: DrafterCheckpoint, kit: TargetKit) -> Module:
    """ValueError: there is no module, something of it is missing, or it is another target's."""
    spelling = _spelling_of(checkpoint, kit)
    alone = _alone(checkpoint, spelling)
    _check_config(alone, kit)
    is_llama = _is_llama_like(alone)
    _check(alone, spelling, kit, is_llama=is_llama)
    tensors = placed(alone.tensors, kit)
    block: Block
    if is_llama:
        block = LlamaBlock(alone, tensors, float(setting(alone, "rms_norm_eps")))
    else:
        block = _family_block(alone, spelling, tensors)

    def own(name: str) -> Tensor:
        return tensors[f"{LAYER}{name}.weight"]

    return Module(
        spelling,
        block,
        embedding_norm=block.norm_of(own(spelling.embedding_norm)),
        state_norm=block.norm_of(own(spelling.state_norm)),
        final_norm=block.norm_of(own(spelling.final_norm)),
        projection=own(spelling.projection),
        tensors=tensors,
    )


def _spelling_of(checkpoint: DrafterCheckpoint, kit: TargetKit) -> Spelling:
    names = checkpoint.tensors.keys()
    for known in (MIMO, QWEN):
        if f"{known.prefix}{known.projection}.weight" in names:
            return known
    found = sorted(int(m.group(1)) for m in map(DEEPSEEK_LAYER.fullmatch, names) if m)
    if found and kit.num_layers not in found:
        raise ValueError(
            f"The MTP drafter in {checkpoint.folder} is layer {found[0]} of its model, and this "
            f"target has {kit.num_layers} layers: it is of another target."
        )
    return deepseek(kit.num_layers)  # without any such name, what is missing is named


def _alone(checkpoint: DrafterCheckpoint, spelling: Spelling) -> DrafterCheckpoint:
    """The module without its model, every name under the one that layers of drafters have here."""
    tensors = dict[str, Tensor]()
    for name, tensor in checkpoint.tensors.items():
        if name.startswith(spelling.prefix):
            inner = name.removeprefix(spelling.prefix)
            if inner not in REPEATED:
                tensors[LAYER + inner.removeprefix(spelling.layer or "\0")] = tensor
        elif name in KEPT or not (name.startswith("backbone.") or ELSEWHERE.fullmatch(name)):
            tensors[name] = tensor
    return replace(checkpoint, tensors=tensors)


def _check_config(checkpoint: DrafterCheckpoint, kit: TargetKit) -> None:
    config = checkpoint.config
    kinds = (config.get("text_config") or config).get("layer_types") or ()
    if STATEFUL in kinds:
        raise ValueError(
            f"The MTP drafter in {checkpoint.folder} is of a model with recurrent layers "
            f"({STATEFUL}): they could not forget rejected draft tokens, so it is not run here."
        )
    if scales := [name for name in checkpoint.tensors if name.endswith("weight_scale_inv")]:
        raise ValueError(
            f"The MTP drafter in {checkpoint.folder} is stored in blocks of 8 bits ({scales[0]}); "
            "fetch the 16-bit form of it."
        )
    told = config.get("hidden_size")
    if told is not None and int(told) != kit.hidden_size:
        raise ValueError(
            f"config.json in {checkpoint.folder} tells of states of {told} numbers; this target's "
            f"have {kit.hidden_size}, so the drafter is of another target."
        )


def _is_llama_like(checkpoint: DrafterCheckpoint) -> bool:
    """Whether the block is one that `CachedLayer` computes. Anything odd is left to the family."""
    config = checkpoint.config
    if config.get("model_type") not in LLAMA_LIKE:
        return False
    experts = any(name.startswith(f"{LAYER}mlp.experts.") for name in checkpoint.tensors)
    return not experts and float(config.get("partial_rotary_factor") or 1.0) == 1.0


def _check(
    checkpoint: DrafterCheckpoint, spelling: Spelling, kit: TargetKit, *, is_llama: bool
) -> None:
    """ValueError: these are not the weights of such a module for this target."""
    size = kit.hidden_size
    names = (spelling.embedding_norm, spelling.state_norm, spelling.final_norm, "input_layernorm")
    required: dict[str, Shape] = {f"{LAYER}{name}.weight": (size,) for name in names}
    required[f"{LAYER}{spelling.projection}.weight"] = (size, 2 * size)
    optional = optional_shapes(kit)
    if is_llama:
        required |= layer_shapes(size, size)
        if checkpoint.config.get("model_type") == "mimo" or checkpoint.config.get("qkv_bias"):
            required |= {
                n: s for n, s in optional.items() if n.endswith("_proj.bias") and "o_" not in n
            }
        check_tensors(checkpoint, required, optional, "MTP")
        return
    # What else the family's layer holds is known to the family.
    held = {name: t for name, t in checkpoint.tensors.items() if name in {*required, *KEPT}}
    check_tensors(replace(checkpoint, tensors=held), required, optional, "MTP")


def _family_block(
    checkpoint: DrafterCheckpoint, spelling: Spelling, tensors: Mapping[str, Tensor]
) -> FamilyLayer:
    own = (spelling.embedding_norm, spelling.state_norm, spelling.projection, spelling.final_norm)
    used = {f"{LAYER}{name}.weight" for name in own}
    block = {n: t for n, t in tensors.items() if n.startswith(LAYER) and n not in used}
    block["norm.weight"] = tensors[f"{LAYER}{spelling.final_norm}.weight"]
    whose = f"The MTP drafter in {checkpoint.folder}"
    return load_family_layer(checkpoint.config, block, whose)
