"""One layer of a target's family, as transformers computes it, over a cache of its own.

For MTP modules whose block is more than a Llama layer (mixtures of experts, latent or gated
attention, partly rotated heads): the family's own decoder, one layer high. Llama's own is
`draft_layer`, which is faster. Only public arguments are used, as in `plain`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel

from specviz.lm.attention import additive_mask
from specviz.lm.checkpoint_files import first_line
from specviz.lm.plain_cache import PlainCache

# n = rows of a pass, m = keys that `visible` speaks of, H = hidden size

FULL_ATTENTION = "full_attention"
MLP = "layers.0.mlp.gate_proj.weight"  # of a layer without experts
UNREADABLE = (ValueError, KeyError, TypeError, RuntimeError, AttributeError, AssertionError)


class FamilyLayer:
    """Attention and MLP of one layer, and norms of the family's kind."""

    def __init__(self, model: Any) -> None:
        """model: a decoder of one layer, its embedding unused."""
        self.final_norm: nn.Module = model.norm
        model.norm = nn.Identity()
        self._model = model
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype

    def new_cache(self, capacity: int) -> PlainCache:
        return PlainCache(1, capacity)

    def norm_of(self, weight: Tensor) -> Callable[[Tensor], Tensor]:
        """A norm as the family computes it: some scale by 1 + weight."""
        kind: Any = type(self.final_norm)
        eps = getattr(self.final_norm, "variance_epsilon", getattr(self.final_norm, "eps", None))
        norm: nn.Module = kind(len(weight), eps)
        norm.weight = nn.Parameter(weight, requires_grad=False)
        return norm

    def positions(self, depths: Tensor, visible: Tensor, cache: PlainCache) -> Tensor:
        """(n,) in the text, of rows that are about to be read."""
        return depths + (cache.length + len(depths) - visible.shape[1])

    @torch.inference_mode()
    def run(self, x: Tensor, depths: Tensor, visible: Tensor, cache: PlainCache) -> Tensor:
        """(n, H) before the final norm; the arguments are those of `DraftCache.attend`."""
        num_seen = cache.length + len(x) - visible.shape[1]
        positions = self.positions(depths, visible, cache)
        cache.begin_pass(len(x))
        out = self._model(
            inputs_embeds=x[None],
            attention_mask=additive_mask(visible, num_seen, dtype=self.dtype, device=self.device),
            position_ids=positions[None].to(self.device),
            cache=cache.states,
            use_cache=True,
        )
        cache.keep(range(len(x)))
        hidden: Tensor = out.last_hidden_state[0]
        return hidden


def load_family_layer(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor], whose: str
) -> FamilyLayer:
    """config: the target's config.json. tensors: `layers.0.*` and `norm.weight`, in the compute
    dtype. ValueError, beginning with `whose`: this transformers does not know the family, or a
    tensor is missing, too many or of another shape.
    """
    norm = tensors["norm.weight"]
    held = dict(tensors) | {"embed_tokens.weight": norm.new_zeros(1, len(norm))}
    try:
        one = _one_layer(config, has_experts=MLP not in tensors)
        kind = type(AutoModel.from_config(one, dtype=norm.dtype))
        model, info = kind.from_pretrained(
            None, config=one, state_dict=held, dtype=norm.dtype, output_loading_info=True
        )
    except UNREADABLE as error:
        raise ValueError(f"{whose} cannot be read: {first_line(error)}.") from error
    if missing := sorted(info["missing_keys"]):
        raise ValueError(f"{whose} lacks {len(missing)} tensors, {missing[0]} among them.")
    if extra := sorted(info["unexpected_keys"]):
        raise ValueError(
            f"{whose} holds {len(extra)} tensors that its family has no use for, {extra[0]} among "
            "them."
        )
    return FamilyLayer(model.eval().requires_grad_(False).to(norm.device))


def _one_layer(config: Mapping[str, Any], *, has_experts: bool) -> Any:
    """The family's configuration with one layer of full attention, and no vocabulary."""
    text = AutoConfig.for_model(**config).get_text_config()
    values = text.to_dict()
    kind = values.pop("model_type")
    values |= {"num_hidden_layers": 1, "vocab_size": 1}
    values |= dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    if "first_k_dense_replace" in values:  # so many first layers have no experts
        values["first_k_dense_replace"] = 0 if has_experts else 1
    for name in ("layer_types", "mlp_layer_types"):
        if values.get(name):
            values[name] = [FULL_ATTENTION if name == "layer_types" else values[name][-1]]
    return AutoConfig.for_model(kind, **values)
