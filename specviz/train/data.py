"""The corpus: prompts of our own making, answered by the target itself, in shards that resume.

A shard is planned before it is made and written in one move, so whatever is interrupted goes on
where it stopped. Three stages, each of which builds on the one before: texts to ask about, user
turns the target makes up, then everything else.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any, Literal

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specviz.lm.batched import BatchedLM
from specviz.lm.folder import generation_config_of, tokenizer_of
from specviz.lm.text import encode_prompt, eos_ids
from specviz.train.generate import Generator, Task
from specviz.train.prompts import Prompt, made_prompts, passage_prompts

Stage = Literal["passages", "turns", "answers"]
STAGES: tuple[Stage, ...] = ("passages", "turns", "answers")
NUM_SLOTS = 96
ANSWER_CAPS = ((128, 0.5), (224, 0.35), (448, 0.15))  # longest answer in tokens, share of prompts
TURN_TOKENS = 48  # of a user turn the target makes up
PASSAGE_TOKENS = 224
PASSAGE_CHARACTERS = 900  # of a text that a prompt quotes
MAX_PROMPT_TOKENS = 560
GREEDY_SHARE = 0.6
TEMPERATURE = 0.8  # of the sampled answers
HELD_OUT_OF = 25  # every 25th prompt, by its hash, is never trained on


@dataclass(frozen=True, slots=True)
class CorpusPlan:
    """What a corpus is made from: the same plan on the same machine makes the same corpus."""

    num_prompts: int
    seed: int = 0
    shard_prompts: int = 768
    num_passages: int = 768
    own_share: float = 0.25  # of the prompts the target makes up itself


@dataclass(frozen=True, slots=True)
class Example:
    tokens: Tensor  # (T,) int32: prompt in the chat template, then the answer
    prompt_length: int
    kind: str
    is_greedy: bool
    is_held_out: bool
    shard: Path
    start: int  # of its tokens in the shard


def build_corpus(
    target: Path, folder: Path, plan: CorpusPlan, num_workers: int
) -> Iterator[tuple[int, int]]:
    """Make what is missing of the corpus; (shards done, shards in all) after each.

    ValueError: the folder holds a corpus of another plan or target.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _check_plan(target, folder, plan)
    sizes = _shard_sizes(plan)
    total, done = sum(map(len, sizes.values())), 0
    for stage in STAGES:
        jobs = [(target, folder, plan, stage, i) for i in range(len(sizes[stage]))]
        missing = [job for job in jobs if not shard_path(folder, stage, job[-1]).exists()]
        done += len(jobs) - len(missing)
        yield done, total
        for _ in _worked(missing, num_workers):
            done += 1
            yield done, total
    (folder / "corpus.json").write_text(json.dumps(describe(folder), indent=1) + "\n")


def shard_path(folder: Path, stage: Stage, index: int) -> Path:
    return folder / f"{stage}-{index:04}.safetensors"


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
        "sha256": digest.hexdigest(),
    }


def example_shards(folder: Path) -> list[Path]:
    return [
        path for s in ("passages", "answers") for path in sorted(folder.glob(f"{s}-*.safetensors"))
    ]


def _kinds(path: Path) -> list[str]:
    kinds: list[str] = json.loads(path.with_suffix(".json").read_text())["kinds"]
    return kinds


def _check_plan(target: Path, folder: Path, plan: CorpusPlan) -> None:
    config = hashlib.sha256((target / "config.json").read_bytes()).hexdigest()
    wanted = {**asdict(plan), "target_config_sha256": config}
    wanted.pop("num_prompts")  # a corpus may grow
    path = folder / "plan.json"
    if path.exists() and json.loads(path.read_text()) != wanted:
        raise ValueError(
            f"{folder} holds a corpus of another plan or target; choose another folder, or the same "
            "settings again."
        )
    path.write_text(json.dumps(wanted, indent=1) + "\n")


def _shard_sizes(plan: CorpusPlan) -> dict[Stage, list[int]]:
    own = round(plan.num_prompts * plan.own_share)
    counts: dict[Stage, int] = {
        "passages": plan.num_passages,
        "turns": 2 * own,  # some turn out empty, cut off or twice the same
        "answers": plan.num_prompts,
    }
    size = plan.shard_prompts
    return {
        stage: [min(size, n - start) for start in range(0, n, size)] for stage, n in counts.items()
    }


Job = tuple[Path, Path, CorpusPlan, Stage, int]


def _worked(jobs: Sequence[Job], num_workers: int) -> Iterator[None]:
    if not jobs:
        return
    with get_context("spawn").Pool(min(num_workers, len(jobs)), _start_worker) as pool:
        yield from pool.imap_unordered(_make_shard, jobs)


def _start_worker() -> None:
    torch.set_num_threads(1)  # shards are independent: one thread each wastes none at barriers


_TARGETS: dict[Path, tuple[BatchedLM, Any]] = {}  # of this worker process: loaded once


