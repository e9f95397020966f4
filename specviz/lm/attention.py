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
