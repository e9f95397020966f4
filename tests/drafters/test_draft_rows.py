"""A drafter's captured work against the same work called: the same drafts, the same text.

`TracingRecorder` freezes what Python decided, as a CUDA graph does; on a real GPU the same is asked
in `tests/lm/test_graphs_gpu.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from specviz.config import SamplingParams
from specviz.drafters.base import Drafter, TargetKit
from specviz.drafters.draft_rows import ROW_SIZES
from specviz.drafters.eagle import FeatureDrafter
from specviz.lm.draft_cache import FixedCache
from specviz.lm.graphs import EagerRecorder, Recorder
from specviz.trace import RoundTrace
from tests.engine.lanes import Knobs, Setup, finish, kit_of, registered
from tests.lm.captured import CallingRecorder, RefusingRecorder, TracingRecorder
from tests.models import tiny

PROMPT = tuple(range(3, 60, 2))
DRAFTERS: dict[str, Knobs] = {
    "eagle": {"budget": 20},
    "eagle2": {"top_k": 3, "depth": 4, "budget": 12},
    "eagle3": {"top_k": 4, "depth": 3, "budget": 16},
    "mtp": {"num_draft_tokens": 4, "top_k": 1},
}
ALL = sorted(DRAFTERS)


def played(
    name: str, recorder: Recorder | None, *, temperature: float = 0.0, budget: int = 40
) -> tuple[list[RoundTrace], FeatureDrafter]:
    sampling = SamplingParams(temperature=temperature)
    setup = Setup(
        tiny(num_hidden_layers=6), PROMPT, budget, sampling=sampling, recorder=recorder, seed=4
    )
    lane = setup.lane(registered(name, DRAFTERS[name]))
    drafter = lane.parts.drafter
    assert isinstance(drafter, FeatureDrafter)
    return finish(lane), drafter


def same(ours: Sequence[RoundTrace], truth: Sequence[RoundTrace]) -> None:
    assert [(r.tree, r.new_tokens) for r in ours] == [(r.tree, r.new_tokens) for r in truth]
    for one, other in zip(ours, truth, strict=True):
        torch.testing.assert_close(one.draft_probs, other.draft_probs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_frozen_work_drafts_what_called_work_drafts(name: str) -> None:
    """Behind a text that grows by another number of tokens each round, to the last token."""
    recorder = TracingRecorder()
    ours, _ = played(name, recorder)
    truth, _ = played(name, None)
    same(ours, truth)
    assert recorder.num_recorded == len(ROW_SIZES) + 1
    if name != "mtp":  # a random one is never right
        assert len({len(round_.new_tokens) for round_ in truth}) > 1


@pytest.mark.parametrize("name", ["eagle", "mtp"])
def test_drawn_drafts_are_called_behind_frozen_passes(name: str) -> None:
    recorder = TracingRecorder()
    ours, _ = played(name, recorder, temperature=1.0)
    same(ours, played(name, None, temperature=1.0)[0])
    assert recorder.num_recorded == len(ROW_SIZES)


@pytest.mark.parametrize("name", ALL)
def test_work_that_cannot_be_captured_is_called_and_says_so(name: str) -> None:
    ours, drafter = played(name, RefusingRecorder())
    same(ours, played(name, None)[0])
    assert drafter.description.endswith(
        "called step by step, as it cannot be captured: "
        "operation not permitted when stream is capturing"
    )


@pytest.mark.parametrize("name", ALL)
def test_a_card_without_the_kernel_gets_rows_that_are_called(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a T4 the first pass over the prompt raised, and ended the run of all lanes."""

    def without_kernel(*_: object, **__: object) -> torch.Tensor:
        raise RuntimeError("cutlassF: no kernel found to launch!\nsecond line")

    monkeypatch.setattr(FixedCache, "attend", without_kernel)
    ours, drafter = played(name, EagerRecorder())
    same(ours, played(name, None)[0])
    assert drafter.description.endswith(
        "it cannot be captured: cutlassF: no kernel found to launch!"
    )


@pytest.mark.parametrize("name", ALL)
def test_each_level_has_its_time(name: str) -> None:
    rounds, drafter = played(name, EagerRecorder())
    assert "called step by step" not in drafter.description
    for round_ in rounds:
        depth = max(candidate.depth for candidate in round_.candidates) if round_.candidates else 0
        assert len(round_.draft_step_seconds) == depth
        assert 0.0 <= sum(round_.draft_step_seconds) <= round_.draft_seconds


@pytest.mark.parametrize("name", ALL)
def test_work_is_captured_once_and_on_no_clock(name: str) -> None:
    """It was told as the drafter's own prefill, and a probe of a drafter captured all of it in vain."""
    recorder = CallingRecorder()
    setup = Setup(tiny(num_hidden_layers=6), PROMPT, 40, recorder=recorder)
    made: list[Drafter] = []

    def watched(kit: TargetKit) -> Drafter:
        made.append(registered(name, DRAFTERS[name])(kit))
        return made[0]

    lane = setup.lane(watched)
    assert recorder.num_recorded == len(ROW_SIZES) + 1
    lane.play_round()
    assert recorder.num_recorded == len(ROW_SIZES) + 1
    again = registered(name, DRAFTERS[name])(kit_of(setup.lm, recorder=recorder))
    again.start(lane._context())
    assert recorder.num_recorded == len(ROW_SIZES) + 1, "start reads, and captures nothing"


def test_a_budget_of_one_token_and_a_prompt_of_one_need_no_rehearsal() -> None:
    for prompt, budget in ((PROMPT, 1), ((7,), 12)):
        recorder = CallingRecorder()
        answers = [
            Setup(tiny(num_hidden_layers=6), prompt, budget, recorder=each).answer(
                registered("eagle3", DRAFTERS["eagle3"])
            )
            for each in (recorder, None)
        ]
        assert answers[0] == answers[1]
        assert recorder.num_recorded == 0
