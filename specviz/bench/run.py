"""`bench run`: lanes alone, one run each per prompt, interleaved prompt by prompt.

Every lane decodes a prompt before the next prompt begins, and a different lane goes first each
time, so a machine that drifts drifts on all lanes. What the numbers are is said in `results.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from specviz.bench import CannotMeasureError
from specviz.bench.lane_run import LaneFailedError, LaneRun, StoppedError, run_lane
from specviz.bench.peers import Peers, peer_record
from specviz.bench.prompts import BenchPrompt, fingerprint
from specviz.bench.records import PartialFile, Parting, Record
from specviz.config import PLAIN_DRAFTER, Catalog, LaneSpec, Request, checked, lane_names
from specviz.metrics import first_difference, tally
from specviz.session import Session
from specviz.trace import LaneStart, Progress, RunStart

PLAIN = LaneSpec(PLAIN_DRAFTER)
WARM_UP_PROMPT = "Name the seasons, one after another, and say what each is like."
WARM_UP_TOKENS = 24


class Watcher(Protocol):
    """Whoever follows the measuring."""

    def progress(self, event: Progress) -> None:
        """While the target is fetched and loaded."""

    def tell(self, sentence: str) -> None: ...
    def advance(self, num_done: int, num_runs: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    request: Request  # every run's, but for its prompt and its lane
    lanes: tuple[LaneSpec, ...]  # plain decoding among them
    is_every_drafter: bool  # then those that cannot run here are left out
    prompts: tuple[BenchPrompt, ...]  # in the order they are measured
    is_with_peers: bool = False

    def settings(self) -> dict[str, object]:
        """Two plans with the same settings measure the same."""
        request = self.request
        return {
            "prompts": fingerprint(self.prompts),
            "budget": request.max_new_tokens,
            "lanes": "all" if self.is_every_drafter else lane_names(self.lanes),
            "target": request.target,
            "precision": request.precision,
            "seed": request.seed,
            "is_chat": request.is_chat,
            **({"peers": True} if self.is_with_peers else {}),
        }


@dataclass(frozen=True, slots=True)
class BenchLane:
    name: str
    spec: LaneSpec
    start: LaneStart  # what it said of itself when it was warmed up
    baseline: str  # the lane it is compared with: plain decoding of the same backbone


@dataclass(frozen=True, slots=True)
class Setup:
    """What can be measured here, known once every lane is warm."""

    start: RunStart  # machine, versions, target: as any trace names them
    lanes: tuple[BenchLane, ...]
    left_out: dict[str, str]  # lane -> why it cannot run
    peers: Peers | None = None  # loaded and warm, where they were asked for

    @property
    def names(self) -> list[str]:
        """Of everything that is measured on each prompt."""
        peers = () if self.peers is None else self.peers.peers
        return [lane.name for lane in self.lanes] + [peer.name for peer in peers]

    def place(self) -> dict[str, object]:
        """Where it is measured, and with what: measurements of two places do not mix."""
        target = self.start.target
        weights = [target.source, target.device, target.dtype, target.path]
        versions = self.start.versions
        return {"machine": self.start.machine, "versions": versions, "weights": weights}


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One session that measures one plan, until it is done or stopped."""

    session: Session
    plan: Plan
    watcher: Watcher
    is_stopped: Callable[[], bool]

    def warm_up(self) -> Setup:
        """One unmeasured run per lane. CannotMeasureError: a lane that was asked for cannot run."""
        runs: dict[LaneSpec, LaneRun] = {}
        left_out: dict[str, str] = {}
        budget = min(WARM_UP_TOKENS, self.plan.request.max_new_tokens)
        waiting = list(self.plan.lanes)
        while waiting:
            spec = waiting.pop(0)
            if runs:
                self.watcher.tell(f"Warming up {spec.drafter}.")
            request = replace(self.plan.request, lanes=(spec,), max_new_tokens=budget)
            try:
                # What the first lane loads, all lanes use.
                listener = _nobody if runs else self.watcher.progress
                runs[spec] = run_lane(self.session, request, self.is_stopped, listener)
            except LaneFailedError as error:
                if not self.plan.is_every_drafter or spec.drafter == PLAIN.drafter:
                    raise CannotMeasureError(str(error)) from error
                left_out[spec.drafter] = str(error)
                self.watcher.tell(f"{spec.drafter} is left out: {error}")
                continue
            own = _baseline(runs[spec].lane)
            if own not in runs and own not in waiting:
                waiting.append(own)
        return Setup(runs[PLAIN].start, _bench_lanes(runs), left_out)

    def measure(self, setup: Setup, kept: PartialFile | None) -> tuple[list[Record], bool]:
        """Records in order of measurement, and whether they are all that the plan asks for."""
        records = self._resumed(setup, kept)
        num_runs = len(self.plan.prompts) * len(setup.names)
        done = {record.prompt for record in records}
        self.watcher.advance(len(records), num_runs)
        for index, prompt in enumerate(self.plan.prompts):
            if prompt.name in done:
                continue
            try:
                new = self._measure_prompt(setup, index, len(records))
            except StoppedError:
                return records, False
            for failure in dict.fromkeys(record.failure for record in new if record.failure):
                lanes = [record.lane for record in new if record.failure == failure]
                who = "" if len(lanes) == len(new) else f" by {', '.join(lanes)}"
                self.watcher.tell(f"Prompt {prompt.name} is skipped{who}: {failure}")
            records += new
            if kept is not None:
                kept.add(new)
        return records, True

    def _resumed(self, setup: Setup, kept: PartialFile | None) -> list[Record]:
        """What is kept of whole prompts. Those with a failure are tried again."""
        if kept is None:
            return []
        settings = {**self.plan.settings(), **setup.place()}
        earlier = kept.load(settings)
        wanted = set(setup.names)
        lanes: dict[str, set[str]] = {}
        for record in earlier:
            if not record.failure:
                lanes.setdefault(record.prompt, set()).add(record.lane)
        whole = [r for r in earlier if lanes.get(r.prompt, set()) >= wanted and r.lane in wanted]
        if whole:
            num_prompts = len({record.prompt for record in whole})
            self.watcher.tell(
                f"Going on where an earlier sitting stopped: {num_prompts} of "
                f"{len(self.plan.prompts)} prompts are measured."
            )
        kept.begin(settings, whole)
        return whole

    def _measure_prompt(self, setup: Setup, index: int, num_done: int) -> list[Record]:
        prompt, count = self.plan.prompts[index], len(setup.lanes)
        num_runs = len(self.plan.prompts) * len(setup.names)
        found: dict[str, LaneRun | str] = {}
        for turn in range(count):
            lane = setup.lanes[(index + turn) % count]
            try:
                found[lane.name] = self._run(prompt, lane)
            except (LaneFailedError, ValueError) as error:
                found[lane.name] = str(error)
            self.watcher.advance(num_done + turn + 1, num_runs)
        records = [_record(prompt, lane, found) for lane in setup.lanes]
        if setup.peers is None:
            return records
        # After our lanes, as they write as many tokens as the plain one did.
        peers, plain = setup.peers.peers, found[setup.lanes[0].name]
        for turn in range(len(peers)):
            if self.is_stopped():
                raise StoppedError
            peer = peers[(index + turn) % len(peers)]
            records.append(peer_record(setup.peers, peer, prompt, plain))
            self.watcher.advance(num_done + count + turn + 1, num_runs)
        return records

    def _run(self, prompt: BenchPrompt, lane: BenchLane) -> LaneRun:
        """LaneFailedError. ValueError: the prompt is longer than any that is read."""
        request = replace(self.plan.request, prompt=prompt.text, lanes=(lane.spec,))
        return run_lane(self.session, request, self.is_stopped)


