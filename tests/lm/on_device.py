"""What must hold of captured passes on any device: tried on a CPU by recorders that stand in for
graphs, and on a GPU by graphs."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from specviz.config import SamplingParams
from specviz.engine.store import ModelStore
from specviz.lm.base import FeatureTap, LanguageModel
from specviz.lm.graphed import graphed
from specviz.lm.graphs import Recorder
from specviz.lm.plain import PlainLM, load_plain
from specviz.lm.quantised import load_quantised
from specviz.presets import local_target
from specviz.shapes import Form
from specviz.tree import DraftTree
from tests.engine.lanes import PLAIN, Setup, registered
from tests.lm.standins import drained
from tests.lm.test_plain import random_tokens, random_tree

TAPS = (FeatureTap("input", 1), FeatureTap("normed"))
SIZES = ((1, 0), (3, 9), (20, 1), (64, 40), (70, 20))  # rows, cached tokens before them
SAMPLED = ("eagle3", "medusa", "draft_model")


def quantised_pair(
    folder: Path, form: Form, device: torch.device, recorder: Recorder | None = None
) -> tuple[PlainLM, LanguageModel]:
    """Two models of the same quantised weights, the second captured if it can be."""
    plain, other = (load_quantised(folder, form, device=device, context=128) for _ in range(2))
    return plain, graphed(other, recorder)


def read_by(lm: LanguageModel, prefix: Sequence[int], tree: DraftTree) -> tuple[Tensor, Tensor]:
    """Logits and features."""
    cache = lm.new_cache(len(prefix) + len(tree))
    lm.prefill(prefix, cache, TAPS)
    output = lm.read(tree, cache, TAPS)
    assert output.features is not None
    return output.logits.float(), output.features.float()


def assert_reads_alike(fast: LanguageModel, plain: PlainLM, tolerance: float) -> None:
    """Trees of all sizes; tolerance: of the spread of what the plain path reads."""
    rng = Random(5)
    for num_rows, num_cached in SIZES:
        prefix = random_tokens(rng, plain, num_cached)
        tree = random_tree(rng, plain.vocab_size, num_rows)
        for ours, truth in zip(*(read_by(lm, prefix, tree) for lm in (fast, plain)), strict=True):
            assert float((ours - truth).abs().max()) <= tolerance * float(truth.max() - truth.min())


def sampled_answers(lm: LanguageModel, recorder: Recorder | None = None) -> list[list[int]]:
    """At temperature 1, each lane taking its turn: by plain decoding, then by drafters.

    Coupled, all draw the same tokens from the same model, so all answers are the first.
    """
    sampling, prompt = SamplingParams(temperature=1.0), list(range(3, 40))
    setup = Setup(lm, prompt, 24, sampling, rule="coupled", seed=4, draft=lm, recorder=recorder)
    lanes = [setup.lane(make) for make in (PLAIN, *map(registered, SAMPLED))]
    while any(lane.end_reason is None for lane in lanes):
        for lane in lanes:
            if lane.end_reason is None:
                lane.play_round()
    return [list(lane.tokens[len(prompt) :]) for lane in lanes]


def assert_models_switch(store: ModelStore, folders: Sequence[Path], kind: type[Any]) -> None:
    """Each target in turn, the first once more at the end: every answer is that of its own weights,
    and the target before it is gone."""
    prompt, before = list(range(3, 20)), None
    for folder in (*folders, folders[0]):
        target = drained(store.get(local_target(str(folder)), "float32"))[0]
        gc.collect()
        assert before is None or before() is None, "two models in memory"
        lm = target.loaded.lm
        assert isinstance(lm, kind), lm.path
        alone = load_plain(folder, dtype=torch.float32, device=store.device)
        assert Setup(lm, prompt, 12).answer(PLAIN) == Setup(alone, prompt, 12).answer(PLAIN)
        before = weakref.ref(lm)
        del target, lm, alone
