"""A lean decoder pass for Llama-like models on a GPU: few kernels, fixed shapes, no waiting.

It works on the modules of a loaded transformers model, whose weights it shares: query, key and
value projections become one product, and so do gate and up, while the model keeps views of the
joint weights. Quantised layers are called as they are. Where keys and values lie, and whether the
pass is captured, is not decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.lm.base import FeatureTap
from specviz.lm.split_attention import attend
from specviz.words import word

# N = rows of the pass, M = keys they may look at, H = hidden size, F = width of the tapped features,
# Q and K = query and key heads, D = head size, C = rows of the slot

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3", "mimo")
Apply = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Step:
    """What a pass reads: everything on the device, and of a shape that does not change."""

    tokens: Tensor  # (N,)
    positions: Tensor  # (N,)
    places: Tensor  # (N,) rows of the slot where keys and values of the pass go
    mask: Tensor  # (N, M) additive
    slot: Tensor  # (layers, 2 K, C, D), M <= C


@dataclass(frozen=True, slots=True)
class _Layer:
    input_norm: Apply
    qkv: Apply
    head_norm: HeadNorm | None
    output: AddTo
    mlp_norm: Apply
    gate_up: Apply
    down: AddTo


class LeanBody:
    """Embedding, layers and final norm of a Llama-like model."""

    def __init__(self, model: Any, num_positions: int) -> None:
        config, decoder = model.config, model.get_decoder()
        self.num_heads: int = config.num_attention_heads
        self.num_kv_heads: int = config.num_key_value_heads
        self.embedding: Tensor = decoder.embed_tokens.weight
        self.layers = [_layer_of(layer) for layer in decoder.layers]
        self.final_norm = _norm(decoder.norm)
        self.head_size = int(decoder.layers[0].self_attn.head_dim)
        positions = torch.arange(num_positions, device=self.embedding.device)
        cosines, sines = decoder.rotary_emb(self.embedding[:1], positions[None])
        sines[..., : self.head_size // 2] *= -1.0
        self._cosines: Tensor = cosines[0]  # (C, D)
        self._sines: Tensor = sines[0]
        heads = torch.arange(self.num_heads + 2 * self.num_kv_heads, device=positions.device)
        self._stays = (heads >= self.num_heads + self.num_kv_heads)[:, None]  # (Q + 2 K, 1)

    def hidden(self, step: Step, taps: Sequence[FeatureTap]) -> tuple[Tensor, Tensor | None]:
        """(N, H) after the final norm and the taps (N, F); keys and values land in the slot."""
        hidden = F.embedding(step.tokens, self.embedding)
        wanted = {tap.layer + (tap.side == "output") for tap in taps if tap.side != "normed"}
        boundaries = dict[int, Tensor]()  # the input of layer i stands at i
        cosines, sines = self._turns(step.positions)
        group = self.num_heads // self.num_kv_heads
        mask, num_keys = step.mask.repeat(group, 1), step.mask.shape[1]
        for i, layer in enumerate(self.layers):
            if i in wanted:
                boundaries[i] = hidden.clone()
            heads = layer.qkv(layer.input_norm(hidden)).view(len(hidden), -1, self.head_size)
            if layer.head_norm is not None:
                heads = layer.head_norm(heads)
            heads = torch.addcmul(heads * cosines, heads.roll(self.head_size // 2, -1), sines)
            slot = step.slot[i]
            slot.index_copy_(1, step.places, heads[:, self.num_heads :].transpose(0, 1))
            keys, values = slot[:, :num_keys].chunk(2)
            mixed = attend(heads[:, : self.num_heads], keys, values, mask)
            layer.output(mixed, hidden)
            gate, up = layer.gate_up(layer.mlp_norm(hidden)).chunk(2, dim=-1)
            layer.down(F.silu(gate).mul_(up), hidden)
        boundaries[len(self.layers)] = hidden
        normed = self.final_norm(hidden)
        return normed, _tapped(boundaries, normed, taps)

    def _turns(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Rotary factors (N, Q + 2 K, D), so that one product turns all heads:
        y = x cos + swapped x sin, where the sine of the first half is negative. Values stay."""
        cosines, sines = self._cosines[positions, None], self._sines[positions, None]
        # Not `where`: it may bring its number from the host, for which a captured pass cannot wait.
        return cosines.masked_fill(self._stays, 1.0), sines.masked_fill(self._stays, 0.0)


