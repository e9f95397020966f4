"""`bench gpu`: what the engine makes of a GPU, on weights it makes itself, within a few minutes.

For each model: does the captured path read as the plain one does, what share of the memory's
bandwidth does plain decoding reach, what do reads of more rows cost, what does a round cost at a
stated acceptance, each with CUDA graphs and without. A miniature of the same runs on a CPU, where
nothing is captured. Engine and torch are imported inside the calls.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from specviz import metrics
from specviz.bench import CannotMeasureError
from specviz.bench.getting import Tell
from specviz.bench.gpu_drafters import DrafterTable, measure_drafters
from specviz.bench.gpu_plan import GpuPlan, ModelPlan, ReplayPlan
from specviz.bench.gpu_replay import ScriptedDrafter, Stage, drafting_kit, replayed, script_of
from specviz.bench.machine import Machine, describe_here
from specviz.bench.passes import Equality, compare_reads
from specviz.config import TargetSpec

if TYPE_CHECKING:
    from torch import device as Device

    from specviz.lm.base import LanguageModel
    from specviz.lm.graphs import Recorder
    from specviz.lm.plain import PlainLM
    from specviz.lm.reads import ReadCost
    from specviz.lm.synthetic import LlamaShape

# Accepted tokens per round, again and again: a mean of 2.75, as chat gives a good drafter.
LENGTHS = (1, 2, 3, 4, 2, 5, 3, 3, 4, 2, 0, 4)
WARM_UP_ROUNDS = 3
COPY_ROUNDS = 5
# Bytes per second of main memory, by the name of the card: what its maker promises.
PROMISED = {
    "B200": 8.0e12,
    "H200": 4.8e12,
    "H100 PCIe": 2.0e12,
    "H100": 3.35e12,
    "A100-SXM4-80": 2.04e12,
    "A100": 1.55e12,
    "L40S": 0.864e12,
    "RTX 4090": 1.01e12,
    "RTX 3090": 0.936e12,
}


@dataclass(frozen=True, slots=True)
class Decoding:
    """Plain decoding, one token a round, by one path."""

    path: str
    milliseconds: float  # per token, median
    bytes_per_second: float  # of weights
    share_of_copying: float  # of the bandwidth a large copy reached
    share_of_promised: float | None  # of what the card's maker says; None: not known here


@dataclass(frozen=True, slots=True)
class Replay:
    plan: ReplayPlan
    path: str
    tau: float
    rho: float
    speedup: float
    draft_milliseconds: float  # per round, as the two below
    verify_milliseconds: float
    commit_milliseconds: float
    draft_step_milliseconds: float | None


@dataclass(frozen=True, slots=True)
class ModelReport:
    name: str
    dtype: str
    form: str
    num_parameters: int
    read_bytes: int  # of weights, by a pass
    largest_gap: float  # between the logits of both paths, as a share of their spread
    equalities: tuple[Equality, ...]  # of trees and one-row decoding, by the captured path
    decoding: dict[str, Decoding]  # "graphs" ("called" on a CPU), "eager"
    reads: dict[str, tuple[ReadCost, ...]]
    replays: dict[str, tuple[Replay, ...]]
    seconds: float  # all this took


@dataclass(slots=True)
class GpuReport:
    machine: Machine
    copy_bytes_per_second: float
    promised_bytes_per_second: float | None
    lengths: tuple[int, ...]
    models: list[ModelReport] = field(default_factory=list)
    drafters: DrafterTable | None = None
    skipped: dict[str, str] = field(default_factory=dict)  # model: why
    seconds: float = 0.0


def measure_gpu(plan: GpuPlan, tell: Tell) -> GpuReport:
    """Models one after another, as long as there is time."""
    from specviz.lm.device import pick_device

    started, device = time.perf_counter(), pick_device()
    machine = describe_here()
    report = GpuReport(
        machine=machine,
        copy_bytes_per_second=copy_speed(device, plan.copy_bytes),
        promised_bytes_per_second=promised_speed(machine.description),
        lengths=LENGTHS,
    )
    for model in plan.models:
        reason = _why_not(model, time.perf_counter() - started, plan)
        if reason is not None:
            report.skipped[model.name] = reason
            continue
        tell(f"{model.name}: made, compared, timed.")
        try:
            report.models.append(_measured(model, plan, report, device))
        except (RuntimeError, ValueError) as error:  # one model's fault is not the others'
            report.skipped[model.name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        _free(device)
    if plan.drafters_on is not None:
        _add_drafters(plan.drafters_on, plan, report, started, tell)
    report.seconds = time.perf_counter() - started
    return report


def _add_drafters(
    target: TargetSpec, plan: GpuPlan, report: GpuReport, started: float, tell: Tell
) -> None:
    def is_over() -> bool:
        return time.perf_counter() - started > plan.last_seconds

    tell(f"{target.title} with its drafters.")
    try:
        found = measure_drafters(target, plan.num_prompts, plan.num_tokens, tell, is_over)
    except CannotMeasureError as error:
        found = str(error)
    if isinstance(found, str):
        report.skipped[f"{target.title} with its drafters"] = found
    else:
        report.drafters = found


def copy_speed(device: Device, num_bytes: int) -> float:
    """Bytes per second, read and written, of the fastest of a few large copies."""
    import torch

    from specviz.lm.device import Stopwatch

    source = torch.zeros(num_bytes, dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    laps = []
    for _ in range(COPY_ROUNDS):
        watch = Stopwatch(device)
        target.copy_(source)
        laps.append(watch.lap())
    return 2 * num_bytes / min(laps)


def promised_speed(description: str) -> float | None:
    return next((speed for name, speed in PROMISED.items() if name in description), None)


def _why_not(model: ModelPlan, seconds: float, plan: GpuPlan) -> str | None:
    from importlib.util import find_spec

    if seconds > plan.seconds:
        return f"{seconds:.0f} of {plan.seconds:.0f} seconds were gone"
    if model.form == "nf4" and find_spec("bitsandbytes") is None:
        return "bitsandbytes is not installed"
    return None


def _measured(model: ModelPlan, plan: GpuPlan, report: GpuReport, device: Device) -> ModelReport:
    import torch

    from specviz.lm.graphed import graphed, largest_gap
    from specviz.lm.graphs import EagerRecorder, best_recorder
    from specviz.lm.reads import read_costs
    from specviz.lm.synthetic import random_llama, read_bytes

    started = time.perf_counter()
    plain = random_llama(
        model.shape,
        device=device,
        dtype=torch.bfloat16 if model.is_half else torch.float32,
        form=model.form,
        context=plan.max_context,
    )
    num_bytes = read_bytes(plain)
    # A CPU captures nothing, but the passes are the same.
    recorder = EagerRecorder() if device.type == "cpu" else best_recorder(device)
    fast = graphed(plain, recorder)
    paths: dict[str, LanguageModel] = {"eager": plain}
    if fast is not plain:
        paths = {"called" if device.type == "cpu" else "graphs": fast, "eager": plain}
    text = script_of(plan.context, plain.vocab_size)
    plays = {
        name: _Plays(lm, plain, model.shape, plan, None if lm is plain else recorder)
        for name, lm in paths.items()
    }
    return ModelReport(
        name=model.name,
        dtype=str(plain.dtype).removeprefix("torch."),
        form=model.form,
        num_parameters=plain.num_parameters,
        read_bytes=num_bytes,
        largest_gap=largest_gap(fast, plain),
        equalities=tuple(compare_reads(fast, text, plan.num_tokens // 4, plan.shapes)),
        decoding={name: _decoding(play, num_bytes, report) for name, play in plays.items()},
        reads={
            name: tuple(read_costs(lm, text, plan.row_counts, plan.num_rounds))
            for name, lm in paths.items()
        },
        replays={name: tuple(play.replays()) for name, play in plays.items()},
        seconds=time.perf_counter() - started,
    )


class _Plays:
    """Replays of one model by one path, beside its own plain decoding."""

    def __init__(
        self,
        lm: LanguageModel,
        plain: PlainLM,
        shape: LlamaShape,
        plan: GpuPlan,
        recorder: Recorder | None,
    ) -> None:
        """recorder: what captures the drafter's work."""
        from specviz.lm.synthetic import numbered_tokenizer, random_eagle3
        from specviz.lm.text import TokenText

        self.plan, self.lm = plan, lm
        longest = max(replay.num_rows for replay in plan.replays)
        script = script_of(plan.context + plan.num_tokens + longest + 1, lm.vocab_size)
        text = TokenText(numbered_tokenizer(lm.vocab_size))
        self.stage = Stage(lm, text, script, plan.context)
        self.kit = drafting_kit(lm, random_eagle3(plain, shape, plan.num_draft_tokens), recorder)
        self.plain = self._rounds(ReplayPlan("plain", 1))

    def replays(self) -> Iterator[Replay]:
        for plan in self.plan.replays:
            rounds = self._rounds(plan)
            split, count = metrics.time_split(rounds), len(rounds)
            steps = [second for round_ in rounds for second in round_.draft_step_seconds]
            yield Replay(
                plan=plan,
                path=self.lm.path,
                tau=metrics.mean_acceptance_length(rounds),
                rho=metrics.rho(rounds, self.plain),
                speedup=metrics.speedup(rounds, self.plain),
                draft_milliseconds=1000 * split.draft_seconds / count,
                verify_milliseconds=1000 * split.verify_seconds / count,
                commit_milliseconds=1000 * split.commit_seconds / count,
                draft_step_milliseconds=1000 * mean(steps) if steps else None,
            )

    def _rounds(self, plan: ReplayPlan) -> list[Any]:
        """Without the first few, in which libraries choose their kernels."""
        inside = None
        if plan.num_draft_steps:
            from specviz.drafters.eagle3 import Eagle3

            config: Any = Eagle3.Config(
                top_k=plan.top_k, depth=plan.num_draft_steps, budget=plan.num_rows
            )
            inside = Eagle3(config, self.kit)
        drafter = ScriptedDrafter(self.stage.script, LENGTHS, plan.num_rows, inside)
        return replayed(self.stage, drafter, self.plan.num_tokens)[WARM_UP_ROUNDS:]


def _decoding(play: _Plays, num_bytes: int, report: GpuReport) -> Decoding:
    seconds = median(round_.seconds for round_ in play.plain)
    speed, promised = num_bytes / seconds, report.promised_bytes_per_second
    return Decoding(
        path=play.lm.path,
        milliseconds=1000 * seconds,
        bytes_per_second=speed,
        share_of_copying=speed / report.copy_bytes_per_second,
        share_of_promised=None if promised is None else speed / promised,
    )


def _free(device: Device) -> None:
    import torch

    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
