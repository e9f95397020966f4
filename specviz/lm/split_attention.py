"""Attention of a few rows to many keys, as a GPU wants it: keys in parts that are read in parallel.

The usual kernels give each head and each block of rows to one processor, which then walks through
all keys alone; with the few rows of a draft tree most of a large GPU has nothing to do. Here the
keys are cut into parts, each part is a batch of its own, and the parts are joined by their sums of
weights (flash-decoding). Query heads that share a key head are rows of one product.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

# N = rows, Q = query heads, K = key heads, R = N Q / K rows that share a key head, M = keys,
# D = head size, S = parts

PART_KEYS = 64  # keys of a part at least
BLOCK_ROWS = 64  # rows that one processor takes on together
PROCESSORS = 128  # what a large GPU has of them, about; a smaller one loses little by more parts

_OPS = torch.ops.aten


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """(N, Q D) from queries (N, Q, D), keys and values (K, M, D) and an additive mask (R, M) in
    which rows of the same head follow each other."""
    num_rows, num_heads, size = queries.shape
    num_kv_heads, num_keys, _ = keys.shape
    group = num_heads // num_kv_heads
    by_head = queries.view(num_rows, num_kv_heads, group, size).permute(1, 2, 0, 3)
    stacked = by_head.reshape(num_kv_heads, group * num_rows, size)
    num_parts = parts_of(num_keys, group * num_rows, num_kv_heads)
    if num_parts == 1:
        whole = F.scaled_dot_product_attention(
            stacked[None], keys[None], values[None], attn_mask=mask[None, None]
        )
        mixed = whole[0]
    else:
        mixed = _joined(stacked, keys, values, mask, num_parts)
    rows = mixed.view(num_kv_heads, group, num_rows, size).permute(2, 0, 1, 3)
    return rows.reshape(num_rows, num_heads * size)


def parts_of(num_keys: int, num_rows: int, num_kv_heads: int) -> int:
    """S: enough to give every processor work, equal in size, and none of them tiny."""
    busy = num_kv_heads * -(-num_rows // BLOCK_ROWS)
    num_parts = 1
    while 2 * num_parts * busy <= PROCESSORS and num_keys % (2 * num_parts * PART_KEYS) == 0:
        num_parts *= 2
    return num_parts


def _joined(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, num_parts: int) -> Tensor:
    """(K, R, D) from queries (K, R, D), part by part.

    A part that a row may not see at all has a sum of weights so small that its weight is 0.
    """
    num_kv_heads, num_rows, size = queries.shape
    keys, values = (
        x.view(num_kv_heads, num_parts, -1, size).transpose(0, 1) for x in (keys, values)
    )
    bias = mask.view(num_rows, num_parts, -1).transpose(0, 1)[:, None]
    mixed, log_sums = _partial(
        queries.expand(num_parts, -1, -1, -1),
        keys,
        values,
        bias.expand(-1, num_kv_heads, -1, -1),
    )
    weights = log_sums[..., :num_rows].softmax(0)  # a kernel may pad its rows
    return (mixed * weights[..., None]).sum(0).to(queries.dtype)


def _partial(queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """(S, K, R, D), and the logarithm of each row's sum of weights (S, K, R or more), float32."""
    if queries.device.type == "cpu":
        found = _OPS._scaled_dot_product_flash_attention_for_cpu(
            queries, keys, values, attn_mask=bias
        )
    else:
        found = _OPS._scaled_dot_product_efficient_attention(queries, keys, values, bias, True)
    return found[0], found[1]
