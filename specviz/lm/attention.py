"""Who may attend to whom, as the mask a transformers model takes. No other file knows its form.

The mask is 4-D and additive, in the compute dtype: 0 where a row may look, a large negative
number where it may not. A boolean mask is right under sdpa and silently wrong under eager
attention, which adds it. Every row sees at least itself, so no softmax is over nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specviz.tree import DraftTree

# N = rows of the pass, L = cached tokens before it.


def visible_rows(tree: DraftTree) -> Tensor:
    """(N, N) bool: row i sees row j if j is on the path from the root to i, i included."""
    pairs = [(row, seen) for row in range(len(tree)) for seen in tree.path(row)]
    rows, columns = torch.tensor(pairs).T
    visible = torch.zeros(len(tree), len(tree), dtype=torch.bool)
    visible[rows, columns] = True
    return visible


def causal_rows(num_rows: int) -> Tensor:
    """(N, N) bool: `visible_rows` of a chain."""
    return torch.ones(num_rows, num_rows, dtype=torch.bool).tril()


def additive_mask(
    visible: Tensor, num_cached: int, *, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """(1, 1, N, L + M) from (N, M) `visible`: every row sees the L cached tokens as well."""
    num_rows, num_keys = visible.shape
    mask = torch.zeros(1, 1, num_rows, num_cached + num_keys, dtype=dtype)
    mask[0, 0, :, num_cached:].masked_fill_(~visible, hidden_score(dtype))
    return mask.to(device)


def hidden_score(dtype: torch.dtype) -> float:
    """What is added to the score of a key that may not be seen.

    Half of the lowest number: adding a score, or a second mask, stays finite in any dtype.
    """
    return torch.finfo(dtype).min / 2


def sights(tree: DraftTree) -> list[int]:
    """`visible_rows` as one number per row: bit j of the i-th is set if row i sees row j.

    For trees of up to 64 rows, whose numbers fit a signed 64-bit integer.
    """
    seen = list[int]()
    for row, parent in enumerate(tree.parents):
        seen.append((seen[parent] if parent >= 0 else 0) | 1 << row)
    return [bits - (1 << 64) if bits >> 63 else bits for bits in seen]


def mask_of_sights(bits: Tensor, length: Tensor, num_keys: int, dtype: torch.dtype) -> Tensor:
    """(N, M) additive mask, made where `bits` (N,) is: every row sees the first `length` keys, and
    of the N keys behind them those whose bit is set. `length` is a tensor, so no one waits for it."""
    behind = torch.arange(num_keys, device=bits.device) - length
    is_own = (behind >= 0) & (behind < len(bits))
    is_seen = (bits[:, None] >> behind.clamp(0, 63)) & 1 > 0
    visible = (behind < 0) | (is_own & is_seen)
    mask = torch.zeros(visible.shape, dtype=dtype, device=bits.device)
    return mask.masked_fill_(~visible, hidden_score(dtype))
