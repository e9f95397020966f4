"""A tiny target and a corpus of its short answers, made once for all tests of training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specviz.train import shards
from specviz.train.data import build_corpus
from specviz.train.features import build_features
from specviz.train.plan import CorpusPlan
from tests.models import tiny_folder

PLAN = CorpusPlan(150, shard_prompts=80, num_passages=12)


@pytest.fixture(autouse=True, scope="session")
def _short_answers() -> Iterator[None]:
    """As training makes them, but of a dozen tokens: a shard takes a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "ANSWER_CAPS", ((6, 0.5), (14, 0.5)))
        patch.setattr(shards, "PASSAGE_TOKENS", 24)
        patch.setattr(shards, "TURN_TOKENS", 16)
        yield


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six layers, so that low, middle and high features differ."""
    folder = tmp_path_factory.mktemp("target") / "tiny"
    return tiny_folder(folder, num_hidden_layers=6, max_position_embeddings=1024)


@pytest.fixture(scope="session")
def corpus(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Answers and features. Tests read it and write nothing into it."""
    folder = tmp_path_factory.mktemp("corpus")
    for _ in build_corpus(target, folder, PLAN, num_workers=1):
        pass
    for _ in build_features(target, folder, num_workers=1):
        pass
    return folder
