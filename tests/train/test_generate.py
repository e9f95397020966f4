"""Many prompts answered at once: each as if it were alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from specviz.lm.batched import BatchedLM
from specviz.train.generate import Answer, Generator, Task

NEAR_TIE = 0.2  # of the logits' spread: what bfloat16 may turn round


@pytest.fixture(scope="module")
def lm(target: Path) -> BatchedLM:
    return BatchedLM(target, torch.device("cpu"))


def answered(lm: BatchedLM, tasks: list[Task], *, num_slots: int, seed: int = 0) -> list[Answer]:
    capacity = max(len(task.tokens) + task.max_new_tokens for task in tasks)
    generator = Generator(lm, stop_tokens=(2, 9), num_slots=num_slots, capacity=capacity)
    return sorted(generator.answers(tasks, seed), key=lambda answer: answer.index)


def random_tasks(count: int, temperature: float = 0.0) -> list[Task]:
    random = torch.Generator().manual_seed(4)
    tasks = []
    for _ in range(count):
        length, cap = torch.randint(1, 30, (2,), generator=random).tolist()
        prompt = torch.randint(3, 320, (length,), generator=random).tolist()
        tasks.append(Task(tuple(prompt), cap, temperature))
    return tasks


@pytest.mark.parametrize("num_slots", [2, 12])
def test_greedy_answers_are_those_of_transformers(
    target: Path, lm: BatchedLM, num_slots: int
) -> None:
    """Prompts of one token to thirty, slots that are refilled while others go on."""
    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.bfloat16().float())
    tasks = random_tasks(40)
    answers = answered(lm, tasks, num_slots=num_slots)
    assert [answer.index for answer in answers] == list(range(40))
    num_tokens, num_same = 0, 0
    for task, answer in zip(tasks, answers, strict=True):
        text = torch.tensor([[*task.tokens, *answer.tokens]])
        with torch.no_grad():
            logits = model(text).logits[0, len(task.tokens) - 1 : -1]
        chosen = logits.gather(1, torch.tensor(answer.tokens)[:, None])[:, 0]
        best = logits.max(dim=-1).values
        assert (chosen >= best - NEAR_TIE * logits.std()).all()
        num_tokens, num_same = num_tokens + len(chosen), num_same + int((chosen == best).sum())
        assert not set(answer.tokens[:-1]) & {2, 9}
        assert len(answer.tokens) == task.max_new_tokens or answer.tokens[-1] in (2, 9)
    assert num_same / num_tokens > 0.95


def test_a_seed_samples_its_own_answers_again(lm: BatchedLM) -> None:
    tasks = random_tasks(12, temperature=1.0)
    first = answered(lm, tasks, num_slots=5)
    assert answered(lm, tasks, num_slots=5) == first
    assert answered(lm, tasks, num_slots=5, seed=1) != first


def test_slots_are_drawn_from_their_own_temperatures(lm: BatchedLM) -> None:
    """In one batch: greedy slots take the likeliest, the others each token as often as it is due."""
    count = 30_000
    generator = Generator(lm, stop_tokens=(), num_slots=count, capacity=1)
    logits = torch.tensor([1.0, 3.0, 2.0, -40.0])
    generator.temperatures[:10_000] = 0.0
    generator.temperatures[10_000:20_000] = 1.0
    generator.temperatures[20_000:] = 0.5
    random = torch.Generator().manual_seed(0)
    chosen = torch.tensor(generator._choose(logits.expand(count, -1), random))
    assert (chosen[:10_000] == 1).all()
    for start, temperature in ((10_000, 1.0), (20_000, 0.5)):
        shares = torch.bincount(chosen[start : start + 10_000], minlength=4) / 10_000
        wanted = torch.softmax(logits / temperature, dim=-1)
        assert (shares - wanted).abs().max() < 4 * (0.25 / 10_000) ** 0.5


def test_a_prompt_that_does_not_fit_is_refused(lm: BatchedLM) -> None:
    generator = Generator(lm, stop_tokens=(2,), num_slots=2, capacity=10)
    with pytest.raises(ValueError, match="A prompt of 8 tokens with 3 to come does not fit"):
        next(generator.answers([Task((3,) * 7, 3), Task((3,) * 8, 3)], 0))
