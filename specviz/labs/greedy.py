"""Greedy speculative decoding with two tables for models: the rule and the formula against counts.

Both models look at the last two tokens. The draft is the target with noise on its scores, so how
often they agree is set by how loud the noise is. Leviathan et al. 2023 (arXiv:2211.17192).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from specviz.labs.source import source_of
from specviz.theory import expected_tokens, fit_alpha

NUM_TOKENS = 48
NUM_PROMPTS = 30
ANSWER_LENGTH = 40  # tokens; a table runs in circles before long, so answers are short and many
Model: TypeAlias = Callable[[list[int]], int]  # the text so far -> the likeliest next token
Break: TypeAlias = Literal["none", "keep_all", "draft_word"]


@dataclass(frozen=True, slots=True)
class GreedyCount:
    """What one draft length gave over all prompts."""

    num_draft_tokens: int
    num_passes: int  # of the target: one a round
    num_tokens: int
    num_accepted: int
    num_same: int  # answers that are the target's own, token by token
    alpha: float  # fitted to the rounds
    formula: float  # E[tokens per pass] at that alpha

    @property
    def counted(self) -> float:
        """Tokens per pass."""
        return self.num_tokens / self.num_passes


def models(seed: int, noise: float) -> tuple[Model, Model]:
    """Target and draft. noise: standard deviations of what is added to scores that have one of 1."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(NUM_TOKENS, NUM_TOKENS, NUM_TOKENS))
    best = scores.argmax(-1)
    guess = (scores + noise * rng.normal(size=scores.shape)).argmax(-1)
    return (
        lambda text: int(best[text[-2], text[-1]]),
        lambda text: int(guess[text[-2], text[-1]]),
    )


def play_round(
    target: Model, draft: Model, text: list[int], num_draft_tokens: int, broken: Break = "none"
) -> tuple[list[int], int]:
    """(new tokens, guesses kept): one round at temperature 0."""
    guesses: list[int] = []
    for _ in range(num_draft_tokens):
        guesses.append(draft(text + guesses))
    # One pass of the target: what it would write after each prefix of the guesses.
    own = [target(text + guesses[:i]) for i in range(num_draft_tokens + 1)]
    kept = 0
    while kept < num_draft_tokens and (guesses[kept] == own[kept] or broken == "keep_all"):
        kept += 1
    if broken == "draft_word" and kept < num_draft_tokens:
        return guesses[: kept + 1], kept  # the guess that was refused, instead of the target's word
    return [*guesses[:kept], own[kept]], kept


def plain(target: Model, prompt: list[int], num_tokens: int) -> list[int]:
    """The target alone, one pass a token."""
    text = list(prompt)
    for _ in range(num_tokens):
        text.append(target(text))
    return text[len(prompt) :]


def count(
    pair: tuple[Model, Model], num_draft_tokens: int, seed: int, broken: Break = "none"
) -> GreedyCount:
    """All prompts at one draft length. seed: of the prompts."""
    target, draft = pair
    prompts = np.random.default_rng(seed).integers(NUM_TOKENS, size=(NUM_PROMPTS, 2)).tolist()
    accepted: list[int] = []
    num_tokens = num_same = 0
    for prompt in prompts:
        text = list(prompt)
        while len(text) < ANSWER_LENGTH + 2:
            new, kept = play_round(target, draft, text, num_draft_tokens, broken)
            text += new
            accepted.append(kept)
        num_tokens += len(text) - 2
        answer = text[2 : ANSWER_LENGTH + 2]
        num_same += answer == plain(target, prompt, ANSWER_LENGTH)
    alpha = fit_alpha(accepted, [num_draft_tokens] * len(accepted))
    rate = alpha.rate if alpha else 0.0
    return GreedyCount(
        num_draft_tokens,
        num_passes=len(accepted),
        num_tokens=num_tokens,
        num_accepted=sum(accepted),
        num_same=num_same,
        alpha=rate,
        formula=expected_tokens(rate, num_draft_tokens),
    )


def sweep(
    seed: int, noise: float, max_draft_tokens: int, broken: Break = "none"
) -> tuple[GreedyCount, ...]:
    """`count` for each draft length from 1 on."""
    pair = models(seed, noise)
    return tuple(count(pair, k, seed + 1, broken) for k in range(1, max_draft_tokens + 1))


def code() -> str:
    """What the page shows of this lab's code."""
    return source_of(play_round)
