"""A target answers many prompts at once: slots that are refilled as soon as an answer ends.

Answers are what drafters must imitate, so they come from the target itself, by its own chat
template, greedy or sampled. The same prompts in the same order with the same seed give the same
answers on the same machine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.lm.batched import BatchedLM, SlotCache

MIN_REFILL = 8  # slots that stand empty before new prompts are read: reading a few is as dear


@dataclass(frozen=True, slots=True)
class Task:
    """One prompt to answer."""

    tokens: tuple[int, ...]
    max_new_tokens: int
    temperature: float = 0.0  # 0: greedy


@dataclass(frozen=True, slots=True)
class Answer:
    index: int  # of the task
    tokens: tuple[int, ...]  # the stop token included, where one came


class Generator:
    """Answers tasks in `num_slots` slots of one batch."""

    def __init__(
        self, lm: BatchedLM, *, stop_tokens: Collection[int], num_slots: int, capacity: int
    ) -> None:
        self.lm = lm
        self.stop_tokens = frozenset(stop_tokens)
        self.cache = SlotCache(lm, num_slots, capacity)
        self.tokens = torch.zeros(num_slots, dtype=torch.long)  # to be read next
        self.temperatures = torch.zeros(num_slots)
        self.owners: list[int | None] = [None] * num_slots

    def answers(self, tasks: Sequence[Task], seed: int) -> Iterator[Answer]:
        """Every task's answer, in the order they end. ValueError: a task does not fit a slot."""
        for task in tasks:
            if len(task.tokens) + task.max_new_tokens > self.cache.capacity:
                raise ValueError(
                    f"A prompt of {len(task.tokens)} tokens with {task.max_new_tokens} to come does "
                    f"not fit a slot of {self.cache.capacity}."
                )
        random = torch.Generator().manual_seed(seed)
        written: dict[int, list[int]] = {}
        waiting = list(range(len(tasks)))[::-1]
        while waiting or written:
            if waiting and (self._num_empty() >= MIN_REFILL or not written):
                self._refill(tasks, waiting, written)
            chosen = self._choose(self.lm.step(self.tokens, self.cache), random)
            for slot, owner in enumerate(self.owners):
                if owner is None:
                    self.cache.lengths[slot] = 0  # an empty slot reads one row and forgets it
                    continue
                answer, token = written[owner], chosen[slot]
                answer.append(token)
                if token in self.stop_tokens or len(answer) >= tasks[owner].max_new_tokens:
                    self.owners[slot] = None
                    yield Answer(owner, tuple(written.pop(owner)))
            self.tokens = torch.tensor(chosen)

    def _num_empty(self) -> int:
        return self.owners.count(None)

    def _refill(
        self, tasks: Sequence[Task], waiting: list[int], written: dict[int, list[int]]
    ) -> None:
        """Read the next prompts, all but their last token, into the empty slots."""
        empty = [slot for slot, owner in enumerate(self.owners) if owner is None]
        filled = [(slot, waiting.pop()) for slot in empty[: len(waiting)]]
        prompts = [tasks[index].tokens for _, index in filled]
        batch = torch.zeros(len(prompts), max(map(len, prompts)), dtype=torch.long)
        for row, prompt in enumerate(prompts):
            batch[row, : len(prompt)] = torch.tensor(prompt)
        slots = torch.tensor([slot for slot, _ in filled])
        self.lm.read(batch[:, :-1], cache=self.cache, slots=slots)
        for (slot, index), prompt in zip(filled, prompts, strict=True):
            self.owners[slot] = index
            self.cache.lengths[slot] = len(prompt) - 1
            self.tokens[slot] = prompt[-1]
            self.temperatures[slot] = tasks[index].temperature
            written[index] = []

    def _choose(self, logits: Tensor, random: torch.Generator) -> list[int]:
        scores = logits.float()
        chosen = scores.max(dim=-1).indices
        sampled = (self.temperatures > 0).nonzero()[:, 0]
        if len(sampled):
            scaled = scores[sampled] / self.temperatures[sampled, None].to(scores.device)
            sums = torch.softmax(scaled, dim=-1).cumsum(dim=-1)
            draws = torch.empty(len(sampled), 1).uniform_(generator=random).to(sums.device)
            chosen[sampled] = torch.searchsorted(sums, draws * sums[:, -1:])[:, 0].clamp_max(
                scores.shape[1] - 1
            )
        tokens: list[int] = chosen.tolist()
        return tokens