def _make_shard(job: Job) -> None:
    target, folder, plan, stage, index = job
    if target not in _TARGETS:
        lm = BatchedLM(target, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
        _TARGETS[target] = lm, tokenizer_of(target)
    lm, tokenizer = _TARGETS[target]
    size, seed = _shard_sizes(plan)[stage][index], plan.seed * 1_000_003 + index
    prompts, tasks = _tasks(tokenizer, folder, stage, size, seed, plan)
    # Long answers first: at the end no slot waits for one. Prompts of a length together.
    order = sorted(
        range(len(tasks)), key=lambda i: (-tasks[i].max_new_tokens, len(tasks[i].tokens))
    )
    tasks, prompts = [tasks[i] for i in order], [prompts[i] for i in order]
    capacity = max(len(task.tokens) + task.max_new_tokens for task in tasks)
    stops = eos_ids(tokenizer, generation_config_of(target))
    generator = Generator(lm, stop_tokens=stops, num_slots=NUM_SLOTS, capacity=capacity)
    answers = {a.index: a.tokens for a in generator.answers(tasks, seed)}
    _save(shard_path(folder, stage, index), prompts, tasks, answers)


def _tasks(
    tokenizer: Any, folder: Path, stage: Stage, size: int, seed: int, plan: CorpusPlan
) -> tuple[list[Prompt], list[Task]]:
    random = Random(seed + 17)
    if stage == "turns":
        opening = _user_opening(tokenizer)
        return [Prompt("own", "")] * size, [Task(opening, TURN_TOKENS, 1.0)] * size
    if stage == "passages":
        prompts = passage_prompts(size, seed)
        tasks = [
            Task(tuple(encode_prompt(tokenizer, p.text, True)), PASSAGE_TOKENS, TEMPERATURE)
            for p in prompts
        ]
        return prompts, tasks
    prompts = _answer_prompts(tokenizer, folder, size, seed, plan)
    caps = [cap for cap, _ in ANSWER_CAPS]
    shares = [share for _, share in ANSWER_CAPS]
    tasks, kept = list[Task](), list[Prompt]()
    for prompt in prompts:
        tokens = encode_prompt(tokenizer, prompt.text, True)
        cap = random.choices(caps, shares)[0]
        temperature = 0.0 if random.random() < GREEDY_SHARE else TEMPERATURE
        if len(tokens) <= MAX_PROMPT_TOKENS:
            tasks.append(Task(tuple(tokens), cap, temperature))
            kept.append(prompt)
    return kept, tasks


def _answer_prompts(
    tokenizer: Any, folder: Path, size: int, seed: int, plan: CorpusPlan
) -> list[Prompt]:
    """The shard's share of our templates and of the target's own turns."""
    texts = _texts(tokenizer, folder, "passages")
    passages = [text[:PASSAGE_CHARACTERS].rsplit(".", 1)[0] + "." for text in texts]
    turns = [text.strip() for text in _texts(tokenizer, folder, "turns")]
    turns = list(dict.fromkeys(turn for turn in turns if len(turn) >= 12))
    count = round(size * plan.own_share)
    own = Random(seed).sample(turns, min(count, len(turns)))
    made = made_prompts(size - len(own), seed, passages)
    return [*(Prompt("own", text) for text in own), *made]


def _user_opening(tokenizer: Any) -> tuple[int, ...]:
    """The chat template up to where the user's text begins."""
    first, second = (encode_prompt(tokenizer, text, True) for text in ("1", "Why"))
    same = [a == b for a, b in zip(first, second, strict=False)]
    return tuple(first[: same.index(False)])


def _texts(tokenizer: Any, folder: Path, stage: Stage) -> list[str]:
    """The answers of a stage that came to their own end, as text."""
    texts = []
    for path in sorted(folder.glob(f"{stage}-*.safetensors")):
        shard = load_file(path)
        ends = shard["ends"].tolist()
        for i, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            answer = shard["tokens"][start + int(shard["prompt_lengths"][i]) : end].tolist()
            if stage == "passages" or len(answer) < TURN_TOKENS:
                texts.append(tokenizer.decode(answer, skip_special_tokens=True))
    return texts


def _save(
    path: Path,
    prompts: Sequence[Prompt],
    tasks: Sequence[Task],
    answers: dict[int, tuple[int, ...]],
) -> None:
    sequences = [(*task.tokens, *answers[i]) for i, task in enumerate(tasks)]
    shard = {
        "tokens": torch.tensor([t for s in sequences for t in s], dtype=torch.int32),
        "ends": torch.tensor([len(s) for s in sequences]).cumsum(0),
        "prompt_lengths": torch.tensor([len(task.tokens) for task in tasks]),
        "temperatures": torch.tensor([task.temperature for task in tasks]),
    }
    path.with_suffix(".json").write_text(json.dumps({"kinds": [p.kind for p in prompts]}))
    draft = path.with_suffix(".part")
    save_file(shard, draft)
    draft.rename(path)  # the shard counts as made from here on
