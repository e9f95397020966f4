"""What records say of each lane. The numbers themselves are defined in `metrics.py`.

Ratios are taken prompt by prompt against the lane's baseline, then their median and quartiles;
totals divide sums over the same prompts. Seconds are those of rounds: prefill stands apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from specviz.bench.peer_results import PeerResult
from specviz.bench.records import Parting, Record
from specviz.bench.run import BenchLane, Plan, Setup
from specviz.metrics import Spread, Tally, spread


@dataclass(frozen=True, slots=True)
class LaneResult:
    """One lane over the prompts it decoded. Numbers are None where it decoded none."""

    lane: BenchLane
    records: tuple[Record, ...]
    baselines: dict[str, Record]  # by prompt: what the lane's baseline measured

    def of_category(self, category: str) -> LaneResult:
        return replace(self, records=tuple(r for r in self.records if r.category == category))

    @property
    def total(self) -> Tally:
        return _sum(self.records)

    @property
    def tau(self) -> float | None:
        return self.total.tau if self.records else None

    @property
    def speedup(self) -> Spread | None:
        return _spread([ours.tally.speedup(plain.tally) for ours, plain in self.pairs])

    @property
    def rho(self) -> Spread | None:
        return _spread([ours.tally.rho(plain.tally) for ours, plain in self.pairs])

    @property
    def total_speedup(self) -> float | None:
        ours, plain = self._totals()
        return ours.speedup(plain) if ours.num_rounds else None

    @property
    def total_rho(self) -> float | None:
        """tau / total_rho = total_speedup, where every prompt has a baseline."""
        ours, plain = self._totals()
        return ours.rho(plain) if ours.num_rounds else None

    @property
    def prefill_seconds(self) -> float:
        """Of target and drafter, before the lane's clock starts."""
        return sum(record.prefill_seconds for record in self.records)

    @property
    def num_compared(self) -> int:
        """Prompts that the baseline decoded too."""
        return len(self.pairs)

    @property
    def num_identical(self) -> int:
        """Prompts whose answer is the baseline's, as far as both go."""
        return sum(ours.parting is None for ours, _ in self.pairs)

    @property
    def partings(self) -> dict[str, Parting]:
        return {r.prompt: r.parting for r in self.records if r.parting is not None}

    @property
    def pairs(self) -> list[tuple[Record, Record]]:
        """(ours, the baseline's) of every prompt that both decoded."""
        found = ((ours, self.baselines.get(ours.prompt)) for ours in self.records)
        return [(ours, plain) for ours, plain in found if plain is not None]

    def _totals(self) -> tuple[Tally, Tally]:
        pairs = self.pairs
        return _sum([ours for ours, _ in pairs]), _sum([plain for _, plain in pairs])


@dataclass(frozen=True, slots=True)
class Results:
    """A benchmark as far as it came."""

    plan: Plan
    setup: Setup
    records: tuple[Record, ...]
    is_complete: bool
    load_average: float | None  # of the machine, when the measuring began

    @property
    def lanes(self) -> dict[str, LaneResult]:
        by_lane: dict[str, dict[str, Record]] = {lane.name: {} for lane in self.setup.lanes}
        for record in self.records:
            if not record.failure and record.lane in by_lane:
                by_lane[record.lane][record.prompt] = record
        return {
            lane.name: LaneResult(lane, tuple(by_lane[lane.name].values()), by_lane[lane.baseline])
            for lane in self.setup.lanes
        }

    @property
    def peers(self) -> dict[str, PeerResult]:
        peers = () if self.setup.peers is None else self.setup.peers.peers
        by_name: dict[str, dict[str, Record]] = {name: {} for name in self.setup.names}
        for record in self.records:
            if not record.failure:
                by_name[record.lane][record.prompt] = record
        return {
            peer.name: PeerResult(
                peer=peer,
                records=tuple(by_name[peer.name].values()),
                ours=by_name[peer.lane],
                generate=by_name[peers[0].name],
            )
            for peer in peers
        }

    @property
    def categories(self) -> list[str]:
        """Of the prompts that any lane decoded, in the order of measurement."""
        return list(dict.fromkeys(r.category for r in self.records if not r.failure))

    @property
    def num_prompts(self) -> int:
        """Prompts that any lane decoded."""
        return len({record.prompt for record in self.records if not record.failure})

    @property
    def skipped(self) -> list[tuple[str, str, list[str]]]:
        """(prompt, reason, lanes that gave it), for every prompt that not all lanes decoded."""
        lanes: dict[tuple[str, str], list[str]] = {}
        for record in self.records:
            if record.failure:
                lanes.setdefault((record.prompt, record.failure), []).append(record.lane)
        return [(prompt, reason, names) for (prompt, reason), names in lanes.items()]

    @property
    def commits(self) -> list[str]:
        """Of the code that measured; more than one if sittings ran different code."""
        return sorted({r.commit for r in self.records if r.commit})


def _sum(records: Sequence[Record]) -> Tally:
    return sum((record.tally for record in records), Tally())


def _spread(values: Sequence[float]) -> Spread | None:
    return spread(values) if values else None
