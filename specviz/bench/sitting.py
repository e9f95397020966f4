"""One sitting of a benchmark: lanes warmed up, peers loaded, prompts measured, as far as it comes.

The command and the page share it; each follows it by a `Watcher` and keeps its records in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from specviz.bench import CannotMeasureError
from specviz.bench.getting import Tell
from specviz.bench.lane_run import StoppedError
from specviz.bench.machine import load_average
from specviz.bench.peers import Peer, PeerAnswer, Peers
from specviz.bench.records import PartialFile
from specviz.bench.results import Results
from specviz.bench.run import Benchmark, Setup
from specviz.bench.stock_peers import DraftSource, StockPeers, stock_peers
from specviz.session import LiveSession

MakePeers: TypeAlias = Callable[[Setup], Peers]


def sit(
    benchmark: Benchmark,
    kept: PartialFile | None,
    make_peers: MakePeers | None = None,
    on_setup: Callable[[Setup], None] = lambda _: None,
) -> Results:
    """What was measured until the end, or until somebody stopped it.

    `on_setup` is told what can be measured as soon as that is known. StoppedError: nothing was
    measured before the stop. CannotMeasureError: a lane, the peers or every prompt failed.
    """
    load = load_average()
    setup = benchmark.warm_up()
    if make_peers is not None:
        setup = replace(setup, peers=make_peers(setup))
    on_setup(setup)
    records, is_complete = benchmark.measure(setup, kept)
    results = Results(benchmark.plan, setup, tuple(records), is_complete, load)
    if not results.num_prompts:
        if not is_complete:
            raise StoppedError
        raise CannotMeasureError(f"No prompt could be measured: {results.skipped[0][1]}")
    return results


@dataclass(frozen=True, slots=True)
class PeersInTurn:
    """Peers that answer in the engine's own thread: while one does, no visitor's run is under way."""

    session: LiveSession
    inner: StockPeers

    @property
    def peers(self) -> Sequence[Peer]:
        return self.inner.peers

    @property
    def left_out(self) -> dict[str, str]:
        return self.inner.left_out

    def answer(self, peer: Peer, prompt: Sequence[int], num_tokens: int) -> PeerAnswer:
        return self.session.in_turn(lambda: self.inner.answer(peer, prompt, num_tokens))


def peers_in_turn(session: LiveSession, target: str, num_tokens: int, tell: Tell) -> MakePeers:
    """Makes the peers of a session that others use, too."""

    def make(setup: Setup) -> Peers:
        drafts = DraftSource(session.draft, session.drafters, target)
        spec = session.target(target)
        load = lambda: stock_peers(spec, setup, drafts, num_tokens, tell)  # noqa: E731
        return PeersInTurn(session, session.in_turn(load))

    return make


def kept_folder() -> Path:
    """Where the page keeps what was measured: beside the checkpoints."""
    from specviz.lm.weights import cache_root

    return cache_root() / "benchmarks"
