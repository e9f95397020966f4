"""A corpus: interrupted and made whole it is the same, and what is held out stays apart."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from specviz.lm.folder import tokenizer_of
from specviz.train import shards
from specviz.train.data import build_corpus, describe, example_shards, load_corpus
from specviz.train.generate import Task
from specviz.train.plan import CorpusPlan, check_target, plan_for
from specviz.train.prompts import Prompt
from specviz.train.shards import make_shard
from tests.models import edit_config, tiny_folder

SMALL = CorpusPlan(24, shard_prompts=10, num_passages=8)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def whole(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SMALL, made without a break."""
    folder = tmp_path_factory.mktemp("whole")
    events = list(build_corpus(target, folder, SMALL, 1))
    done = [made.done for made in events]
    assert done == sorted(done)
    assert done[0] == 0
    assert done[-1] == events[-1].total
    return folder


@pytest.mark.parametrize("breaks", [(3, 9), (12,)])
def test_what_is_interrupted_goes_on_to_the_same_corpus(
    target: Path, whole: Path, tmp_path: Path, breaks: tuple[int, ...]
) -> None:
    for number in breaks:  # events after which somebody pulls the plug, in mid-shard
        events = build_corpus(target, tmp_path, SMALL, 1)
        for _ in range(number):
            next(events)
        events.close()  # type: ignore[attr-defined]
        assert contents(tmp_path).keys() < contents(whole).keys()
    before = contents(tmp_path)
    first, *_ = build_corpus(target, tmp_path, SMALL, 1)
    assert (first.done > 0) == any(name.endswith(".safetensors") for name in before)
    assert contents(tmp_path) == contents(whole)


def test_nothing_is_left_to_do_the_second_time(target: Path, whole: Path) -> None:
    before = contents(whole)
    events = list(build_corpus(target, whole, SMALL, 1))
    assert all(made.num_tokens == 0 for made in events)
    assert contents(whole) == before


def test_a_corpus_may_grow(target: Path, whole: Path, tmp_path: Path) -> None:
    for name, content in contents(whole).items():
        (tmp_path / name).write_bytes(content)
    plan = plan_for(tmp_path, 34, seed=0)
    assert plan == CorpusPlan(34, shard_prompts=10, num_passages=8)
    list(build_corpus(target, tmp_path, plan, 1))
    assert len(example_shards(tmp_path)) == len(example_shards(whole)) + 1
    assert (
        contents(whole)["answers-0001.safetensors"]
        == contents(tmp_path)["answers-0001.safetensors"]
    )


def test_another_plan_or_target_is_refused(target: Path, whole: Path, tmp_path: Path) -> None:
    before = contents(whole)
    for plan in (CorpusPlan(24, 1, 10, 8), CorpusPlan(24, 0, 11, 8)):
        with pytest.raises(ValueError, match="corpus of another plan or target"):
            next(build_corpus(target, whole, plan, 1))
    other = tiny_folder(tmp_path / "other", num_hidden_layers=5)
    with pytest.raises(ValueError, match="corpus of another plan or target"):
        next(build_corpus(other, whole, SMALL, 1))
    with pytest.raises(ValueError, match="written by another target than other"):
        check_target(other, whole)
    check_target(target, whole)
    assert contents(whole) == before


def test_a_plan_shrinks_its_passages_with_its_prompts(tmp_path: Path) -> None:
    assert plan_for(tmp_path, 6144, 0) == CorpusPlan(6144)
    assert plan_for(tmp_path, 80, 3) == CorpusPlan(80, 3, num_passages=10)
    with pytest.raises(ValueError, match="at least 1 prompt; got 0"):
        plan_for(tmp_path, 0, 0)


def test_examples_are_prompts_in_the_template_and_the_answers_to_them(
    target: Path, whole: Path
) -> None:
    tokenizer, kinds = tokenizer_of(target), set()
    for example in load_corpus(whole):
        prompt = tokenizer.decode(example.tokens[: example.prompt_length])
        assert prompt.startswith("<|im_start|>user\n")
        assert prompt.endswith("<|im_end|>\n<|im_start|>assistant\n")
        answer = example.tokens[example.prompt_length :]
        assert 1 <= len(answer) <= 24
        assert (answer[:-1] != tokenizer.eos_token_id).all()  # it ends there
        shard = load_file(example.shard)["tokens"]
        assert torch.equal(
            shard[example.start : example.start + len(example.tokens)], example.tokens
        )
        kinds.add(example.kind)
    assert len(kinds) > 4


