"""`bench engine`: how good is the engine itself, before any drafter?

One process, everything that is compared interleaved, medians of ratios, so that a machine that
drifts drifts on both sides. Engine and transformers are imported inside the calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from specviz.bench.generate import Generate, fastest
from specviz.bench.getting import Tell, finished
from specviz.bench.lanes import LaneTiming, time_lane
from specviz.bench.machine import load_average
from specviz.bench.passes import Equality, ReadShape, compare_reads
from specviz.config import PLAIN_DRAFTER, LaneSpec, Request, TargetSpec
from specviz.trace import RunStart

if TYPE_CHECKING:
    from specviz.engine import Engine
    from specviz.engine.store import ReadyTarget
    from specviz.lm.reads import ReadCost

PROMPTS = (
    "Tell a long story about a gardener who finds an old map under a pear tree.",
    "Explain in detail how a bicycle stays upright, for a curious child.",
    "Write a Python class for a bank account, with comments on every line.",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    num_tokens: int  # of a timed answer, at most
    num_alternations: int  # ours against theirs
    num_dtype_tries: int
    row_counts: tuple[int, ...]  # of timed reads; 1, 16 and 32 are always among them
    contexts: tuple[int, ...]  # tokens cached before them
    num_rounds: int  # of timed reads
    num_compared_tokens: int  # of each text that is read again in larger passes
    shapes: tuple[ReadShape, ...]  # of those passes


FULL = Plan(
    num_tokens=64,
    num_alternations=7,
    num_dtype_tries=2,
    row_counts=(1, 2, 4, 8, 16, 32, 64),
    contexts=(64, 256),
    num_rounds=30,
    num_compared_tokens=64,
    shapes=tuple(
        ReadShape(depth, decoys)
        for depth, decoys in ((3, 0), (7, 0), (15, 0), (31, 0), (7, 1), (15, 1), (5, 5), (21, 2))
    ),
)
QUICK = Plan(
    num_tokens=8,
    num_alternations=2,
    num_dtype_tries=1,
    row_counts=(1, 4, 16, 32),
    contexts=(64,),
    num_rounds=3,
    num_compared_tokens=12,
    shapes=(ReadShape(7, 0), ReadShape(7, 1)),
)


@dataclass(frozen=True, slots=True)
class Alternation:
    """The same prompt and number of tokens, by our plain lane and by `generate`."""

    ours: LaneTiming
    their_seconds: float
    num_equal_tokens: int  # of the answers, from their start

    @property
    def ratio(self) -> float:
        """How many times as fast we are."""
        return self.their_seconds / self.ours.answer_seconds


@dataclass(frozen=True, slots=True)
class EngineReport:
    plan: Plan
    load_average: float | None  # of the machine, when the measuring began
    start: RunStart  # machine, versions, commit, target: as any trace names them
    their_dtype: str
    their_speeds: dict[str, float]  # tokens per second of each dtype tried
    alternations: tuple[Alternation, ...]
    reads: dict[int, tuple[ReadCost, ...]]  # by tokens of context
    equalities: tuple[Equality, ...]  # one per shape

    @property
    def plain_vs_transformers(self) -> float:
        return median(a.ratio for a in self.alternations)

    @property
    def trace_overhead(self) -> float:
        return median(a.ours.trace_overhead for a in self.alternations)

    @property
    def dump_overhead(self) -> float:
        return median(a.ours.dump_overhead for a in self.alternations)

    def read_ratio(self, num_rows: int) -> float:
        """A pass over so many rows in one-row passes, at the shortest context."""
        costs = self.reads[min(self.reads)]
        return next(cost.over_one_row for cost in costs if cost.num_rows == num_rows)


def measure_engine(spec: TargetSpec, plan: Plan, tell: Tell) -> EngineReport:
    """ValueError: the target cannot be used. CannotMeasureError: there is none to measure."""
    from specviz.engine import Engine
    from specviz.lm.reads import read_costs

    load = load_average()
    engine = Engine([spec])
    target = finished(engine.store.get(spec, "auto"), tell)
    tell("Plain decoding against generate.")
    baseline, speeds, alternations = _against_generate(engine, target, plan)
    lm = target.loaded.lm
    text = _long_text(alternations, max(plan.contexts))
    reads = {}
    for context in plan.contexts:
        tell(f"Reads of several rows behind {context} tokens.")
        reads[context] = tuple(read_costs(lm, text[:context], plan.row_counts, plan.num_rounds))
    tell("Larger reads against one-row decoding.")
    prompts = {a.ours.start.prompt_tokens for a in alternations}
    return EngineReport(
        plan=plan,
        load_average=load,
        start=alternations[-1].ours.start,
        their_dtype=baseline.dtype,
        their_speeds=speeds,
        alternations=alternations,
        reads=reads,
        equalities=_added_up(
            compare_reads(lm, prompt, plan.num_compared_tokens, plan.shapes)
            for prompt in sorted(prompts)
        ),
    )


def _against_generate(
    engine: Engine, target: ReadyTarget, plan: Plan
) -> tuple[Generate, dict[str, float], tuple[Alternation, ...]]:
    requests = [
        Request(
            prompt,
            (LaneSpec(PLAIN_DRAFTER),),
            target=target.spec.name,
            is_chat=bool(target.loaded.tokenizer.chat_template),
            max_new_tokens=plan.num_tokens,
        )
        for prompt in PROMPTS
    ]
    warm = time_lane(engine.run(requests[0]))
    baseline, speeds = fastest(
        target.loaded.folder,
        engine.store.device,
        warm.start.prompt_tokens,
        plan.num_tokens,
        plan.num_dtype_tries,
    )
    alternations = []
    for index in range(plan.num_alternations):
        ours = time_lane(engine.run(requests[index % len(requests)]))
        # Ours may end early; theirs then writes as many. Each is warm from the one before.
        theirs, seconds = baseline.answer(ours.start.prompt_tokens, len(ours.tokens))
        alternations.append(Alternation(ours, seconds, _num_equal(ours.tokens, theirs)))
    return baseline, speeds, tuple(alternations)


def _num_equal(ours: tuple[int, ...], theirs: tuple[int, ...]) -> int:
    pairs = enumerate(zip(ours, theirs, strict=True))
    return next((i for i, (a, b) in pairs if a != b), len(ours))


def _long_text(alternations: tuple[Alternation, ...], num_tokens: int) -> tuple[int, ...]:
    """Prompts and answers one after another, and again, until there are enough tokens."""
    once = [t for a in alternations for t in (*a.ours.start.prompt_tokens, *a.ours.tokens)]
    return tuple(once * (num_tokens // len(once) + 1))[:num_tokens]


def _added_up(parts: Iterable[list[Equality]]) -> tuple[Equality, ...]:
    return tuple(
        Equality(
            same[0].shape,
            sum(e.num_compared for e in same),
            sum(e.num_equal for e in same),
            sum(e.num_flips for e in same),
        )
        for same in zip(*parts, strict=True)
    )
