"""Does a drafter that was just loaded fit its target? Its first guess on a short text, against the
target's own next token.

A drafter of another target, or of another chat template, has the right shapes, decodes losslessly,
and never guesses right: nothing else would tell. A few dozen small passes; nothing is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from specviz.config import SamplingParams
from specviz.drafters.base import DraftContext, Drafter, Proposal
from specviz.lm.base import FeatureTap, LanguageModel
from specviz.lm.sampling import Sampler, make_chance
from specviz.lm.text import encode_prompt

QUESTION = "What is the capital of France, and what is it known for?"
ANSWER = (
    "The capital of France is Paris. It is known for the Eiffel Tower, the Louvre, its cafes and "
    "its long history as a center of art, fashion and science."
)
NUM_PLACES = 24
SUSPICIOUS_SHARE = 0.05  # a drafter that fits is right at a third of the places and more


@dataclass(frozen=True, slots=True)
class Agreement:
    num_right: int
    num_asked: int

    @property
    def is_suspicious(self) -> bool:
        return self.num_asked > 0 and self.num_right <= SUSPICIOUS_SHARE * self.num_asked


def probe_tokens(tokenizer: Any, max_context: int) -> tuple[list[int], int]:
    """The text in the target's own form, and how many of its tokens the question takes."""
    question = encode_prompt(tokenizer, QUESTION, bool(tokenizer.chat_template))
    answer = tokenizer.encode(ANSWER, add_special_tokens=False)
    tokens = [*question, *answer][: max_context - 1]
    return tokens, min(len(question), len(tokens) // 2)


def first_agreement(
    drafter: Drafter, lm: LanguageModel, tokens: Sequence[int], start: int, num_known_tokens: int
) -> Agreement:
    """Of guesses behind the tokens from `start` on, at places spread evenly; lm is what verifies.

    The drafter is started; start it again before a lane. Places where it drafts nothing do not
    count.
    """
    taps = (*drafter.taps, FeatureTap("normed"))
    states = lm.prefill(tokens, lm.new_cache(len(tokens) + 1), taps)
    assert states is not None, "taps were asked for"
    own, normed = states[:, : -lm.hidden_size], states[:, -lm.hidden_size :]
    features = own if drafter.taps else None
    first = _context(tokens[: start + 1], features, num_known_tokens)
    drafter.start(replace(first, max_depth=len(tokens)))  # room for all the text
    asked, right = 0, 0
    for place in _places(start, len(tokens) - 1):
        context = _context(tokens[: place + 1], features, num_known_tokens)
        guess = _first(drafter.propose(context))
        if guess is not None:
            wanted = lm.head(normed[place : place + 1])[0, :num_known_tokens].argmax()
            asked, right = asked + 1, right + (guess == int(wanted))
    return Agreement(right, asked)


def _places(first: int, last: int) -> list[int]:
    """At most NUM_PLACES, spread evenly, both ends among them."""
    gap = (last - first) / (NUM_PLACES - 1)
    return sorted({round(first + i * gap) for i in range(NUM_PLACES)})


def _context(tokens: Sequence[int], states: Tensor | None, num_known_tokens: int) -> DraftContext:
    """As a lane would give it before a round whose root is the last token."""
    features = None if states is None else states[: len(tokens) - 1]
    sampler = Sampler(SamplingParams(), num_known_tokens)
    return DraftContext(tuple(tokens), features, sampler, make_chance("rejection", 0), max_depth=1)


def _first(proposal: Proposal) -> int | None:
    """The token it is surest of behind the root."""
    tree = proposal.tree
    best = max(tree.children(0), key=lambda row: proposal.draft_probs[row], default=None)
    return None if best is None else tree.tokens[best]
