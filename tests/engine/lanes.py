"""Lanes put together by hand: any language model, any drafter, any chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from specviz.config import KnobValue, SamplingParams, VerificationRule
from specviz.drafters import DRAFTERS, drafter_class
from specviz.drafters.base import Drafter, TargetKit
from specviz.drafters.knobs import knobs_of
from specviz.engine.lane import Lane, LaneParts
from specviz.engine.stopping import StopRule
from specviz.engine.store import head_rows
from specviz.lm.base import LanguageModel
from specviz.lm.checkpoints import DrafterCheckpoint
from specviz.lm.graphs import Recorder
from specviz.lm.sampling import Chance, Sampler, make_chance
from specviz.lm.text import TokenText
from specviz.trace import RoundTrace
from tests.drafters.checkpoints import MAKERS
from tests.models import tiny_tokenizer

TEXT = TokenText(tiny_tokenizer())
MAX_ROWS = 512
MakeDrafter = Callable[[TargetKit], Drafter]
Knobs = dict[str, KnobValue]


def kit_of(
    lm: LanguageModel,
    draft: LanguageModel | None = None,
    num_known_tokens: int | None = None,
    recorder: Recorder | None = None,
) -> TargetKit:
    """What a drafter is built with. `draft` stands in for every kind of draft model."""

    def copy(spec: Any) -> LanguageModel:
        if draft is None:
            raise ValueError("there is no copy in this test")
        return draft

    def trained(method: str) -> DrafterCheckpoint:
        if method not in MAKERS:
            raise ValueError(f"there are no {method} weights in this test")
        return MAKERS[method](lm)

    return TargetKit.of(
        lm,
        num_known_tokens=num_known_tokens or lm.vocab_size,
        head_rows=lambda ids: head_rows(lm, ids),
        copy=copy,
        has_quantised_copy=False,
        draft_lm=lambda: draft,
        recorder=recorder,
        trained=trained,
    )


@dataclass(frozen=True)
class Setup:
    """A lane but for its drafter."""

    lm: LanguageModel
    prompt: Sequence[int]
    budget: int = 24
    sampling: SamplingParams = field(default_factory=SamplingParams)
    rule: VerificationRule = "rejection"
    seed: int = 0
    eos: frozenset[int] = frozenset()
    stop_strings: tuple[str, ...] = ()
    num_known_tokens: int | None = None
    draft: LanguageModel | None = None
    recorder: Recorder | None = None  # of the drafter's work

    def lane(self, make: MakeDrafter, *, chance: Chance | None = None, index: int = 0) -> Lane:
        """The lane, its prompt read by target and drafter."""
        lm = self.lm
        cache = lm.new_cache(min(len(self.prompt) + self.budget, lm.max_context) + MAX_ROWS)
        drafter = make(kit_of(lm, self.draft, self.num_known_tokens, self.recorder))
        features = lm.prefill(self.prompt[:-1], cache, drafter.taps)
        parts = LaneParts(
            target=lm,
            text=TEXT,
            drafter=drafter,
            cache=cache,
            features=features,
            sampler=Sampler(self.sampling, self.num_known_tokens or lm.vocab_size),
            chance=chance or make_chance(self.rule, self.seed),
            rule=self.rule,
            stop=StopRule(
                TEXT,
                eos=self.eos,
                stop_strings=self.stop_strings,
                budget=self.budget,
                room=lm.max_context - len(self.prompt),
            ),
        )
        lane = Lane(index, self.prompt, parts)
        lane.start()
        return lane

    def play(self, make: MakeDrafter, *, chance: Chance | None = None) -> list[RoundTrace]:
        """All rounds until the lane ends."""
        return finish(self.lane(make, chance=chance))

    def answer(self, make: MakeDrafter, *, chance: Chance | None = None) -> list[int]:
        return answer_of(self.play(make, chance=chance))


def finish(lane: Lane) -> list[RoundTrace]:
    rounds = []
    while lane.end_reason is None:
        rounds.append(lane.play_round())
        assert lane.parts.cache.length == len(lane.tokens) - 1, "only the root is uncached"
    return rounds


def answer_of(rounds: Sequence[RoundTrace]) -> list[int]:
    return [token for round_ in rounds for token in round_.new_tokens]


def registered(name: str, knobs: Knobs | None = None) -> MakeDrafter:
    """A drafter of the registry with some knobs set."""

    def make(kit: TargetKit) -> Drafter:
        cls = drafter_class(name)
        return cls(cls.Config(**(knobs or {})), kit)

    return make


PLAIN = registered("autoregressive")


def knob_settings(name: str) -> list[Knobs]:
    """Defaults, every number at its smallest and at its largest, every switch and choice."""
    knobs = knobs_of(drafter_class(name).Config)
    numbers = [k for k in knobs if not isinstance(k.default, bool) and not k.choices]
    small = {k.name: type(k.default)(k.minimum) for k in numbers}
    large = {k.name: type(k.default)(k.maximum) for k in numbers}
    switches = [{k.name: not k.default} for k in knobs if isinstance(k.default, bool)]
    choices = [{k.name: choice} for k in knobs for choice in k.choices if choice != k.default]
    settings: list[Knobs] = [{}, *((small, large) if numbers else ()), *switches, *choices]
    return settings


def described(knobs: Knobs) -> str:
    return " ".join(f"{name}={value}" for name, value in knobs.items()) or "defaults"


ALL_SETTINGS = [(name, knobs) for name in DRAFTERS for knobs in knob_settings(name)]
SETTING_IDS = [f"{name} {described(knobs)}" for name, knobs in ALL_SETTINGS]


def why_not_here(name: str, knobs: Knobs, setup: Setup) -> str | None:
    """Why the drafter cannot run on the setup's model, or None."""
    try:
        registered(name, knobs)(kit_of(setup.lm, setup.draft))
    except ValueError as reason:
        return str(reason)
    return None


def make_or_skip(name: str, knobs: Knobs, setup: Setup) -> MakeDrafter:
    if (reason := why_not_here(name, knobs, setup)) is not None:
        pytest.skip(reason)
    return registered(name, knobs)


def makes_here(setup: Setup) -> dict[str, MakeDrafter]:
    """Every drafter at every setting that can run on the setup's model, by description."""
    named = zip(SETTING_IDS, ALL_SETTINGS, strict=True)
    return {
        text: registered(name, knobs)
        for text, (name, knobs) in named
        if why_not_here(name, knobs, setup) is None
    }
