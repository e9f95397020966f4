"""Lookahead against a second, straightforward implementation of its window, pool and mask.

The reference keeps the paper's rows R_0 .. R_(N-2) and asks for each cell's favourite with the
cell's own context written out; ours reads a tree. After every step both must hold the same.
"""

from __future__ import annotations

import zlib

import pytest
import torch
from torch import Tensor

from specviz.config import SamplingParams
from specviz.drafters.base import DraftContext, Outcome, Proposal
from specviz.drafters.lookahead import JacobiWindow, Lookahead, LookaheadConfig, NgramPool
from specviz.lm.attention import visible_rows
from specviz.lm.sampling import FreeChance, Sampler
from specviz.trace import Verdict
from specviz.tree import DraftTree
from tests.engine.lanes import PLAIN, Setup, kit_of, registered
from tests.engine.tables import TableLM, random_table

V = 11
PROMPT = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3]


def favourite(text: list[int]) -> int:
    """What the target says after `text`: anything, but always the same, and the whole text counts."""
    return zlib.crc32(bytes(text[-4:] + [len(text) % 3])) % V


class Reference:
    """Rows, pool and steps as the method's authors describe them (positions p + r + q)."""

    def __init__(self, first: list[int], width: int, ngram: int, guesses: int) -> None:
        self.rows = [list(first)]
        self.width, self.ngram, self.guesses = width, ngram, guesses
        self.pool: dict[int, list[tuple[int, ...]]] = {}

    def add(self, gram: tuple[int, ...]) -> None:
        known = self.pool.setdefault(gram[0], [])
        if gram[1:] in known:
            known.remove(gram[1:])
        known.append(gram[1:])
        del known[: -self.guesses]

    def cell_context(self, text: list[int], row: int, column: int) -> list[int]:
        """The committed text, columns 0..q of row 0 (c is column 0), column q of rows 1..r."""
        above = [self.rows[r][column] for r in range(1, row + 1)]
        return [*text, *self.rows[0][:column], *above]

    def step(self, text: list[int]) -> None:
        last, c = len(self.rows) - 1, text[-1]
        if len(self.rows) == self.ngram - 1:
            new = [favourite(self.cell_context(text, last, q)) for q in range(self.width)]
            for q in range(self.width):
                key = c if q == 0 else self.rows[0][q - 1]
                self.add((key, *(row[q] for row in self.rows[1:]), new[q]))
            self.rows = [*self.rows[1:], new]
            self.rows[0] = self.rows[0][1:]
        elif len(self.rows) == 1:
            count = len(self.rows[0])
            new = [favourite([*text, *self.rows[0][: i + 1]]) for i in range(count)]
            self.rows = [self.rows[0][1:], new]
        else:
            columns = range(1, len(self.rows[last]))
            new = [favourite(self.cell_context(text, last, q)) for q in columns]
            self.rows = [*(row[1:] for row in self.rows), new]

    def best_match(self, text: list[int]) -> list[int]:
        """The longest run of a guess that the target would say, then its own token."""
        best: list[int] = []
        for guess in self.pool.get(text[-1], []):
            said: list[int] = []
            while len(said) < len(guess) and favourite([*text, *said]) == guess[len(said)]:
                said.append(guess[len(said)])
            best = max(best, said, key=len)
        return [*best, favourite([*text, *best])]


def context_of(text: list[int], max_depth: int = 50) -> DraftContext:
    sampler = Sampler(SamplingParams(), V)
    return DraftContext(tuple(text), None, sampler, FreeChance(3), max_depth)


def logits_of(tree: DraftTree, text: list[int]) -> Tensor:
    """(N, V): each row's favourite after the path that it may see."""
    said = [favourite([*text, *tree.path_tokens(row)]) for row in range(len(tree))]
    return torch.nn.functional.one_hot(torch.tensor(said), V).float()


def observed(proposal: Proposal, text: list[int], new: list[int]) -> Outcome:
    verdict = Verdict((), new[-1], "bonus", (), ())
    return Outcome(proposal.tree, verdict, tuple(new), None, logits_of(proposal.tree, text))


