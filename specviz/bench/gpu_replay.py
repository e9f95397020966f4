"""Rounds whose outcome is fixed beforehand: what a round costs at a stated acceptance.

The target really reads, the engine really verifies, a drafter may really draft. But the text is
written before: every row's logits are raised for the token that the script has there, and the rows
proposed are the script's for as many tokens as the round is to accept, wrong ones behind. So speed
can be measured on weights that mean nothing, and two machines measure the same rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from specviz.config import Exactness, SamplingParams
from specviz.trace import RoundTrace
from specviz.tree import DraftTree

if TYPE_CHECKING:
    from torch import Tensor

    from specviz.drafters.base import DraftContext, Drafter, Outcome, Proposal
    from specviz.lm.base import FeatureTap, KVCache, LanguageModel, LMOutput
    from specviz.lm.graphs import Recorder
    from specviz.lm.text import TokenText

SURE = 10_000.0  # a logit above every other
MAX_ROWS = 512  # room in the cache for a pass in flight


class ScriptedTarget:
    """`lm.base.LanguageModel` that reads as another does, and always prefers the script's token."""

    def __init__(self, lm: LanguageModel, script: Sequence[int]) -> None:
        self.lm, self.script = lm, tuple(script)
        self.vocab_size, self.hidden_size = lm.vocab_size, lm.hidden_size
        self.num_layers, self.num_parameters = lm.num_layers, lm.num_parameters
        self.max_context, self.device, self.dtype = lm.max_context, lm.device, lm.dtype
        self.path = lm.path

    def read(self, tree: DraftTree, cache: KVCache, taps: Sequence[FeatureTap] = ()) -> LMOutput:
        import torch

        output = self.lm.read(tree, cache, taps)
        next_tokens = [self.script[cache.length + depth + 1] for depth in tree.depths]
        with torch.inference_mode():
            column = torch.tensor(next_tokens, device=self.device)[:, None]
            output.logits.scatter_(1, column, SURE)
        return output

    def new_cache(self, capacity: int) -> KVCache:
        return self.lm.new_cache(capacity)

    def settle(self, cache: KVCache, taps: Sequence[FeatureTap] = ()) -> None:
        self.lm.settle(cache, taps)

    def prefill(
        self, tokens: Sequence[int], cache: KVCache, taps: Sequence[FeatureTap] = ()
    ) -> Tensor | None:
        return self.lm.prefill(tokens, cache, taps)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.lm.embed(tokens)

    def head(self, hidden: Tensor) -> Tensor:
        return self.lm.head(hidden)


class ScriptedDrafter:
    """Proposes chains of which the target accepts a given number of tokens, round by round.

    With a drafter inside, that one drafts first, and its proposal is thrown away.
    """

    Config: ClassVar[type] = object
    title: ClassVar[str] = "Replay"
    summary: ClassVar[str] = "Drafts what a script says."
    paper: ClassVar[str] = ""
    exactness: ClassVar[Exactness] = "exact"
    description = "a script"

    def __init__(
        self,
        script: Sequence[int],
        lengths: Sequence[int],
        num_rows: int,
        inside: Drafter | None = None,
    ) -> None:
        self.script, self.lengths, self.num_rows = tuple(script), tuple(lengths), num_rows
        self.inside = inside
        self.taps = () if inside is None else inside.taps
        self._num_rounds = 0

    def start(self, context: DraftContext) -> None:
        if self.inside is not None:
            self.inside.start(context)

    def settle(self, context: DraftContext) -> None:
        from specviz.drafters.base import settle

        if self.inside is not None:
            settle(self.inside, context)

    def propose(self, context: DraftContext) -> Proposal:
        from specviz.drafters.base import Proposal

        steps = () if self.inside is None else self.inside.propose(context).step_seconds
        count = min(self.num_rows - 1, context.max_depth)
        num_right = self.lengths[self._num_rounds % len(self.lengths)]
        self._num_rounds += 1
        start = len(context.tokens)
        draft = [
            token if index < num_right else token - 1 if token else 1
            for index, token in enumerate(self.script[start : start + count])
        ]
        tree = DraftTree.chain(context.tokens[-1], draft)
        return Proposal(tree, (1.0,) * len(tree), step_seconds=steps)

    def observe(self, outcome: Outcome) -> None:
        if self.inside is not None:
            self.inside.observe(outcome)


@dataclass(frozen=True, slots=True)
class Stage:
    """What replays are played on."""

    target: LanguageModel
    text: TokenText
    script: tuple[int, ...]  # the prompt, the answer, and a longest pass more
    num_prompt_tokens: int


def script_of(num_tokens: int, vocab_size: int) -> tuple[int, ...]:
    """Any tokens will do, as long as neighbours differ."""
    return tuple((7 + 31 * i) % vocab_size for i in range(num_tokens))


def replayed(stage: Stage, drafter: ScriptedDrafter, num_tokens: int) -> list[RoundTrace]:
    """The rounds of a lane that writes `num_tokens` of the script."""
    from specviz.engine.lane import Lane, LaneParts
    from specviz.engine.stopping import StopRule
    from specviz.lm.sampling import Sampler, make_chance

    target = ScriptedTarget(stage.target, stage.script)
    prompt = stage.script[: stage.num_prompt_tokens]
    cache = target.new_cache(len(prompt) + num_tokens + MAX_ROWS)
    features = target.prefill(prompt[:-1], cache, drafter.taps)
    stop = StopRule(
        stage.text, eos=frozenset(), stop_strings=(), budget=num_tokens, room=num_tokens
    )
    parts = LaneParts(
        target=target,
        text=stage.text,
        drafter=drafter,
        cache=cache,
        features=features,
        sampler=Sampler(SamplingParams(), target.vocab_size),
        chance=make_chance("rejection", 0),
        rule="rejection",
        stop=stop,
    )
    lane, rounds = Lane(0, prompt, parts), list[RoundTrace]()
    lane.start()
    while lane.end_reason is None:
        rounds.append(lane.play_round())
    return rounds


def drafting_kit(lm: LanguageModel, checkpoint: Any, recorder: Recorder | None) -> Any:
    """A `TargetKit` of a target that has one trained drafter and nothing else."""
    from specviz.drafters.base import TargetKit
    from specviz.engine.store import head_rows

    def no_copy(spec: object) -> LanguageModel:
        raise ValueError(f"There is no copy of this model to draft with: {spec}")

    def trained(method: str) -> Any:
        del method
        return checkpoint

    return TargetKit.of(
        lm,
        num_known_tokens=lm.vocab_size,
        head_rows=lambda ids: head_rows(lm, ids),
        copy=no_copy,
        has_quantised_copy=False,
        draft_lm=lambda: None,
        recorder=recorder,
        trained=trained,
    )
