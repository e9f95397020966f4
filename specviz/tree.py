"""DraftTree: every row the target model reads in one round.

Rows are in topological order (parents first), so one left-to-right pass gives depths,
paths and the attention mask. Row 0 is the root: the last committed token, whose keys
and values are not cached yet. A chain is a tree, a Medusa tree is a tree, lookahead's
window with its guesses is a tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DraftTree:
    tokens: tuple[int, ...]  # (N,) token id of each row
    parents: tuple[int, ...]  # (N,) row of the parent, -1 for the root
    num_lookahead_rows: int = 0  # trailing rows that are read but can never be accepted

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.parents) or self.parents[:1] != (-1,):
            raise ValueError("a tree needs one parent per token, and -1 for the root")
        if any(not 0 <= parent < row for row, parent in enumerate(self.parents[1:], start=1)):
            raise ValueError("each parent must come before its child")
        if not 0 <= self.num_lookahead_rows < len(self.tokens):
            raise ValueError("the root itself is never a lookahead row")
        end = self.num_draft_tokens + 1
        drafted = set(zip(self.parents[1:end], self.tokens[1:end], strict=True))
        if len(drafted) != self.num_draft_tokens:
            raise ValueError("siblings must differ: a token is drafted once under its parent")

    @classmethod
    def chain(cls, root: int, draft: Sequence[int] = ()) -> DraftTree:
        """One path: a draft model, an n-gram match, EAGLE with top_k = 1. Empty: plain decoding."""
        return cls((root, *draft), tuple(range(-1, len(draft))))

    @classmethod
    def from_paths(cls, root: int, paths: Iterable[Sequence[int]]) -> DraftTree:
        """Merge paths that share a prefix, so that siblings always differ.

        root 1, paths [(2, 3), (2, 4), (5,)] -> tokens (1, 2, 3, 4, 5), parents (-1, 0, 1, 1, 0)
        """
        tokens, parents = [root], [-1]
        rows: dict[tuple[int, int], int] = {}  # (parent row, token) -> row
        for path in paths:
            parent = 0
            for token in path:
                if (parent, token) not in rows:
                    rows[parent, token] = len(tokens)
                    tokens.append(token)
                    parents.append(parent)
                parent = rows[parent, token]
        return cls(tuple(tokens), tuple(parents))

    def __len__(self) -> int:
        """N, the rows of the pass, root and lookahead rows included."""
        return len(self.tokens)

    @property
    def num_draft_tokens(self) -> int:
        """Rows that can be accepted: all but the root and the lookahead rows."""
        return len(self.tokens) - 1 - self.num_lookahead_rows

    @property
    def is_chain(self) -> bool:
        """One path without branches: a plain causal mask is its tree mask."""
        return self.parents == tuple(range(-1, len(self.parents) - 1))

    @property
    def depths(self) -> tuple[int, ...]:
        """(N,) distance from the root; a row's position id is the root's plus this."""
        depths = [0]
        for parent in self.parents[1:]:
            depths.append(depths[parent] + 1)
        return tuple(depths)

    def children(self, row: int) -> tuple[int, ...]:
        """Draft rows under `row`, in the drafter's order of preference."""
        end = self.num_draft_tokens + 1
        return tuple(i for i in range(row + 1, end) if self.parents[i] == row)

    def path(self, row: int) -> tuple[int, ...]:
        """Rows from the root down to `row`, both included: what that row may attend to."""
        rows = []
        while row >= 0:
            rows.append(row)
            row = self.parents[row]
        return tuple(reversed(rows))

    def path_tokens(self, row: int) -> tuple[int, ...]:
        """Tokens below the root on the way to `row`, that row's own token last."""
        return tuple(self.tokens[i] for i in self.path(row)[1:])
