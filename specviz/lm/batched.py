"""Many sequences at once through a Llama-like model: what training needs and decoding does not.

Two passes, both bf16: `read` runs whole sequences, right-padded, and returns their hidden states
(teacher forcing, or the prefill of slots); `step` adds one token to each slot of a batch.
Nothing here verifies or drafts: lanes are `plain` and `packed`, batch 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from specviz.lm.base import FeatureTap
from specviz.lm.folder import config_of, tensors_of
from specviz.lm.linear import reordered_linear, why_not_packed
from specviz.lm.packed_loading import why_not_llama_like

# B = sequences of a batch, T = tokens of the longest, H = hidden size, Q and K = number of query
# and of key-value heads, D = head size, C = tokens a slot holds

CHUNK = 16  # slots whose attention runs together, as long as the longest of them
Apply = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class _Layer:
    input_norm: Tensor
    qkv: Apply
    output: Apply
    mlp_norm: Tensor
    gate_up: Apply
    down: Apply


class SlotCache:
    """Keys and values of B slots, each with its own length."""

    def __init__(self, lm: BatchedLM, num_slots: int, capacity: int) -> None:
        shape = (lm.num_layers, 2, num_slots, lm.num_kv_heads, capacity, lm.head_size)
        self.rows = torch.zeros(shape, dtype=torch.bfloat16, device=lm.device)
        self.lengths = torch.zeros(num_slots, dtype=torch.long)

    @property
    def capacity(self) -> int:
        return self.rows.shape[4]


class BatchedLM:
    """A target's weights, laid out for passes of a hundred rows and more.

    ValueError: the folder's model is not Llama-like, or its weights cannot be read.
    """

    def __init__(self, folder: Path, device: torch.device) -> None:
        config, tensors = config_of(folder), tensors_of(folder)
        if (reason := why_not_llama_like(config)) is not None:
            raise ValueError(f"This model cannot be read in batches: {reason}.")
        self.device = device
        self.eps = config.rms_norm_eps
        self.num_layers: int = config.num_hidden_layers
        self.hidden_size: int = config.hidden_size
        self.num_heads: int = config.num_attention_heads
        self.num_kv_heads: int = config.num_key_value_heads
        self.head_size: int = getattr(config, "head_dim", None) or (
            config.hidden_size // config.num_attention_heads
        )
        tensors = {name: tensor.to(device) for name, tensor in tensors.items()}
        self.embedding = tensors["model.embed_tokens.weight"]
        self.head_weight = (
            self.embedding if config.tie_word_embeddings else tensors["lm_head.weight"]
        )
        self.final_norm = tensors["model.norm.weight"]
        self._head = _linear(self.head_weight, None)
        self._layers = [self._layer(tensors, f"model.layers.{i}.") for i in range(self.num_layers)]
        self._rope = LlamaRotaryEmbedding(config).to(device)

    @torch.inference_mode()
    def read(
        self,
        tokens: Tensor,
        taps: Sequence[FeatureTap] = (),
        cache: SlotCache | None = None,
        slots: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """(B, T, H) after the final norm, and the taps (B, T, F), of right-padded `tokens` (B, T).

        With a cache, keys and values land in `slots` (B,) from their first place on; the caller
        sets the lengths.
        """
        hidden = self.embedding[tokens]
        cos, sin = self._rope(hidden, torch.arange(tokens.shape[1], device=self.device)[None])
        boundaries = [hidden]
        for i, layer in enumerate(self._layers):
            query, key, value = self._heads(layer, hidden, cos, sin)
            if cache is not None:
                cache.rows[i, 0, slots, :, : key.shape[2]] = key
                cache.rows[i, 1, slots, :, : key.shape[2]] = value
            mixed = F.scaled_dot_product_attention(
                query, key, value, is_causal=True, enable_gqa=True
            )
            hidden = self._rest(layer, hidden, mixed.transpose(1, 2).flatten(2))
            if taps:
                boundaries.append(hidden)
        normed = self._norm(hidden, self.final_norm)
        return normed, _tapped(boundaries, normed, taps)

    @torch.inference_mode()
    def step(self, tokens: Tensor, cache: SlotCache) -> Tensor:
        """(B, V) logits after one more token in every slot; lengths grow by one."""
        positions = cache.lengths.to(self.device)
        slots = torch.arange(len(tokens), device=self.device)
        hidden = self.embedding[tokens][:, None]
        cos, sin = self._rope(hidden, positions[:, None])
        starts = range(0, len(tokens), CHUNK)
        chunks = [self._chunk(slice(i, i + CHUNK), cache.lengths, positions) for i in starts]
        for i, layer in enumerate(self._layers):
            query, key, value = self._heads(layer, hidden, cos, sin)
            cache.rows[i, 0, slots, :, positions] = key[:, :, 0]
            cache.rows[i, 1, slots, :, positions] = value[:, :, 0]
            # Query heads that share a key head are rows of one product.
            grouped = query.view(len(tokens), self.num_kv_heads, -1, self.head_size)
            mixed = [
                F.scaled_dot_product_attention(
                    grouped[rows],
                    cache.rows[i, 0, rows, :, :end],
                    cache.rows[i, 1, rows, :, :end],
                    attn_mask=mask,
                )
                for rows, end, mask in chunks
            ]
            hidden = self._rest(layer, hidden, torch.cat(mixed).flatten(1)[:, None])
        cache.lengths += 1
        return self.head(self._norm(hidden[:, 0], self.final_norm))

    @torch.inference_mode()
    def head(self, hidden: Tensor) -> Tensor:
        """(n, V) logits of (n, H) hidden states after the final norm."""
        return self._head(hidden)

    def _chunk(self, rows: slice, lengths: Tensor, positions: Tensor) -> tuple[slice, int, Tensor]:
        """Slots, how many cached rows the longest of them reads, and the additive mask of each.
        `positions` are the lengths, on the device: reading one there would wait for it."""
        end = int(lengths[rows].max()) + 1
        hidden = torch.arange(end, device=self.device) > positions[rows, None]
        mask = torch.zeros(hidden.shape, dtype=torch.bfloat16, device=self.device)
        group = self.num_heads // self.num_kv_heads
        masked = mask.masked_fill_(hidden, -torch.inf)[:, None, None]
        return rows, end, masked.expand(-1, self.num_kv_heads, group, -1)

    def _heads(
        self, layer: _Layer, hidden: Tensor, cos: Tensor, sin: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, Q, T, D), keys and values (B, K, T, D), rotated."""
        num_batch, length, _ = hidden.shape
        fused = layer.qkv(self._norm(hidden, layer.input_norm).flatten(0, 1))
        heads = fused.view(num_batch, length, -1, self.head_size).transpose(1, 2)
        sizes = [self.num_heads, self.num_kv_heads, self.num_kv_heads]
        query, key, value = torch.split(heads, sizes, dim=1)
        cos, sin = cos[:, None], sin[:, None]
        return _rotated(query, cos, sin), _rotated(key, cos, sin), value

    def _rest(self, layer: _Layer, hidden: Tensor, mixed: Tensor) -> Tensor:
        """The layer after its attention; hidden and mixed (B, T, .)."""
        hidden = hidden + layer.output(mixed.flatten(0, 1)).view(hidden.shape)
        normed = self._norm(hidden, layer.mlp_norm).flatten(0, 1)
        gate, up = layer.gate_up(normed).chunk(2, dim=-1)
        return hidden + layer.down(F.silu(gate).mul_(up)).view(hidden.shape)

    def _norm(self, hidden: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(hidden, weight.shape, weight, self.eps)

    def _layer(self, tensors: dict[str, Tensor], prefix: str) -> _Layer:
        def fused(names: str, kind: str) -> Tensor | None:
            parts = [tensors.get(f"{prefix}{name}.{kind}") for name in names.split()]
            found = [part for part in parts if part is not None]
            return torch.cat(found) if len(found) == len(parts) else None

        def linear(names: str) -> Apply:
            weight = fused(names, "weight")
            assert weight is not None, "a Llama-like layer has all of its weights"
            return _linear(weight, fused(names, "bias"))

        return _Layer(
            input_norm=tensors[prefix + "input_layernorm.weight"],
            qkv=linear("self_attn.q_proj self_attn.k_proj self_attn.v_proj"),
            output=linear("self_attn.o_proj"),
            mlp_norm=tensors[prefix + "post_attention_layernorm.weight"],
            gate_up=linear("mlp.gate_proj mlp.up_proj"),
            down=linear("mlp.down_proj"),
        )


def _linear(weight: Tensor, bias: Tensor | None) -> Apply:
    if weight.device.type == "cpu" and why_not_packed() is None:
        return reordered_linear(weight, bias, batch_hint=128)
    return lambda x: F.linear(x, weight, bias)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def _tapped(boundaries: list[Tensor], normed: Tensor, taps: Sequence[FeatureTap]) -> Tensor | None:
    if not taps:
        return None
    parts: list[Any] = [
        normed if tap.side == "normed" else boundaries[tap.layer + (tap.side == "output")]
        for tap in taps
    ]
    return torch.cat(parts, dim=-1)
