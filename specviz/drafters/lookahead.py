"""Lookahead decoding: a Jacobi window and an n-gram pool (Fu et al. 2024, arXiv:2402.02057).

Draft rows are the pool's n-grams under the root. Lookahead rows are the window: W columns of
N - 1 levels, where (level, column) hangs under (level - 1, column) and level 0 is a path from
the root, which is its column 0: the mask of the reference code. Each pass gives every column
one more token, so each round yields up to W new n-grams of N tokens for the pool.
With N = 2 the window is one level and every guess one token: Jacobi iteration at its simplest.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import ClassVar

from specviz.config import Exactness
from specviz.drafters.base import DraftContext, Outcome, Proposal, TargetKit
from specviz.drafters.knobs import knob
from specviz.lm.base import FeatureTap
from specviz.lm.sampling import favourites
from specviz.tree import DraftTree
from specviz.words import word


@dataclass(frozen=True, slots=True)
class LookaheadConfig:
    window: int = knob(4, 1, 24, help="W: positions guessed ahead in parallel")
    ngram: int = knob(3, 2, 8, help="N: length of the n-grams collected and verified")
    guesses: int = knob(4, 1, 24, help="G: n-grams verified at most in a round")
    from_prompt: bool = knob(True, help="Also collect the n-grams of the prompt and the answer")


class Lookahead:
    Config: ClassVar[type] = LookaheadConfig
    title: ClassVar[str] = "Lookahead"
    summary: ClassVar[str] = (
        "No drafter: the target refines a window of guesses in the same pass that verifies "
        "n-grams it met on the way."
    )
    paper: ClassVar[str] = "Fu et al. 2024, arXiv:2402.02057"
    exactness: ClassVar[Exactness] = "exact"
    taps: tuple[FeatureTap, ...] = ()

    def __init__(self, config: LookaheadConfig, kit: TargetKit) -> None:
        self.config = config
        self.max_context = kit.max_context
        self.num_known_tokens = kit.num_known_tokens
        self.pool = NgramPool(config.guesses)
        self.window = JacobiWindow(config.window, config.ngram - 1)
        self.tail: list[int] = []  # the last N tokens of the text, for its own n-grams
        sizes = {"window": config.window, "ngram": config.ngram, "guesses": config.guesses}
        self.description = word("drafts.window", **sizes)

    def start(self, context: DraftContext) -> None:
        self._collect_from(context.tokens)
        size = self.config.window + self.config.ngram - 3
        prompt = context.tokens
        picks = [int(context.chance.uniform() * len(prompt)) for _ in range(max(size, 0))]
        self.window.fill([prompt[pick] for pick in picks])

    def propose(self, context: DraftContext) -> Proposal:
        root = context.tokens[-1]
        depth = min(self.config.ngram - 1, context.max_depth)
        guesses = [guess[:depth] for guess in self.pool.of(root)]
        tree = DraftTree.from_paths(root, guesses)
        # Some models keep positions in a table: a window past its end could not be looked up.
        fits = len(context.tokens) + self.window.depth <= self.max_context
        if context.max_depth > 0 and fits:
            tree = self.window.under(tree)
        notes = {"pool": str(len(self.pool)), "guesses": str(len(guesses))}
        return Proposal(tree, draft_probs=(1.0,) * len(tree), notes=notes)

    def observe(self, outcome: Outcome) -> None:
        tree = outcome.tree
        first = len(tree) - tree.num_lookahead_rows
        if tree.num_lookahead_rows or self.window.is_root_alone:
            rows = outcome.logits[[0, *range(first, len(tree))]]
            answers = favourites(rows[:, : self.num_known_tokens])
            for ngram in self.window.advance(tree.tokens[0], answers):
                self.pool.add(ngram)
        self._collect_from(outcome.new_tokens)

    def _collect_from(self, tokens: tuple[int, ...]) -> None:
        if not self.config.from_prompt:
            return
        for token in tokens:
            self.tail = [*self.tail, token][-self.config.ngram :]
            if len(self.tail) == self.config.ngram:
                self.pool.add(tuple(self.tail))


class NgramPool:
    """First token -> the latest few continuations; the oldest is dropped (LRU)."""

    def __init__(self, per_key: int) -> None:
        self.per_key = per_key
        self.continuations: dict[int, OrderedDict[tuple[int, ...], None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.continuations.values()))

    def add(self, ngram: tuple[int, ...]) -> None:
        entries = self.continuations.setdefault(ngram[0], OrderedDict())
        entries.pop(ngram[1:], None)
        entries[ngram[1:]] = None
        if len(entries) > self.per_key:
            entries.popitem(last=False)

    def of(self, token: int) -> list[tuple[int, ...]]:
        """Continuations of `token`, latest first."""
        return list(reversed(self.continuations.get(token, {})))


class JacobiWindow:
    """`num_levels` rows of W guesses; the root stands in for column 0 of level 0.

    While it fills, level 0 starts longer than W - 1 and loses its first token each round, so
    that all rows have W columns when the last level arrives (warm-up of the reference code).
    """

    def __init__(self, width: int, num_levels: int) -> None:
        self.width, self.num_levels = width, num_levels
        self.levels: list[list[int]] = [[]]

    def fill(self, tokens: list[int]) -> None:
        self.levels = [tokens]

    @property
    def is_root_alone(self) -> bool:
        """W = 1 and one level: the root itself is the whole window."""
        return self.levels == [[]]

    @property
    def is_full(self) -> bool:
        return len(self.levels) == self.num_levels

    @property
    def depth(self) -> int:
        """Of its deepest row below the root."""
        return max(len(tokens) - (level > 0) + level for level, tokens in enumerate(self.levels))

    def under(self, tree: DraftTree) -> DraftTree:
        """`tree` with the window's rows behind it, as lookahead rows."""
        tokens, parents = list(tree.tokens), list(tree.parents)
        above = [0]  # tree rows of the level above, column by column; the root is column 0
        for token in self.levels[0]:
            parents.append(above[-1])
            above.append(len(tokens))
            tokens.append(token)
        for level in self.levels[1:]:
            for column, token in enumerate(level):
                parents.append(above[column])
                above[column] = len(tokens)
                tokens.append(token)
        return DraftTree(tuple(tokens), tuple(parents), len(tokens) - len(tree))

    def advance(self, root: int, answers: list[int]) -> list[tuple[int, ...]]:
        """Take the target's favourites after the root and each window row; n-grams met on the way.

        answers: (1 + window rows,), the root's first.
        """
        last = self.levels[-1]
        new = answers[-len(last) :] if len(self.levels) > 1 else answers
        if self.is_full:
            heads = [root, *self.levels[0]]
            ngrams = list(zip(heads, *self.levels[1:], new, strict=True))
            self.levels = [*self.levels[1:], new]
            self.levels[0] = self.levels[0][1:]
            return ngrams
        self.levels = [level[1:] for level in self.levels] + [new[1:]]
        return []
