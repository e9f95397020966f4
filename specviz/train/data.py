"""The corpus: prompts of our own making, answered by the target itself, in shards that resume.

A shard is planned before it is made and written in one move, so whatever is interrupted goes on
where it stopped. Three stages, each of which builds on the one before: texts to ask about, user
turns the target makes up, then everything else.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from specviz.train.plan import LONGEST, STAGES, CorpusPlan, keep_plan, shard_path, shard_sizes
from specviz.train.shards import make_shard
from specviz.train.workers import worked

HELD_OUT_OF = 25  # a prompt whose hash begins with a multiple of it is never trained on


@dataclass(frozen=True, slots=True)
class Made:
    """How far the making of something is. `done` and `total` are estimates, in tokens."""

    stage: str
    done: int
    total: int
    num_tokens: int  # really written or read, in this sitting


@dataclass(frozen=True, slots=True)
class Example:
    tokens: Tensor  # (T,) int32: prompt in the chat template, then the answer
    prompt_length: int
    kind: str
    is_greedy: bool
    is_held_out: bool
    shard: Path
    start: int  # of its tokens in the shard


def build_corpus(target: Path, folder: Path, plan: CorpusPlan, num_workers: int) -> Iterator[Made]:
    """Make what is missing of the corpus. Closing the iterator ends the workers.

    ValueError: the folder holds a corpus of another plan or target.
    """
    folder.mkdir(parents=True, exist_ok=True)
    keep_plan(target, folder, plan)
    sizes = shard_sizes(plan)
    total = sum(size * LONGEST[stage] for stage in STAGES for size in sizes[stage])
    done, num_tokens = 0, 0
    for stage in STAGES:
        missing = [i for i in range(len(sizes[stage])) if not shard_path(folder, stage, i).exists()]
        whole = {i: size * LONGEST[stage] for i, size in enumerate(sizes[stage])}
        done += sum(whole[i] for i in whole if i not in missing)
        yield Made(stage, done, total, num_tokens)
        parts = dict.fromkeys(range(len(missing)), 0)  # done of each shard that is under way
        jobs = [(target, folder, plan, stage, i) for i in missing]
        for step in worked(make_shard, jobs, num_workers):
            num_tokens += step.amount
            size = whole[missing[step.job]]
            parts[step.job] = size if step.is_done else min(parts[step.job] + LONGEST[stage], size)
            yield Made(stage, done + sum(parts.values()), total, num_tokens)
        done += sum(parts.values())
    (folder / "corpus.json").write_text(json.dumps(describe(folder), indent=1) + "\n")


def load_corpus(folder: Path) -> list[Example]:
    """Every example once; answers that stand twice are dropped. ValueError: there is none."""
    found: dict[bytes, Example] = {}
    for path in example_shards(folder):
        shard, kinds = load_file(path), _kinds(path)
        ends = shard["ends"].tolist()
        for i, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            tokens = shard["tokens"][start:end]
            length = int(shard["prompt_lengths"][i])
            prompt = hashlib.sha256(tokens[:length].numpy().tobytes()).digest()
            answer = hashlib.sha256(tokens[length:].numpy().tobytes()).digest()
            example = Example(
                tokens=tokens,
                prompt_length=length,
                kind=kinds[i],
                is_greedy=float(shard["temperatures"][i]) == 0.0,
                is_held_out=prompt[0] % HELD_OUT_OF == 0,
                shard=path,
                start=start,
            )
            found.setdefault(answer, example)
    if not found:
        raise ValueError(f"{folder} holds no corpus; make one with `python -m specviz train data`.")
    return list(found.values())


def describe(folder: Path) -> dict[str, Any]:
    """Counts and one hash over all examples: what a model card says of its data."""
    examples, digest = load_corpus(folder), hashlib.sha256()
    answer_tokens: Counter[str] = Counter()
    for example in examples:
        digest.update(example.tokens.numpy().tobytes())
        answer_tokens[example.kind] += len(example.tokens) - example.prompt_length
    return {
        "plan": json.loads((folder / "plan.json").read_text()),
        "examples": len(examples),
        "held_out": sum(example.is_held_out for example in examples),
        "answer_tokens": sum(answer_tokens.values()),
        "answer_tokens_by_kind": dict(answer_tokens.most_common()),
        "prompt_recipes": dict(Counter(map(_recipe, example_shards(folder)))),  # of how many shards
        "sha256": digest.hexdigest(),
    }


def example_shards(folder: Path) -> list[Path]:
    return [
        path for s in ("passages", "answers") for path in sorted(folder.glob(f"{s}-*.safetensors"))
    ]


def _kinds(path: Path) -> list[str]:
    kinds: list[str] = _notes(path)["kinds"]
    return kinds


def _recipe(path: Path) -> str:
    """Which code made a shard's prompts; the first corpora did not keep that."""
    recipe: str = _notes(path).get("recipe", "unknown")
    return recipe


def _notes(path: Path) -> dict[str, Any]:
    notes: dict[str, Any] = json.loads(path.with_suffix(".json").read_text())
    return notes
