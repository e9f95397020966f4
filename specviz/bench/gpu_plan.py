"""`bench gpu`: which models, how many rows, how long. Full size, or a miniature of the same.

The shapes of the models come from floor 2, inside the calls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from specviz.bench.passes import ReadShape
from specviz.config import TargetSpec
from specviz.presets import DEFAULT_TARGET

if TYPE_CHECKING:
    from specviz.lm.synthetic import LlamaShape


@dataclass(frozen=True, slots=True)
class ModelPlan:
    name: str
    shape: LlamaShape
    form: Literal["whole", "nf4"] = "whole"
    is_half: bool = True  # bfloat16; else float32


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    name: str
    num_rows: int  # the target reads in a round
    num_draft_steps: int = 0  # of an EAGLE-3 drafter; 0: drafting is free
    top_k: int = 1


@dataclass(frozen=True, slots=True)
class GpuPlan:
    models: tuple[ModelPlan, ...]
    replays: tuple[ReplayPlan, ...]
    row_counts: tuple[int, ...]
    shapes: tuple[ReadShape, ...]  # of trees compared with one-row decoding
    num_rounds: int  # of timed reads
    num_tokens: int  # of decoded and replayed texts
    context: int  # tokens before them
    max_context: int
    num_draft_tokens: int  # words of the EAGLE-3 drafter's vocabulary
    copy_bytes: int  # copied to measure the bandwidth
    drafters_on: TargetSpec | None  # a target with real weights, if any
    num_prompts: int  # of it
    seconds: float  # no further model is begun after this long
    last_seconds: float  # nor any further prompt


def full_plan() -> GpuPlan:
    from specviz.lm.synthetic import LLAMA_8B, SMOLLM2_135M

    return GpuPlan(
        models=(
            ModelPlan("8B Llama shape, 6 layers", replace(LLAMA_8B, num_layers=6), is_half=False),
            ModelPlan("8B Llama shape", LLAMA_8B),
            ModelPlan("8B Llama shape, nf4", LLAMA_8B, "nf4"),
            ModelPlan("SmolLM2-135M shape", SMOLLM2_135M),
        ),
        replays=(
            ReplayPlan("6 rows, free draft", 6),
            ReplayPlan("chain of 6 rows, EAGLE-3", 6, 5),
            ReplayPlan("32 rows, EAGLE-3 tree", 32, 5, 8),
        ),
        row_counts=(1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64),
        shapes=(ReadShape(7, 0), ReadShape(7, 1), ReadShape(15, 3)),
        num_rounds=20,
        num_tokens=128,
        context=100,
        max_context=2048,
        num_draft_tokens=32_000,
        copy_bytes=2**30,
        drafters_on=DEFAULT_TARGET,
        num_prompts=7,
        seconds=300.0,
        last_seconds=450.0,
    )


def miniature_plan() -> GpuPlan:
    from specviz.lm.synthetic import LlamaShape

    shape = LlamaShape(64, 128, 5, 4, 2, 320)
    return GpuPlan(
        models=(
            ModelPlan("miniature", shape, is_half=False),
            ModelPlan("miniature, nf4", shape, "nf4", is_half=False),
        ),
        replays=(ReplayPlan("3 rows, free draft", 3), ReplayPlan("6 rows, EAGLE-3", 6, 5)),
        row_counts=(1, 4),
        shapes=(ReadShape(3, 1),),
        num_rounds=2,
        num_tokens=16,
        context=12,
        max_context=128,
        num_draft_tokens=64,
        copy_bytes=2**20,
        drafters_on=None,
        num_prompts=0,
        seconds=120.0,
        last_seconds=120.0,
    )
