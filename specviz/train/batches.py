"""Corpus and features to batches: the same seed gives the same batches, from any step on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor

from specviz.drafters.training import TrainBatch
from specviz.lm.base import FeatureTap
from specviz.train.data import Example
from specviz.train.features import features_of, stored_taps

WINDOW = 512  # examples among which those of a length are brought together


class BatchMaker:
    """Reads the taps a network asks for. ValueError: they were not stored."""

    def __init__(
        self, taps: Sequence[FeatureTap], *, num_layers: int, hidden_size: int, device: torch.device
    ) -> None:
        stored = stored_taps(num_layers)
        if missing := [tap for tap in taps if tap not in stored]:
            raise ValueError(f"The features on disk do not hold {missing[0]}; they hold {stored}.")
        self.hidden_size, self.width, self.device = hidden_size, len(stored) * hidden_size, device
        self.columns = [stored.index(tap) for tap in taps]

    def batch(self, examples: Sequence[Example]) -> TrainBatch:
        length = max(len(example.tokens) for example in examples)
        tokens = torch.zeros(len(examples), length, dtype=torch.long)
        is_answer = torch.zeros(len(examples), length, dtype=torch.bool)
        states = torch.zeros(len(examples), length, self.width, dtype=torch.bfloat16)
        for row, example in enumerate(examples):
            end = len(example.tokens)
            tokens[row, :end] = example.tokens
            is_answer[row, example.prompt_length : end] = True
            states[row, :end] = features_of(example, self.width)
        blocks = states.to(self.device).view(*states.shape[:2], -1, self.hidden_size)
        return TrainBatch(
            tokens=tokens.to(self.device),
            is_answer=is_answer.to(self.device),
            features=blocks[:, :, self.columns].flatten(2),
            normed=blocks[:, :, -1],
        )


def batches(
    examples: Sequence[Example], *, batch_tokens: int, seed: int, first: int
) -> Iterator[list[Example]]:
    """Batches without end, from number `first` on; padding counts towards `batch_tokens`."""
    number, epoch = 0, 0
    while True:
        for batch in _epoch(examples, batch_tokens, seed + epoch):
            if number >= first:
                yield batch
            number += 1
        epoch += 1


def num_batches(examples: Sequence[Example], *, batch_tokens: int, seed: int) -> int:
    """Of the first epoch; others differ by a few, as lengths fall together otherwise."""
    return len(_epoch(examples, batch_tokens, seed))


def answer_tokens_seen(
    examples: Sequence[Example], *, batch_tokens: int, seed: int, num_steps: int
) -> int:
    """Answer tokens of the first `num_steps` batches, each as often as it is met."""
    met = islice(batches(examples, batch_tokens=batch_tokens, seed=seed, first=0), num_steps)
    return sum(len(e.tokens) - e.prompt_length for batch in met for e in batch)


def _epoch(examples: Sequence[Example], batch_tokens: int, seed: int) -> list[list[Example]]:
    random = torch.Generator().manual_seed(seed)
    order: list[int] = torch.randperm(len(examples), generator=random).tolist()
    found: list[list[Example]] = []
    for start in range(0, len(order), WINDOW):
        window = [examples[i] for i in order[start : start + WINDOW]]
        found += _packed(sorted(window, key=lambda e: len(e.tokens)), batch_tokens)
    mixed: list[int] = torch.randperm(len(found), generator=random).tolist()
    return [found[i] for i in mixed]


def _packed(examples: Sequence[Example], batch_tokens: int) -> list[list[Example]]:
    found: list[list[Example]] = [[]]
    for example in examples:  # ascending lengths: the next one is the longest so far
        if found[-1] and (len(found[-1]) + 1) * len(example.tokens) > batch_tokens:
            found.append([])
        found[-1].append(example)
    return [batch for batch in found if batch]


def choose_vocab(examples: Sequence[Example], size: int) -> tuple[Tensor, float]:
    """(size,) ascending ids of the commonest answer tokens, and the share of answers they cover."""
    counts = answer_counts(examples)
    common = counts.most_common(size)
    chosen = {token for token, _ in common}
    spare = (token for token in range(10**9) if token not in chosen)  # a small corpus: lowest ids
    chosen.update(next(spare) for _ in range(size - len(chosen)))
    return torch.tensor(sorted(chosen)), covered(counts, chosen)


def answer_counts(examples: Sequence[Example]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for example in examples:
        counts.update(example.tokens[example.prompt_length :].tolist())
    return counts


def covered(counts: Counter[int], chosen: set[int]) -> float:
    """Share of all counted tokens that are among the chosen."""
    return sum(counts[token] for token in chosen) / max(counts.total(), 1)
