"""A request in, trace events out. Builds the parts of a run and lets the lanes race."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specviz.config import Request, TargetSpec, lane_names
from specviz.drafters import drafter_class
from specviz.drafters.base import Drafter, backbone_of
from specviz.engine.arena import race
from specviz.engine.budgets import lane_config
from specviz.engine.lane import Lane, LaneParts
from specviz.engine.probing import probe_all
from specviz.engine.stopping import StopRule
from specviz.engine.store import ModelStore, ReadyTarget
from specviz.lm.base import FeatureTap, KVCache, LanguageModel
from specviz.lm.device import Stopwatch, describe_machine, library_versions
from specviz.lm.sampling import Sampler, make_chance
from specviz.lm.text import encode_prompt
from specviz.trace import LaneStart, LaneTarget, Progress, RunEnd, RunStart, SessionEvent
from specviz.words import Refusal, message, recognised

PREFILL_CHUNK = 256  # tokens read between two looks at whether anybody still waits
MAX_ROWS = 512  # rows of one pass that a cache has room for behind the text


class Engine:
    """Runs one request at a time on one device. Not thread-safe: the session owns its thread."""

    def __init__(
        self,
        targets: Sequence[TargetSpec],
        draft_folder: Path | None = None,
        drafters_root: Path | None = None,
    ) -> None:
        self.targets = {spec.name: spec for spec in targets}
        self.store = ModelStore(draft_folder, drafters_root)

    def run(
        self, request: Request, is_cancelled: Callable[[], bool] = lambda: False
    ) -> Generator[SessionEvent, None, None]:
        """Progress, then the trace. ValueError, WeightsUnavailable: why the run cannot start."""
        target = yield from self.store.get(self.targets[request.target], request.precision)
        yield from self.store.bring_drafters(target, (lane.drafter for lane in request.lanes))
        watch = Stopwatch(self.store.device)
        run = _Run(request, target)
        yield from run.read_prompt()
        yield run.started()
        for lane in run.lanes:
            yield run.lane_started(lane)
        yield from race(run.lanes, is_cancelled)
        yield RunEnd(watch.lap())


@dataclass(frozen=True, slots=True)
class _PromptRead:
    """Every prompt token but the last, as one model read them; its lanes take a copy each."""

    lm: LanguageModel
    cache: KVCache
    features: dict[FeatureTap, Tensor]  # (T - 1, H) by tap
    seconds: float


class _Run:
    """What belongs to one run alone: tokens, caches, drafters. It dies with the run."""

    def __init__(self, request: Request, target: ReadyTarget) -> None:
        self.request, self.target = request, target
        self.tokens = encode_prompt(target.loaded.tokenizer, request.prompt, request.is_chat)
        _check_length(self.tokens, target)
        kit = target.kit()
        classes = [drafter_class(spec.drafter) for spec in request.lanes]
        self.configs: list[Any] = [
            lane_config(
                *(cls, spec, target.read_costs, kit.num_layers), is_adaptive=request.is_adaptive
            )
            for cls, spec in zip(classes, request.lanes, strict=True)
        ]
        self.drafters: list[Drafter] = [
            cls(config, kit) for cls, config in zip(classes, self.configs, strict=True)
        ]
        self.names = lane_names(request.lanes)
        self.lanes: list[Lane] = []
        self.prefill_seconds = 0.0
        self.drafter_prefill_seconds: list[float] = []

    def read_prompt(self) -> Iterator[Progress]:
        """One prefill per model for all its lanes, then each drafter's own; whoever listens may stop
        in between. ValueError: a lane's model cannot be had."""
        reads: dict[str, _PromptRead] = {}
        for backbone in dict.fromkeys(map(backbone_of, self.drafters)):
            if backbone:
                yield Progress("load", message("progress.tuned", method=backbone))
            reads[backbone] = yield from self._read_by(backbone)
        self.prefill_seconds = next(iter(reads.values())).seconds
        yield from probe_all(self.target, self.request.lanes, self.drafters)
        for index, drafter in enumerate(self.drafters):
            title = recognised(drafter.title, "drafter.")
            yield Progress("load", message("progress.drafter", title=title))
            self.lanes.append(self._lane(index, drafter, reads[backbone_of(drafter)]))
            self.drafter_prefill_seconds.append(self.lanes[index].start())

    def _read_by(self, backbone: str) -> Generator[Progress, None, _PromptRead]:
        lm, prompt = self.target.backbone(backbone), self.tokens[:-1]
        drafters = [drafter for drafter in self.drafters if backbone_of(drafter) == backbone]
        room = min(len(self.tokens) + self.request.max_new_tokens, lm.max_context)
        cache = lm.new_cache(room + MAX_ROWS)
        taps = list(dict.fromkeys(tap for drafter in drafters for tap in drafter.taps))
        watch, parts, seconds = Stopwatch(lm.device), list[Tensor | None](), 0.0
        for start in range(0, max(len(prompt), 1), PREFILL_CHUNK):
            read = {"done": f"{start:,}", "count": f"{len(prompt):,}"}
            yield Progress("load", message("progress.prompt", **read))
            watch.lap()
            parts.append(lm.prefill(prompt[start : start + PREFILL_CHUNK], cache, taps))
            seconds += watch.lap()
        features = [part for part in parts if part is not None]
        by_tap = torch.cat(features).chunk(len(taps), dim=-1) if features else ()
        return _PromptRead(lm, cache, dict(zip(taps, by_tap, strict=True)), seconds)

    def _lane(self, index: int, drafter: Drafter, read: _PromptRead) -> Lane:
        request, loaded = self.request, self.target.loaded
        own = [read.features[tap] for tap in drafter.taps]
        parts = LaneParts(
            target=read.lm,
            text=loaded.text,
            drafter=drafter,
            cache=read.cache.clone(),
            features=torch.cat(own, dim=-1) if own else None,
            sampler=Sampler(request.sampling, loaded.text.num_known_tokens),
            chance=make_chance(request.verification, request.seed),
            rule=request.verification,
            stop=StopRule(
                loaded.text,
                eos=loaded.eos,
                stop_strings=request.stop_strings,
                budget=request.max_new_tokens,
                room=read.lm.max_context - len(self.tokens),
            ),
        )
        return Lane(index, self.tokens, parts)

    def started(self) -> RunStart:
        loaded, lm = self.target.loaded, self.target.loaded.lm
        facts = LaneTarget(
            name=self.target.spec.title,
            source=self.target.source,
            architecture=loaded.architecture,
            num_parameters=lm.num_parameters,
            num_layers=lm.num_layers,
            vocab_size=lm.vocab_size,
            device=str(lm.device),
            dtype=str(lm.dtype).removeprefix("torch."),
            quantisation=loaded.quantisation,
            path=lm.path,
        )
        return RunStart(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            request=self.request,
            target=facts,
            prompt_tokens=tuple(self.tokens),
            prompt_texts=tuple(map(loaded.text.piece, self.tokens)),
            prefill_seconds=self.prefill_seconds,
            machine=describe_machine(lm.device),
            versions=library_versions(),
            commit=_commit(),
            read_costs=self.target.read_costs,
        )

    def lane_started(self, lane: Lane) -> LaneStart:
        spec, drafter = self.request.lanes[lane.index], self.drafters[lane.index]
        config = self.configs[lane.index]
        return LaneStart(
            lane=lane.index,
            name=self.names[lane.index],
            drafter=spec.drafter,
            title=drafter.title,
            description=drafter.description,
            knobs={name: getattr(config, name) for name in config.__slots__},
            exactness=drafter.exactness,
            verification=self.request.verification,
            sampling=self.request.sampling,
            drafter_prefill_seconds=self.drafter_prefill_seconds[lane.index],
            backbone=backbone_of(drafter),
        )


def _check_length(tokens: Sequence[int], target: ReadyTarget) -> None:
    limit = target.loaded.lm.max_context
    if len(tokens) >= limit:
        counts = {"count": f"{len(tokens):,}", "limit": f"{limit:,}"}
        raise Refusal(message("refusal.context", target=target.spec.title, **counts))


def _commit() -> str:
    """The commit this code runs from, or "" outside a git checkout."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip()
