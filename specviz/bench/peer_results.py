"""What records say of a peer, beside the lane of ours that drafts as many tokens.

Both sides' seconds run from the prompt's tokens to the whole answer, prefill included: the peer's
are those of its call, ours the prefill's and the lane's own clock, recording left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specviz.bench.peers import Peer
from specviz.bench.records import Parting, Record
from specviz.metrics import Spread, spread


@dataclass(frozen=True, slots=True)
class PeerResult:
    """One peer over the prompts it answered. Numbers are None where there is nothing to compare."""

    peer: Peer
    records: tuple[Record, ...]
    ours: Mapping[str, Record]  # by prompt: the lane at equal drafts
    generate: Mapping[str, Record]  # by prompt: plain `generate`

    @property
    def num_tokens(self) -> int:
        return sum(r.tally.num_tokens for r in self.records)

    @property
    def seconds(self) -> float:
        return sum(answer_seconds(r) for r in self.records)

    @property
    def tau(self) -> float | None:
        """Tokens per pass of the target, the pass that reads the prompt included."""
        num_passes = sum(r.tally.num_rounds for r in self.records)
        return self.num_tokens / num_passes if num_passes else None

    @property
    def tokens_per_second(self) -> float | None:
        return self.num_tokens / self.seconds if self.records else None

    @property
    def our_speedup(self) -> Spread | None:
        """How many times as fast our lane is, prompt by prompt."""
        return _spread([_ratio(ours, theirs) for theirs, ours in self._pairs(self.ours)])

    @property
    def our_total_speedup(self) -> float | None:
        pairs = self._pairs(self.ours)
        if not pairs:
            return None
        theirs, ours = zip(*pairs, strict=True)
        return _speed(ours) / _speed(theirs)

    @property
    def over_generate(self) -> Spread | None:
        """How many times as fast as plain `generate` the peer itself is, prompt by prompt."""
        return _spread([_ratio(theirs, plain) for theirs, plain in self._pairs(self.generate)])

    @property
    def num_identical(self) -> int:
        """Answers that are our plain lane's."""
        return sum(r.parting is None for r in self.records)

    @property
    def partings(self) -> dict[str, Parting]:
        return {r.prompt: r.parting for r in self.records if r.parting is not None}

    def _pairs(self, others: Mapping[str, Record]) -> list[tuple[Record, Record]]:
        found = ((r, others.get(r.prompt)) for r in self.records)
        return [(record, other) for record, other in found if other is not None]


def answer_seconds(record: Record) -> float:
    """From the prompt's tokens to the whole answer."""
    if record.whole_seconds is not None:
        return record.whole_seconds
    return record.prefill_seconds + record.tally.time.seconds


def _ratio(one: Record, other: Record) -> float:
    """How many times as fast `one` is."""
    return _speed([one]) / _speed([other])


def _speed(records: Sequence[Record]) -> float:
    """Tokens per second."""
    tokens = sum(r.tally.num_tokens for r in records)
    return tokens / sum(answer_seconds(r) for r in records)


def _spread(values: Sequence[float]) -> Spread | None:
    return spread(values) if values else None
