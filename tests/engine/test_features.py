"""Hidden states that a drafter asks for: of every committed token but the root, at every round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from specviz.config import Exactness, LaneSpec, Request
from specviz.drafters import DRAFTERS
from specviz.drafters.base import DraftContext, Outcome, Proposal, TargetKit
from specviz.engine import Engine
from specviz.lm.base import FeatureTap
from specviz.presets import local_target
from specviz.session import drain
from specviz.trace import LaneEnd, RoundTrace
from specviz.tree import DraftTree
from tests.models import tiny_folder

SEEN: dict[str, list[DraftContext]] = {}
OUTCOMES: dict[str, list[Outcome]] = {}


@dataclass(frozen=True, slots=True)
class NoKnobs:
    """Nothing to set."""


class Watcher:
    """Drafts the last token again, so that some rounds accept, and keeps what it was shown."""

    Config: ClassVar[type] = NoKnobs
    title: ClassVar[str] = "Watcher"
    summary: ClassVar[str] = "For tests."
    paper: ClassVar[str] = ""
    exactness: ClassVar[Exactness] = "exact"
    taps: tuple[FeatureTap, ...] = (FeatureTap("input", 1), FeatureTap("normed"))
    description = "watches hidden states"

    def __init__(self, config: NoKnobs, kit: TargetKit) -> None:
        del config, kit
        self.name = type(self).__name__
        SEEN[self.name], OUTCOMES[self.name] = [], []

    def start(self, context: DraftContext) -> None:
        SEEN[self.name].append(context)

    def propose(self, context: DraftContext) -> Proposal:
        SEEN[self.name].append(context)
        root = context.tokens[-1]
        tree = DraftTree.chain(root, [root] * min(2, context.max_depth))
        return Proposal(tree, draft_probs=(1.0,) * len(tree))

    def observe(self, outcome: Outcome) -> None:
        OUTCOMES[self.name].append(outcome)


class OtherWatcher(Watcher):
    """Shares one tap with `Watcher`, in another order, and has one of its own."""

    taps = (FeatureTap("normed"), FeatureTap("output", 0), FeatureTap("output", 1))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tiny_folder(tmp_path_factory.mktemp("features") / "tiny")
    return Engine([local_target(str(folder))])


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("prompt", ["a", "one, two, one, two, one"])
def test_each_lane_sees_its_own_taps_of_every_token_but_the_root(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, precision: str, prompt: str
) -> None:
    monkeypatch.setitem(DRAFTERS, "watcher", f"{__name__}:Watcher")
    monkeypatch.setitem(DRAFTERS, "other", f"{__name__}:OtherWatcher")
    lanes = (LaneSpec("watcher"), LaneSpec("autoregressive"), LaneSpec("other"))
    (target,) = engine.targets
    request = Request(prompt, lanes, target, is_chat=False, precision=precision, max_new_tokens=12)
    events = drain(engine.run(request))
    assert {e.reason for e in events if isinstance(e, LaneEnd)} <= {"length", "stop"}
    assert any(isinstance(e, RoundTrace) for e in events)
    ready = next(iter(engine.store.get(engine.targets[target], request.precision)), None)
    assert ready is None, "still loaded"
    assert engine.store._ready is not None
    lm = engine.store._ready.loaded.lm
    for cls in (Watcher, OtherWatcher):
        for context in SEEN[cls.__name__]:
            fresh = lm.prefill(context.tokens[:-1], lm.new_cache(512), cls.taps)
            assert context.features is not None
            assert fresh is not None
            torch.testing.assert_close(context.features, fresh, atol=2e-4, rtol=1e-3)
        for outcome in OUTCOMES[cls.__name__]:
            assert outcome.features is not None
            assert len(outcome.features) == 1 + len(outcome.verdict.accepted_rows)
