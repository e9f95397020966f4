"""Batches: the same from any step on, filled within their bound, and true to corpus and features."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
import torch

from specviz.lm.base import FeatureTap
from specviz.train.batches import (
    BatchMaker,
    answer_tokens_seen,
    batches,
    choose_vocab,
    num_batches,
)
from specviz.train.data import Example, load_corpus
from specviz.train.features import features_of

SETTINGS = {"batch_tokens": 400, "seed": 3}


def example(tokens: list[int], prompt_length: int, number: int = 0) -> Example:
    return Example(
        tokens=torch.tensor(tokens, dtype=torch.int32),
        prompt_length=prompt_length,
        kind="chat",
        is_greedy=True,
        is_held_out=False,
        shard=Path(),
        start=number,
    )


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    random = torch.Generator().manual_seed(0)
    lengths = torch.randint(5, 120, (1100,), generator=random).tolist()
    return [example([1] * n, 2, i) for i, n in enumerate(lengths)]


def starts(batch: list[Example]) -> list[int]:
    return [e.start for e in batch]


def test_batches_are_the_same_from_any_step_on(examples: list[Example]) -> None:
    """A run that goes on must meet what it would have met."""
    all_of_them = list(islice(batches(examples, **SETTINGS, first=0), 500))
    assert len(all_of_them) > num_batches(examples, **SETTINGS)  # into the second epoch
    for first in (1, 250, 420):
        rest = list(islice(batches(examples, **SETTINGS, first=first), 500 - first))
        assert list(map(starts, rest)) == list(map(starts, all_of_them[first:]))


def test_an_epoch_holds_every_example_once_in_an_order_of_its_own(examples: list[Example]) -> None:
    count = num_batches(examples, **SETTINGS)
    first = list(islice(batches(examples, **SETTINGS, first=0), count))
    met = [start for batch in first for start in starts(batch)]
    assert sorted(met) == list(range(len(examples)))
    second = next(batches(examples, **SETTINGS, first=count))
    assert starts(second) != starts(first[0])
    other = next(batches(examples, batch_tokens=400, seed=4, first=0))
    assert starts(other) != starts(first[0])


def test_padding_counts_towards_the_bound(examples: list[Example]) -> None:
    padded, real = 0, 0
    for batch in islice(batches(examples, **SETTINGS, first=0), 200):
        longest = max(len(e.tokens) for e in batch)
        assert len(batch) * longest <= 400
        padded += len(batch) * longest
        real += sum(len(e.tokens) for e in batch)
    assert real / padded > 0.95  # those of a length are together


def test_an_example_above_the_bound_is_a_batch_alone() -> None:
    given = [example([1] * n, 2, n) for n in (3, 900, 4)]
    assert sorted(map(starts, islice(batches(given, **SETTINGS, first=0), 2))) == [[3, 4], [900]]


def test_answer_tokens_are_counted_as_often_as_they_are_met() -> None:
    given = [example([1] * n, 2, n) for n in (5, 9)]  # 3 and 7 answer tokens, one batch an epoch
    assert answer_tokens_seen(given, **SETTINGS, num_steps=3) == 3 * (3 + 7)


def test_a_batch_is_tokens_answers_and_the_taps_asked_for(corpus: Path) -> None:
    given = sorted(load_corpus(corpus)[:5], key=lambda e: len(e.tokens))
    taps = (FeatureTap("normed"), FeatureTap("input", 3))
    maker = BatchMaker(taps, num_layers=6, hidden_size=64, device=torch.device("cpu"))
    batch = maker.batch(given)
    assert batch.features.shape == (5, len(given[-1].tokens), 2 * 64)
    for row, e in enumerate(given):
        end, kept = len(e.tokens), features_of(e, 4 * 64)
        assert batch.tokens[row, :end].tolist() == e.tokens.tolist()
        assert batch.is_answer[row].nonzero()[:, 0].tolist() == list(range(e.prompt_length, end))
        assert torch.equal(
            batch.features[row, :end, 64:], kept[:, 64:128]
        )  # low, MIDDLE, high, last
        assert torch.equal(batch.features[row, :end, :64], kept[:, 192:])
        assert torch.equal(batch.normed[row, :end], kept[:, 192:])
        assert not batch.normed[row, end:].any()
        assert not batch.tokens[row, end:].any()


def test_no_taps_are_none_and_unknown_ones_are_refused(corpus: Path) -> None:
    settings = {"num_layers": 6, "hidden_size": 64, "device": torch.device("cpu")}
    batch = BatchMaker((), **settings).batch(load_corpus(corpus)[:2])
    assert batch.features.shape[-1] == 0
    with pytest.raises(ValueError, match="do not hold FeatureTap"):
        BatchMaker((FeatureTap("output", 0),), **settings)


def test_the_vocabulary_is_the_commonest_answer_tokens() -> None:
    given = [example([5, 5, 5, 9, 9, 7], 2), example([8, 8, 7, 9, 4], 1)]
    # Answers: 5, 9, 9, 7 and 8, 7, 9, 4.
    ids, share = choose_vocab(given, 2)
    assert ids.tolist() == [7, 9]
    assert share == 5 / 8
    ids, share = choose_vocab(given, 7)  # more than there are: the lowest ids fill it up
    assert ids.tolist() == [0, 1, 4, 5, 7, 8, 9]
    assert share == 1.0
