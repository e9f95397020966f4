"""One lane: the round loop of one drafter on one prompt. Draft, read, verify, commit, observe.

There is one loop, for every drafter. The lane's clock counts only this work; turning it into a
trace event happens after the clock has stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.config import VerificationRule
from specviz.drafters.base import DraftContext, Drafter, GrownToken, Outcome, Proposal, settle
from specviz.engine.odds import row_odds, softmax_probs
from specviz.engine.stopping import Cut, StopRule
from specviz.engine.verify import Walk, verify, verify_one_hot
from specviz.lm.base import KVCache, LanguageModel, LMOutput
from specviz.lm.device import Laps, Stopwatch
from specviz.lm.sampling import Chance, Sampler
from specviz.lm.text import TokenText
from specviz.trace import Candidate, EndReason, RoundTrace, Verdict
from specviz.words import word


@dataclass(frozen=True, slots=True)
class LaneParts:
    """What a lane is made of. Model and text are shared between lanes, the rest is its own."""

    target: LanguageModel
    text: TokenText
    drafter: Drafter
    cache: KVCache  # every prompt token but the last
    features: Tensor | None  # (T - 1, F) of those tokens, for the drafter's taps
    sampler: Sampler
    chance: Chance
    rule: VerificationRule
    stop: StopRule


class Lane:
    def __init__(self, index: int, prompt_tokens: Sequence[int], parts: LaneParts) -> None:
        self.index = index
        self.parts = parts
        self.tokens = tuple(prompt_tokens)
        self.features = parts.features
        self.laps = Laps(parts.target.device)
        self.num_rounds = 0
        self.clock_seconds = 0.0
        self.end_reason: EndReason | None = None

    def start(self) -> float:
        """Let the drafter read the prompt; seconds it took."""
        context = self._context()
        watch = Stopwatch(self.parts.target.device)
        self.parts.drafter.start(context)
        seconds = watch.lap()
        settle(self.parts.drafter, context)
        return seconds

    def play_round(self) -> RoundTrace:
        """One pass of the target, and what came of it. FloatingPointError: logits that are no numbers."""
        parts, cached = self.parts, self.parts.cache.length
        assert cached == len(self.tokens) - 1, "only the root is outside the cache"
        # Another lane may have been here: making room for this one is no part of its round.
        parts.target.settle(parts.cache, parts.drafter.taps)
        context = self._context()
        settle(parts.drafter, context)
        self.laps.start()
        proposal = parts.drafter.propose(context)
        self.laps.mark()
        output = parts.target.read(proposal.tree, parts.cache, parts.drafter.taps)
        probs = PathProbs(parts.sampler, self.tokens, proposal, output.logits)
        probs.fetch()
        self.laps.mark()
        whole, residual = self._verified(proposal, probs)
        tokens = _new_tokens(proposal, whole)
        cut = parts.stop.offer(tokens)
        verdict = whole.cut(cut.num_tokens, proposal.tree)
        self._commit(tokens[: cut.num_tokens], verdict, output)
        self.laps.mark()
        parts.drafter.observe(self._outcome(proposal, verdict, output))
        self.laps.mark()
        self.end_reason = cut.reason
        if residual is None:
            residual = probs((0, *whole.accepted_rows)[-1])
        round_ = self._traced(proposal, Walk(verdict, residual), output, probs, cut)
        self.clock_seconds += round_.seconds
        self.num_rounds += 1
        return round_

    def _verified(self, proposal: Proposal, probs: PathProbs) -> tuple[Verdict, Tensor | None]:
        """The verdict, and what its last token was drawn from; None: p itself, a one-hot."""
        parts, tree = self.parts, proposal.tree
        if probs.is_one_hot and proposal.child_probs is None:
            return verify_one_hot(parts.rule, tree, probs.favourite, parts.chance), None
        walk = verify(
            parts.rule, tree, probs, proposal.child_probs, parts.chance, parts.cache.length
        )
        return walk.verdict, walk.last_residual

    def _context(self) -> DraftContext:
        return DraftContext(
            tokens=self.tokens,
            features=self.features,
            sampling=self.parts.sampler,
            chance=self.parts.chance,
            max_depth=self.parts.stop.num_left - 1,
        )

    def _commit(self, tokens: tuple[int, ...], verdict: Verdict, output: LMOutput) -> None:
        # A stop on a draft token leaves that token the root: it is committed, but not cached.
        rows = (0, *verdict.accepted_rows)[: len(tokens)]
        self.parts.cache.keep(rows)
        self.tokens += tokens
        if output.features is not None:
            kept = output.features[list(rows)]
            self.features = kept if self.features is None else torch.cat((self.features, kept))

    def _outcome(self, proposal: Proposal, verdict: Verdict, output: LMOutput) -> Outcome:
        rows = [0, *verdict.accepted_rows]
        return Outcome(
            tree=proposal.tree,
            verdict=verdict,
            new_tokens=_new_tokens(proposal, verdict),
            features=None if output.features is None else output.features[rows],
            logits=output.logits,
        )

    def _traced(
        self,
        proposal: Proposal,
        walk: Walk,
        output: LMOutput,
        probs: PathProbs,
        cut: Cut,
    ) -> RoundTrace:
        text, tree, verdict = self.parts.text, proposal.tree, walk.verdict
        new_tokens = _new_tokens(proposal, verdict)
        logits = output.logits[:, : text.num_known_tokens]
        odds = row_odds(proposal, walk, logits, probs, text)
        # That waited for the device, so it has passed all marks, and no mark had to be waited for.
        draft, verify, commit, observe = self.laps.seconds(4)
        return RoundTrace(
            lane=self.index,
            index=self.num_rounds,
            tree=tree,
            texts=tuple(map(text.piece, tree.tokens)),
            verdict=verdict,
            new_tokens=new_tokens,
            new_texts=tuple(map(text.piece, new_tokens)),
            text=cut.text,
            draft_probs=proposal.draft_probs,
            softmax_probs=softmax_probs(tree, logits),
            odds=odds[: len(new_tokens)],
            cache_length=len(self.tokens) - len(new_tokens) - 1,
            rows_written=len(tree),
            rows_kept=len(new_tokens),
            draft_seconds=draft + observe,
            draft_step_seconds=proposal.step_seconds,
            verify_seconds=verify,
            commit_seconds=commit,
            candidates=tuple(_candidate(grown, text) for grown in proposal.candidates),
            notes=proposal.notes,
        )


class PathProbs:
    """p(. | path) of any row of a round, made when it is first asked for."""

    def __init__(
        self, sampler: Sampler, tokens: tuple[int, ...], proposal: Proposal, logits: Tensor
    ) -> None:
        self.sampler, self.tokens, self.tree, self.logits = sampler, tokens, proposal.tree, logits
        # All of p is then told by its likeliest token, and a vector of the vocabulary need not move.
        self.is_one_hot = sampler.is_one_hot
        self._rows: dict[int, Tensor] = {}
        self._favourites: dict[int, int] = {}

    def __call__(self, row: int) -> Tensor:
        """(V,) float64."""
        if row not in self._rows:
            path = self.tokens + self.tree.path_tokens(row)
            self._rows[row] = self.sampler.probs(self.logits[row], path)
        return self._rows[row]

    def fetch(self) -> None:
        """Bring the likeliest tokens of all rows here, if that means waiting for a device: once."""
        if self.is_one_hot and self.logits.device.type != "cpu":
            self._fetch(range(len(self.tree)), self.logits)

    def favourite(self, row: int) -> int:
        """The token on which p is, if it is one-hot. FloatingPointError as `Sampler.probs`."""
        if row not in self._favourites:
            self._fetch([row], self.logits[row, None])
        if (token := self._favourites[row]) < 0:
            raise FloatingPointError(word("failure.scores"))
        return token

    def _fetch(self, rows: Iterable[int], logits: Tensor) -> None:
        best = logits[:, : self.sampler.num_known_tokens].max(-1)  # the lowest id among equals
        tokens = torch.where(best.values.isfinite(), best.indices, -1)
        self._favourites.update(zip(rows, tokens.tolist(), strict=True))


def _new_tokens(proposal: Proposal, verdict: Verdict) -> tuple[int, ...]:
    drafted = tuple(proposal.tree.tokens[row] for row in verdict.accepted_rows)
    return drafted if verdict.next_token is None else (*drafted, verdict.next_token)


def _candidate(grown: GrownToken, text: TokenText) -> Candidate:
    return Candidate(
        token=grown.token,
        text=text.piece(grown.token),
        parent=grown.parent,
        depth=grown.depth,
        score=grown.score,
        draft_step=grown.draft_step,
        is_kept=grown.is_kept,
    )