def why_not_lean(model: Any) -> str | None:
    """None if `LeanBody` computes what this transformers model does; otherwise the reason."""
    config = model.config
    if config.model_type not in MODEL_TYPES:
        return word("path.few_lean", names=", ".join(MODEL_TYPES))
    if config.hidden_act != "silu":
        return word("path.only_silu", name=config.hidden_act)
    return None


class HeadNorm:
    """RMSNorm of each query and key head (Qwen3); values pass."""

    def __init__(self, query: Any, key: Any, num_heads: int, num_kv_heads: int) -> None:
        parts = [query.weight.expand(num_heads, -1), key.weight.expand(num_kv_heads, -1)]
        self.weight, self.eps = torch.cat(parts).detach(), query.variance_epsilon

    def __call__(self, heads: Tensor) -> Tensor:
        """heads (N, Q + 2 K, D), changed in place."""
        turned = heads[:, : len(self.weight)]
        torch.mul(F.rms_norm(turned, turned.shape[-1:], eps=self.eps), self.weight, out=turned)
        return heads


class AddTo:
    """hidden += x W^T, in the product itself where the layer is a plain one."""

    def __init__(self, module: Any) -> None:
        is_plain = type(module) is nn.Linear and module.bias is None
        self.module = module
        self.weight: Tensor | None = module.weight.detach().t() if is_plain else None

    def __call__(self, x: Tensor, hidden: Tensor) -> None:
        if self.weight is None:
            hidden.add_(self.module(x))
        else:
            hidden.addmm_(x, self.weight)


def joined(modules: Sequence[Any]) -> Apply:
    """One product for several linear layers over the same input. Plain ones get views of the joint
    weight in place of their own, so that nothing is held twice."""
    if any(type(module) is not nn.Linear for module in modules):
        return lambda x: torch.cat([module(x) for module in modules], dim=-1)
    weight = torch.cat([module.weight.detach() for module in modules])
    start = 0
    for module in modules:
        end = start + module.out_features
        module.weight.data = weight[start:end]
        start = end
    has_bias = any(module.bias is not None for module in modules)
    bias = torch.cat([_bias(module) for module in modules]) if has_bias else None
    return lambda x: F.linear(x, weight, bias)


def _bias(module: nn.Linear) -> Tensor:
    zeros = torch.zeros_like(module.weight[:, 0])
    return zeros if module.bias is None else module.bias.detach()


def _layer_of(layer: Any) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    head_norm = None
    if hasattr(attention, "q_norm"):
        counts = (attention.config.num_attention_heads, attention.config.num_key_value_heads)
        head_norm = HeadNorm(attention.q_norm, attention.k_norm, *counts)
    return _Layer(
        input_norm=_norm(layer.input_layernorm),
        qkv=joined([attention.q_proj, attention.k_proj, attention.v_proj]),
        head_norm=head_norm,
        output=AddTo(attention.o_proj),
        mlp_norm=_norm(layer.post_attention_layernorm),
        gate_up=joined([mlp.gate_proj, mlp.up_proj]),
        down=AddTo(mlp.down_proj),
    )


def _norm(module: Any) -> Apply:
    weight, eps = module.weight.detach(), module.variance_epsilon
    return lambda x: F.rms_norm(x, weight.shape, weight, eps)


def _tapped(
    boundaries: dict[int, Tensor], normed: Tensor, taps: Sequence[FeatureTap]
) -> Tensor | None:
    if not taps:
        return None
    parts = [
        normed if tap.side == "normed" else boundaries[tap.layer + (tap.side == "output")]
        for tap in taps
    ]
    return torch.cat(parts, dim=-1)