@pytest.mark.parametrize("from_prompt", [False, True])
@pytest.mark.parametrize("guesses", [1, 3])
@pytest.mark.parametrize(
    ("width", "ngram"), [(1, 2), (5, 2), (1, 3), (4, 3), (4, 4), (2, 6), (7, 5), (1, 8)]
)
def test_window_pool_and_guesses_agree(
    width: int, ngram: int, guesses: int, from_prompt: bool
) -> None:
    config = LookaheadConfig(width, ngram, guesses, from_prompt)
    drafter = Lookahead(config, kit_of(random_table(V)))
    text = list(PROMPT)
    drafter.start(context_of(text))
    first = drafter.window.levels[0]
    assert len(first) == width + ngram - 3
    assert set(first) <= set(PROMPT)
    reference = Reference(first, width, ngram, guesses)

    def collect(start: int) -> None:
        for end in range(max(start, ngram) if from_prompt else len(text) + 1, len(text) + 1):
            reference.add(tuple(text[end - ngram : end]))

    collect(0)
    for _ in range(20):
        proposal = drafter.propose(context_of(text))
        drafts = {proposal.tree.path_tokens(row) for row in range(1, len(proposal.tree))}
        wanted = reference.pool.get(text[-1], [])
        assert set(wanted) <= drafts
        assert proposal.notes["guesses"] == str(len(wanted))
        window = [token for row in reference.rows for token in row]
        rows = len(proposal.tree) - proposal.tree.num_lookahead_rows
        assert list(proposal.tree.tokens[rows:]) == window
        new = reference.best_match(text)
        outcome = observed(proposal, text, new)
        reference.step(text)
        length = len(text)
        text += new
        collect(length + 1)
        drafter.observe(outcome)
        assert drafter.window.levels == reference.rows
        ours = {key: list(grams) for key, grams in drafter.pool.continuations.items()}
        assert ours == reference.pool


def test_the_first_rounds_fill_the_window() -> None:
    """W - 1, W, .., W columns after N - 2 rounds, from W + N - 3 tokens at first."""
    window = JacobiWindow(4, 3)
    window.fill(list(range(5)))
    sizes = []
    for _ in range(4):
        sizes.append([len(level) for level in window.levels])
        tree = window.under(DraftTree.chain(9))
        window.advance(9, list(range(1 + tree.num_lookahead_rows)))
    assert sizes == [[5], [4, 5], [3, 4, 4], [3, 4, 4]]


PRINTED = """
#................. c
##................ R0
###...............
####..............
#...#............. R1
##...#............
###...#...........
####...#..........
#...#...#......... R2
##...#...#........
###...#...#.......
####...#...#......
#...........#..... guess 1
#...........##....
#...........###...
#..............#.. guess 2
#..............##.
#..............###
"""


def test_the_mask_is_the_published_one() -> None:
    """W = 4, N = 4, two guesses. Ours puts the guesses before the window; else it is the table."""
    window = JacobiWindow(4, 3)
    window.levels = [[20, 21, 22], [30, 31, 32, 33], [40, 41, 42, 43]]
    tree = window.under(DraftTree.from_paths(1, [(2, 3, 4), (5, 6, 7)]))
    order = [0, *range(7, 18), *range(1, 7)]
    mask = visible_rows(tree)[order][:, order]
    drawn = ["".join(".#"[int(seen)] for seen in row) for row in mask]
    assert drawn == [line.split()[0] for line in PRINTED.split("\n") if line]
    depths = [tree.depths[row] for row in order]
    assert depths == [0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 1, 2, 3, 1, 2, 3]  # r + q, and 1 + j
    assert window.depth == max(depths)


def test_the_pool_forgets_the_oldest_of_a_key() -> None:
    pool = NgramPool(2)
    for gram in ((1, 2), (1, 3), (5, 2), (1, 2), (1, 4)):
        pool.add(gram)
    assert pool.of(1) == [(4,), (2,)]  # (1, 2) was met again, so (1, 3) was the oldest
    assert pool.of(5) == [(2,)]
    assert pool.of(9) == []
    assert len(pool) == 3


def test_the_end_of_the_budget_needs_no_window() -> None:
    drafter = Lookahead(LookaheadConfig(), kit_of(random_table(V)))
    drafter.start(context_of(PROMPT))
    assert drafter.propose(context_of(PROMPT, 0)).tree == DraftTree.chain(PROMPT[-1])


@pytest.mark.parametrize("width", [1, 3, 12])
def test_jacobi_is_greedy(width: int) -> None:
    """N = 2: every guess is one token, and the text is still the target's own."""
    for seed in range(5):
        setup = Setup(random_table(V, seed=seed), [1, 2, 3], 40)
        knobs = {"window": width, "ngram": 2, "from_prompt": False}
        assert setup.answer(registered("lookahead", knobs)) == setup.answer(PLAIN)


def test_lookahead_gets_ahead() -> None:
    """A model that counts in a circle is guessed right after a few rounds, with no prompt to copy."""
    table = random_table(V).table * 0
    for last in range(V):
        table[:, last, (last + 1) % V] = 9.0
    setup = Setup(TableLM(table), [0, 1], 60)
    rounds = setup.play(registered("lookahead", {"from_prompt": False, "window": 5, "ngram": 4}))
    assert len(rounds) < 40
    assert max(len(r.verdict.accepted_rows) for r in rounds) == 3
