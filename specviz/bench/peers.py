"""Peers: what others' code writes on the same prompts, with the same weights, in the same process.

Here is what a peer is and how its answer becomes a record; `stock_peers.py` makes those of
transformers. A peer is no lane: it has no rounds of ours, only an answer, its seconds and a count
of the target's passes. It always writes as many tokens as our plain lane did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from specviz.bench.lane_run import LaneRun
from specviz.bench.prompts import BenchPrompt
from specviz.bench.records import Parting, Record
from specviz.metrics import Difference, Tally, answer_tokens


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    lane: str  # of ours, at equal drafts
    how: str  # what it is called with, for people
    dtype: str  # what it computes in: the faster one for this very peer, here
    speeds: dict[str, float]  # tokens per second in each dtype that was tried


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    tokens: tuple[int, ...]
    seconds: float  # of the whole call, the prompt's read included
    num_passes: int  # of the target


class Peers(Protocol):
    """Those that can be run here."""

    @property
    def peers(self) -> Sequence[Peer]:
        """Plain `generate` first."""

    @property
    def left_out(self) -> dict[str, str]:
        """Peer -> why it cannot be run."""

    def answer(self, peer: Peer, prompt: Sequence[int], num_tokens: int) -> PeerAnswer:
        """Exactly so many tokens after the prompt's. ValueError: why there are none."""


def peer_record(peers: Peers, peer: Peer, prompt: BenchPrompt, plain: LaneRun | str) -> Record:
    """Of a prompt that our plain lane has just decoded; if it could not, why."""
    if isinstance(plain, str):
        return Record(prompt.name, prompt.category, peer.name, commit="", failure=plain)
    wanted = answer_tokens(plain.rounds)
    try:
        answer = peers.answer(peer, plain.start.prompt_tokens, len(wanted))
    except ValueError as error:
        return Record(prompt.name, prompt.category, peer.name, commit="", failure=str(error))
    return Record(
        prompt=prompt.name,
        category=prompt.category,
        lane=peer.name,
        commit=plain.start.commit,
        tally=Tally(num_rounds=answer.num_passes, num_tokens=len(answer.tokens)),
        parting=_parting(answer.tokens, plain),
        whole_seconds=answer.seconds,
    )


def _parting(theirs: Sequence[int], plain: LaneRun) -> Parting | None:
    """Where they leave our plain lane's answer, with how near to a tie our target was there."""
    ours = answer_tokens(plain.rounds)
    odds = [row for round_ in plain.rounds for row in round_.odds]
    for position, (a, b) in enumerate(zip(theirs, ours, strict=False)):
        if a != b:
            difference = Difference(position, odds[position])
            is_near_tie = difference.is_near_tie(plain.start.target.dtype)
            return Parting(position, difference.top_two_gap, is_near_tie)
    return None
