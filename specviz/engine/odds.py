"""What the trace tells of each row: the target's own numbers, and the likeliest tokens.

Computed after the lane's clock has stopped: watching a round is not part of its cost.
`logits` are those of ids the tokenizer knows; a head's padding is nobody's favourite.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from specviz.drafters.base import Proposal
from specviz.engine.verify import RowProbs, Walk
from specviz.lm.sampling import top_tokens
from specviz.lm.text import TokenText
from specviz.trace import RowOdds, TokenOdds
from specviz.tree import DraftTree

NUM_TARGET_ODDS = 5
NUM_DRAFT_ODDS = 3
LOWEST_LOGIT = -1e30  # a trace holds finite numbers only; some models forbid ids by -inf


def softmax_probs(tree: DraftTree, logits: Tensor) -> tuple[float | None, ...]:
    """(N,) softmax(logits of the parent)[token] for each draft row, before any sampling setting.

    None where there is no such number: at the root, in lookahead rows, after NaN logits.
    """
    count = tree.num_draft_tokens
    if count == 0:
        return (None,) * len(tree)
    parents = torch.tensor(tree.parents[1 : count + 1], device=logits.device)
    tokens = torch.tensor(tree.tokens[1 : count + 1], device=logits.device)
    rows = sorted(set(tree.parents[1 : count + 1]))
    mass = torch.full((len(tree),), torch.inf, device=logits.device)
    mass[rows] = logits[rows].float().logsumexp(-1)
    values: list[float] = (logits[parents, tokens].float() - mass[parents]).exp().tolist()
    told = (value if math.isfinite(value) else None for value in values)
    return (None, *told, *(None,) * tree.num_lookahead_rows)


def row_odds(
    proposal: Proposal, walk: Walk, logits: Tensor, probs: RowProbs, text: TokenText
) -> tuple[RowOdds, ...]:
    """The likeliest tokens of target and draft at each row the walk visited, and at the last of
    them the target's own, however unlikely it was."""
    visited = (0, *walk.verdict.accepted_rows)
    ends = [*[None] * (len(visited) - 1), walk]
    return tuple(
        RowOdds(row, _odds_at(row, proposal, logits[row], probs(row), text, end))
        for row, end in zip(visited, ends, strict=True)
    )


def _odds_at(
    row: int,
    proposal: Proposal,
    logits: Tensor,
    probs: Tensor,
    text: TokenText,
    end: Walk | None,
) -> tuple[TokenOdds, ...]:
    """end: the walk, if it ended at this row."""
    scores = logits.float().cpu()
    drafted = None if proposal.child_probs is None else proposal.child_probs[row]
    children = [proposal.tree.tokens[child] for child in proposal.tree.children(row)]
    tokens = top_tokens(scores, NUM_TARGET_ODDS)
    tokens += [token for token in children[:NUM_DRAFT_ODDS] if token not in tokens]
    if drafted is not None and children:
        num_possible = int(drafted.count_nonzero())  # 1 under greedy: no ranking of zeros
        likely = top_tokens(drafted, min(NUM_DRAFT_ODDS, num_possible))
        tokens += [token for token in likely if token not in tokens]
    own = None if end is None else end.verdict.next_token
    if own is not None and own not in tokens:
        tokens.append(own)
    chosen = scores[tokens]
    columns = zip(
        tokens,
        (chosen - scores.logsumexp(0)).exp().tolist(),
        chosen.clamp_min(LOWEST_LOGIT).tolist(),
        probs[tokens].tolist(),
        _values(drafted if children else None, tokens),
        _values(_residual(end), tokens),
        strict=True,
    )
    return tuple(
        TokenOdds(token, text.piece(token), softmax, logit, p, q, rest)
        for token, softmax, logit, p, q, rest in columns
    )


def _residual(end: Walk | None) -> Tensor | None:
    """What the last row's token was drawn from, if its children were refused."""
    if end is None or end.verdict.next_token_kind != "recovered":
        return None
    return end.last_residual


def _values(probs: Tensor | None, tokens: list[int]) -> list[float] | list[None]:
    if probs is None:
        return [None] * len(tokens)
    values: list[float] = probs[tokens].tolist()
    return values
