"""Copy what followed the last time these tokens appeared (prompt lookup decoding, Saxena 2023).

No model drafts: the text so far is its own drafter. The longest match wins, the latest
occurrence among equals; with no match it abstains, and the round is a plain step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from specviz.config import Exactness
from specviz.drafters.base import DraftContext, Outcome, Proposal, TargetKit
from specviz.drafters.knobs import knob
from specviz.lm.base import FeatureTap
from specviz.tree import DraftTree
from specviz.words import Refusal, message, word


@dataclass(frozen=True, slots=True)
class PromptLookupConfig:
    max_ngram: int = knob(3, 1, 8, help="Longest run of last tokens to look for in the text so far")
    min_ngram: int = knob(1, 1, 8, help="Shortest run that counts as a match")
    num_draft_tokens: int = knob(8, 1, 32, help="Tokens copied from behind the match")


class PromptLookup:
    Config: ClassVar[type] = PromptLookupConfig
    title: ClassVar[str] = "Prompt lookup"
    summary: ClassVar[str] = (
        "Looks for the last few tokens earlier in the text and drafts what followed them there."
    )
    paper: ClassVar[str] = "Saxena 2023, prompt lookup decoding"
    exactness: ClassVar[Exactness] = "exact"
    taps: tuple[FeatureTap, ...] = ()

    def __init__(self, config: PromptLookupConfig, kit: TargetKit) -> None:
        del kit
        if config.min_ngram > config.max_ngram:
            lengths = {"least": config.min_ngram, "most": config.max_ngram}
            raise Refusal(message("refusal.match_lengths", **lengths))
        self.config = config
        self.index = NgramIndex(config.min_ngram, config.max_ngram)
        self.description = word("drafts.copied")

    def start(self, context: DraftContext) -> None:
        self.index.extend(context.tokens)

    def propose(self, context: DraftContext) -> Proposal:
        match = self.index.latest_match()
        count = min(self.config.num_draft_tokens, context.max_depth)
        draft = context.tokens[match.end : match.end + count] if match else ()
        tree = DraftTree.chain(context.tokens[-1], draft)
        notes = {} if match is None else {"match": f"{match.end - match.start}@{match.start}"}
        return Proposal(tree, draft_probs=(1.0,) * len(tree), notes=notes)

    def observe(self, outcome: Outcome) -> None:
        self.index.extend(outcome.new_tokens)


@dataclass(frozen=True, slots=True)
class Match:
    """tokens[start:end] equal the last tokens; what followed begins at `end`."""

    start: int
    end: int


class NgramIndex:
    """Where each n-gram of a growing text last ended, so that a lookup costs a few dict reads."""

    def __init__(self, shortest: int, longest: int) -> None:
        self.sizes = range(longest, shortest - 1, -1)
        self.tokens: list[int] = []
        self.ends: dict[tuple[int, ...], int] = {}  # of n-grams that something follows

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            end = len(self.tokens)  # what ended here is followed by `token` now
            for size in self.sizes:
                if size <= end:
                    self.ends[tuple(self.tokens[end - size :])] = end
            self.tokens.append(token)

    def latest_match(self) -> Match | None:
        for size in self.sizes:
            if size <= len(self.tokens):
                end = self.ends.get(tuple(self.tokens[-size:]))
                if end is not None:
                    return Match(end - size, end)
        return None