def planned_lanes(
    asked: Sequence[LaneSpec] | None, request: Request, catalog: Catalog
) -> tuple[LaneSpec, ...]:
    """Plain decoding, then the lanes asked for (None: every drafter). ValueError: there is no such."""
    if asked is None:  # unchecked: one without weights is left out with the reason, not refused
        found = [LaneSpec(info.name) for info in catalog.drafters]
    else:
        found = [checked(replace(request, lanes=(spec,)), catalog).lanes[0] for spec in asked]
    if len(set(found)) != len(found):
        raise ValueError("Two lanes are the same; change a knob of one or remove it.")
    return (PLAIN, *(spec for spec in found if spec != PLAIN))


def _nobody(event: Progress) -> None:
    del event


def _baseline(lane: LaneStart) -> LaneSpec:
    """Plain decoding of what decodes in the lane: the target, or a method's tuned model."""
    knobs = (("backbone", lane.backbone),) if lane.backbone else ()
    return LaneSpec(PLAIN.drafter, knobs)


def _bench_lanes(runs: dict[LaneSpec, LaneRun]) -> tuple[BenchLane, ...]:
    """Baselines first, so that a table begins with them."""
    specs = sorted(runs, key=lambda spec: spec.drafter != PLAIN.drafter)
    names = dict(zip(specs, lane_names(specs), strict=True))
    return tuple(
        BenchLane(names[spec], spec, runs[spec].lane, names[_baseline(runs[spec].lane)])
        for spec in specs
    )


def _record(prompt: BenchPrompt, lane: BenchLane, found: dict[str, LaneRun | str]) -> Record:
    run, baseline = found[lane.name], found[lane.baseline]
    if isinstance(run, str):
        return Record(prompt.name, prompt.category, lane.name, commit="", failure=run)
    steps = [seconds for round_ in run.rounds for seconds in round_.draft_step_seconds]
    return Record(
        prompt=prompt.name,
        category=prompt.category,
        lane=lane.name,
        commit=run.start.commit,
        tally=tally(run.rounds),
        prefill_seconds=run.start.prefill_seconds + run.lane.drafter_prefill_seconds,
        num_draft_steps=len(steps),
        draft_step_seconds=sum(steps),
        parting=None if isinstance(baseline, str) else _parting(run, baseline),
    )


def _parting(run: LaneRun, baseline: LaneRun) -> Parting | None:
    difference = first_difference(run.rounds, baseline.rounds)
    if difference is None:
        return None
    is_near_tie = difference.is_near_tie(run.start.target.dtype)
    return Parting(difference.position, difference.top_two_gap, is_near_tie)