def test_the_target_is_asked_what_it_would_ask(target: Path, tmp_path: Path) -> None:
    """Each whole turn once; what was cut off or says next to nothing is no prompt."""
    tokenizer = tokenizer_of(target)
    texts = ["Where is the fox?", "The lazy dog, there?", "Hm?", "Where is the fox?"]
    answers = [tuple(tokenizer.encode(text)) for text in texts]
    limit = max(map(len, answers)) + 1
    cut_off = tuple(tokenizer.encode("one, two, three, four. " * 9)[:limit])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "TURN_TOKENS", limit)
        tasks = [Task((1,), limit)] * 5
        shards._save(
            tmp_path / "turns-0000.safetensors",
            [Prompt("own", "")] * 5,
            tasks,
            dict(enumerate([*answers, cut_off])),
        )
        plan = CorpusPlan(40)
        prompts = shards._answer_prompts(tokenizer, tmp_path, 40, 0, plan)
    assert sorted(p.text for p in prompts if p.kind == "own") == sorted(texts[:2])
    assert len(prompts) == 40  # ours make up for those that are missing


def test_greedy_answers_and_sampled_ones_are_told_apart(corpus: Path) -> None:
    examples = [e for e in load_corpus(corpus) if e.shard.name.startswith("answers")]
    share = sum(example.is_greedy for example in examples) / len(examples)
    assert 0.45 < share < 0.75  # of about 150


def write_shard(folder: Path, lines: list[tuple[list[int], list[int]]]) -> None:
    """Prompts and answers as a shard of a corpus."""
    (folder / "plan.json").write_text("{}")
    tasks = [Task(tuple(prompt), 9) for prompt, _ in lines]
    answers = {i: tuple(answer) for i, (_, answer) in enumerate(lines)}
    prompts = [Prompt("chat", "")] * len(lines)
    shards._save(folder / "answers-0000.safetensors", prompts, tasks, answers)


def test_an_answer_that_stands_twice_is_dropped(tmp_path: Path) -> None:
    write_shard(tmp_path, [([1, 2], [7, 8]), ([3], [7, 8]), ([1, 2], [7]), ([4], [2, 7, 8])])
    lines = [(e.tokens.tolist(), e.prompt_length) for e in load_corpus(tmp_path)]
    assert lines == [([1, 2, 7, 8], 2), ([1, 2, 7], 2), ([4, 2, 7, 8], 1)]


def test_a_prompt_is_held_out_with_all_its_answers(tmp_path: Path) -> None:
    """Or a network would be asked in the examination what it was told in class."""
    write_shard(tmp_path, [([1, p // 300, p % 300], [p, n]) for p in range(900) for n in (1, 2)])
    sides: dict[tuple[int, ...], set[bool]] = defaultdict(set)
    for example in load_corpus(tmp_path):
        prompt = tuple(example.tokens[: example.prompt_length].tolist())
        sides[prompt].add(example.is_held_out)
    assert all(len(side) == 1 for side in sides.values())
    share = sum(side == {True} for side in sides.values()) / len(sides)
    assert 0.02 < share < 0.07  # 11 of 256
    facts = describe(tmp_path)
    assert facts["examples"] == 1800
    assert facts["answer_tokens"] == 3600
    assert facts["held_out"] == sum(2 for side in sides.values() if side == {True})


def test_the_hash_is_of_every_token(tmp_path: Path) -> None:
    hashes = set()
    for last in (8, 9):
        write_shard(tmp_path, [([1, 2], [7]), ([3], [7, last])])
        hashes.add(describe(tmp_path)["sha256"])
    assert len(hashes) == 2


def test_no_corpus_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no corpus; make one with"):
        load_corpus(tmp_path)


def test_prompts_that_do_not_fit_the_context_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target was driven past the positions it knows."""
    short = tiny_folder(tmp_path / "short", num_hidden_layers=4)
    edit_config(short, max_position_embeddings=120)
    plan = CorpusPlan(30, num_passages=5)
    for stage in ("passages", "answers"):
        list(make_shard((short, tmp_path, plan, stage, 0)))
    lengths = [len(example.tokens) for example in load_corpus(tmp_path)]
    assert 10 < len(lengths) < 35
    assert max(lengths) <= 120
    edit_config(short, max_position_embeddings=20)
    with pytest.raises(ValueError, match="None of a shard's 5 prompts fits the 20 tokens"):
        list(make_shard((short, tmp_path, plan, "passages", 0)))


def test_corpus_json_says_what_was_made(whole: Path) -> None:
    written: dict[str, Any] = json.loads((whole / "corpus.json").read_text())
    assert written == describe(whole)
    assert written["plan"]["num_passages"] == 8
    assert sum(written["answer_tokens_by_kind"].values()) == written["answer_tokens"]
