"""Features on disk are what the target thinks when it reads the examples again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from specviz.lm.batched import BatchedLM
from specviz.train.data import load_corpus
from specviz.train.features import (
    build_features,
    features_of,
    features_path,
    lacking_features,
    stored_taps,
)
from tests.models import tiny_folder


def test_features_are_those_of_a_fresh_read_of_each_example(target: Path, corpus: Path) -> None:
    lm = BatchedLM(target, torch.device("cpu"))
    taps = stored_taps(6)
    for example in load_corpus(corpus)[::7]:
        _, fresh = lm.read(example.tokens.long()[None], taps)
        assert fresh is not None
        kept = features_of(example, 4 * lm.hidden_size)
        assert kept.shape == (len(example.tokens), 4 * 64)
        # Batches round differently from one sequence alone: bfloat16, so three digits.
        scale = fresh[0].float().abs().amax()
        assert ((kept.float() - fresh[0].float()).abs().amax() / scale) < 0.03


def test_interrupted_it_goes_on_to_the_same_files(
    target: Path, corpus: Path, tmp_path: Path
) -> None:
    for path in corpus.glob("*[0-9].*"):
        if path.suffix != ".features":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    shards = lacking_features(tmp_path)
    assert len(shards) == 3
    events = build_features(target, tmp_path, 1)
    told = [next(events) for _ in range(4)]
    events.close()  # type: ignore[attr-defined]
    assert told[0].done == 0
    assert 0 < told[-1].done < told[-1].total
    rest = list(build_features(target, tmp_path, 1))
    assert rest[-1].done == rest[-1].total
    assert lacking_features(tmp_path) == []
    for shard in shards:
        made = features_path(shard).read_bytes()
        assert made == features_path(corpus / shard.name).read_bytes()


def test_a_target_of_few_layers_and_an_empty_folder_are_refused(
    target: Path, tmp_path: Path
) -> None:
    flat = tiny_folder(tmp_path / "flat", num_hidden_layers=3)
    with pytest.raises(
        ValueError, match="has 3 layers; training reads states inside a target of 4"
    ):
        next(build_features(flat, tmp_path, 1))
    with pytest.raises(ValueError, match="holds no corpus"):
        next(build_features(target, tmp_path, 1))
