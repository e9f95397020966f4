"""Which drafted rows survive. Losslessness is decided here and nowhere else.

Rejection sampling: Leviathan et al. 2023 (arXiv:2211.17192, Algorithm 1) and Chen et al. 2023
(arXiv:2302.01318). Several children per row: SpecInfer (arXiv:2305.09781). Coupled sampling: the
target draws its own token with the noise of that position, and a draft token is kept iff it is
that token; the output has the target's distribution whatever was drafted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.config import VerificationRule
from specviz.lm.sampling import Chance
from specviz.trace import NextTokenKind, RowStatus, Trial, Verdict
from specviz.tree import DraftTree

RowProbs = Callable[[int], Tensor]  # row -> (V,) float64 p(. | path to the row)


@dataclass(frozen=True, slots=True)
class Walk:
    """A verdict, and the distribution its next token was drawn from."""

    verdict: Verdict
    last_residual: Tensor  # (V,) p at the last row, less what rejected children used up


def verify(
    rule: VerificationRule,
    tree: DraftTree,
    target_probs: RowProbs,
    child_probs: Tensor | None,
    chance: Chance,
    root_position: int,
) -> Walk:
    """Walk down from the root, accepting at most one child of each row.

    child_probs: (N, V) q, what the row's children were drawn from, without replacement; None if
    they were chosen deterministically, which makes q a point mass on each.
    root_position: the root's index in the text; a row at depth d stands at root_position + d.
    """
    notes = _Notes(tree)
    row, depth = 0, 0
    while True:
        position = root_position + depth + 1
        probs = target_probs(row)
        children = tree.children(row)
        if rule == "coupled":
            step = _coupled_step(notes, children, probs, chance, position)
        else:
            q = None if child_probs is None else child_probs[row]
            step = _rejection_step(notes, children, probs, q, chance, position)
        if step.survivor is None:
            kind: NextTokenKind = "recovered" if children else "bonus"
            return Walk(notes.verdict(step.next_token, kind), step.residual)
        row, depth = step.survivor, depth + 1


def verify_one_hot(
    rule: VerificationRule, tree: DraftTree, favourite: Callable[[int], int], chance: Chance
) -> Verdict:
    """`verify` of a target whose distributions are one-hot on `favourite` of a row, and of children
    that were chosen deterministically: the same verdict after the same draws, without a vector.

    A rejected child had no share of a one-hot, so p stays what it was, to the last sibling.
    """
    notes, row = _Notes(tree), 0
    while True:
        own, children = favourite(row), tree.children(row)
        survivor = next((c for c in children if _is_own(notes, rule, c, own, chance)), None)
        if survivor is None:
            if rule == "rejection":
                chance.uniform()  # with which the last token would be drawn
            return notes.verdict(own, "recovered" if children else "bonus")
        row = survivor


@dataclass(frozen=True, slots=True)
class _Step:
    survivor: int | None  # the child to walk on to
    next_token: int  # the target's own token if there is none
    residual: Tensor


class _Notes:
    """What the walk has decided so far."""

    def __init__(self, tree: DraftTree) -> None:
        num_rows = len(tree)
        self.tree = tree
        self.status: list[RowStatus] = ["unreached"] * num_rows
        self.status[0] = "root"
        for row in range(num_rows - tree.num_lookahead_rows, num_rows):
            self.status[row] = "lookahead"
        self.probs: list[float | None] = [None] * num_rows
        self.trials: list[Trial] = []
        self.accepted: list[int] = []

    def note(self, trial: Trial, prob: float) -> None:
        self.probs[trial.row] = prob
        self.trials.append(trial)
        self.status[trial.row] = "accepted" if trial.is_accepted else "rejected"
        if trial.is_accepted:
            self.accepted.append(trial.row)

    def verdict(self, next_token: int, kind: NextTokenKind) -> Verdict:
        return Verdict(
            accepted_rows=tuple(self.accepted),
            next_token=next_token,
            next_token_kind=kind,
            row_status=tuple(self.status),
            target_probs=tuple(self.probs),
            trials=tuple(self.trials),
        )


def _is_own(notes: _Notes, rule: VerificationRule, child: int, own: int, chance: Chance) -> bool:
    """Try a child against the one token that has mass."""
    is_own = notes.tree.tokens[child] == own
    p, draw = float(is_own), None if rule == "coupled" else chance.uniform()
    notes.note(Trial(child, 1.0, p, p, draw, is_own), p)
    return is_own


def _rejection_step(
    notes: _Notes,
    children: tuple[int, ...],
    probs: Tensor,
    child_probs: Tensor | None,
    chance: Chance,
    position: int,
) -> _Step:
    residual, proposal = probs, child_probs
    for child in children:
        token = notes.tree.tokens[child]
        p, q = float(residual[token]), 1.0 if proposal is None else float(proposal[token])
        threshold = min(1.0, p / q) if q > 0.0 else 0.0
        draw = chance.uniform()
        trial = Trial(child, q, p, threshold, draw, draw < threshold)
        notes.note(trial, float(probs[token]))
        if trial.is_accepted:
            return _Step(child, token, residual)
        residual, proposal = _after_rejection(residual, proposal, token)
    return _Step(None, chance.token(residual, position), residual)


def _coupled_step(
    notes: _Notes, children: tuple[int, ...], probs: Tensor, chance: Chance, position: int
) -> _Step:
    own = chance.token(probs, position)
    for child in children:
        token = notes.tree.tokens[child]
        p = float(probs[token])
        trial = Trial(child, 1.0, p, p, None, token == own)
        notes.note(trial, p)
        if trial.is_accepted:
            return _Step(child, token, probs)
    return _Step(None, own, probs)


def _after_rejection(
    residual: Tensor, proposal: Tensor | None, token: int
) -> tuple[Tensor, Tensor | None]:
    """norm(max(0, p - q)), and q without the token that was rejected."""
    # A rejected token must not be drawn again, so p loses it before the next sibling is tried.
    used = torch.tensor([token])
    if proposal is None:
        return _normalised(residual.index_fill(0, used, 0.0), residual), None
    rest = (residual - proposal).clamp_min(0.0)
    unused = proposal.index_fill(0, used, 0.0)
    return _normalised(rest, residual), _normalised(unused, proposal)


def _normalised(weights: Tensor, fallback: Tensor) -> Tensor:
    total = float(weights.sum())
    return weights / total if total > 0.0 else fallback  # zero only by rounding
