"""One shard of a corpus: its prompts, the target's answers to them, and the file they go into."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from specviz.lm.batched import BatchedLM
from specviz.lm.device import pick_device
from specviz.lm.folder import config_of, generation_config_of, tokenizer_of
from specviz.lm.text import encode_prompt, eos_ids
from specviz.train.generate import Generator, Task
from specviz.train.plan import (
    ANSWER_CAPS,
    PASSAGE_TOKENS,
    TURN_TOKENS,
    CorpusPlan,
    Stage,
    shard_path,
    shard_sizes,
)
from specviz.train.prompts import Prompt, made_prompts, passage_prompts

NUM_SLOTS = 96
PASSAGE_CHARACTERS = 900  # of a text that a prompt quotes
MAX_PROMPT_TOKENS = 900
GREEDY_SHARE = 0.6
TEMPERATURE = 0.8  # of the sampled answers

ShardJob = tuple[Path, Path, CorpusPlan, Stage, int]  # target, folder, plan, stage, index


def make_shard(job: ShardJob) -> Iterator[int]:
    """Write the shard; the number of tokens of each answer as it ends."""
    target, folder, plan, stage, index = job
    with one_thread():
        tokenizer = tokenizer_of(target)
        size, seed = shard_sizes(plan)[stage][index], plan.seed * 1_000_003 + index
        prompts, tasks = _tasks(tokenizer, folder, stage, size, seed, plan)
        order = _order(tasks, config_of(target).max_position_embeddings)
        tasks, prompts = [tasks[i] for i in order], [prompts[i] for i in order]
        generator = Generator(
            loaded(target),
            stop_tokens=eos_ids(tokenizer, generation_config_of(target)),
            num_slots=NUM_SLOTS,
            capacity=max(len(task.tokens) + task.max_new_tokens for task in tasks),
        )
        answers = {}
        for answer in generator.answers(tasks, seed):
            answers[answer.index] = answer.tokens
            yield len(answer.tokens)
        _save(shard_path(folder, stage, index), prompts, tasks, answers)


@cache
def prompt_recipe() -> str:
    """Hash of the code that makes prompts: a corpus that grew over versions says so."""
    names = ("plan", "prompts", "prompt_parts", "german", "shards")
    sources = [Path(__file__).with_name(f"{name}.py").read_bytes() for name in names]
    return hashlib.sha256(b"".join(sources)).hexdigest()[:12]


@contextmanager
def one_thread() -> Iterator[None]:
    """Shards are independent: one thread each wastes none at barriers."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=1)
def loaded(target: Path) -> BatchedLM:
    """The target, for all shards of this process."""
    return BatchedLM(target, pick_device())


def _order(tasks: Sequence[Task], context: int) -> list[int]:
    """Long answers first: at the end no slot waits for one. Prompts of a length together."""
    fitting = [
        i for i, task in enumerate(tasks) if len(task.tokens) + task.max_new_tokens <= context
    ]
    if not fitting:
        raise ValueError(
            f"None of a shard's {len(tasks)} prompts fits the {context} tokens this target holds, "
            "its answer included; choose a target with a longer context."
        )
    return sorted(fitting, key=lambda i: (-tasks[i].max_new_tokens, len(tasks[i].tokens)))


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
    notes = {"kinds": [p.kind for p in prompts], "recipe": prompt_recipe()}
    path.with_suffix(".json").write_text(json.dumps(notes))
    draft = path.with_suffix(".part")
    save_file(shard, draft)
    draft.rename(path)  # the shard counts as made from here on
