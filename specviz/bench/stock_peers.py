"""The peers of transformers: `generate`, its assisted generation, its prompt lookup; all greedy.

Called as their documentation says, at our lane's number of drafts, with a fixed schedule: left to
themselves they would stop drafting when unsure, and drafts would not be equal. Each peer computes
in the dtype that is faster for it. Torch and transformers are imported inside the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from specviz.bench import CannotMeasureError
from specviz.bench.generate import DTYPES, Generate
from specviz.bench.getting import Tell, finished
from specviz.bench.peers import Peer, PeerAnswer
from specviz.bench.run import BenchLane, Setup
from specviz.config import WIDTH_KNOB, TargetSpec
from specviz.presets import SHIPPED_DRAFTERS

if TYPE_CHECKING:
    from specviz.lm.checkpoints import DrafterCheckpoint

PLAIN = "generate"
NUM_DTYPE_TRIES = 2


@dataclass(frozen=True, slots=True)
class DraftSource:
    """Where a draft model could come from, in the order in which the lane looks."""

    own: Path | None  # --draft
    drafters: Path | None  # --drafters
    target: str

    @property
    def trained(self) -> Path | None:
        for root in (self.drafters, SHIPPED_DRAFTERS / self.target):
            if root is not None and (root / "draft_model").is_dir():
                return root / "draft_model"
        return None


@dataclass(frozen=True, slots=True)
class _Call:
    """One way of calling a model of transformers."""

    stock: Generate
    options: dict[str, Any]  # of `generate`
    num_drafts: int  # a round, if a model drafts

    def answer(self, prompt: Sequence[int], num_tokens: int) -> PeerAnswer:
        if draft := self.options.get("assistant_model"):
            draft.generation_config = _fixed_drafts(self.num_drafts)
        passes: list[None] = []
        hook = self.stock.model.get_decoder().register_forward_hook(lambda *_: passes.append(None))
        try:
            tokens, seconds = self.stock.answer(prompt, num_tokens, **self.options)
        finally:
            hook.remove()
        return PeerAnswer(tokens, seconds, len(passes))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A peer that may be run in any dtype."""

    name: str
    lane: str
    how: str
    options: Callable[[Generate], dict[str, Any]]  # ValueError, OSError: why it cannot be run
    num_drafts: int = 0


@dataclass(slots=True)
class StockPeers:
    """A `bench.peers.Peers`."""

    peers: list[Peer] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    calls: dict[str, _Call] = field(default_factory=dict)  # by peer

    def answer(self, peer: Peer, prompt: Sequence[int], num_tokens: int) -> PeerAnswer:
        return self.calls[peer.name].answer(prompt, num_tokens)


def stock_peers(
    spec: TargetSpec, setup: Setup, drafts: DraftSource, num_tokens: int, tell: Tell
) -> StockPeers:
    """Loaded and warm. CannotMeasureError: transformers cannot run the target."""
    from specviz.lm.device import pick_device

    tell("Loading the peers: transformers on the same weights.")
    folder, device = _folder(spec, tell), pick_device()
    try:
        models = [Generate(folder, dtype, device) for dtype in DTYPES]
    except (ValueError, OSError) as error:
        raise CannotMeasureError(f"transformers cannot run {spec.name}: {error}") from error
    found, prompt = StockPeers(), setup.start.prompt_tokens
    for wanted in _wanted(setup, drafts):
        tell(f"Warming up the peer {wanted.name} in {' and '.join(DTYPES)}.")
        try:
            calls = [_Call(stock, wanted.options(stock), wanted.num_drafts) for stock in models]
            speeds = _speeds(calls, prompt, num_tokens)
        except (ValueError, OSError) as error:
            found.left_out[wanted.name] = str(error)
            continue
        best = max(calls, key=lambda call: speeds[call.stock.dtype])
        found.calls[wanted.name] = best
        found.peers.append(Peer(wanted.name, wanted.lane, wanted.how, best.stock.dtype, speeds))
    if PLAIN in found.left_out:
        raise CannotMeasureError(f"transformers cannot run {spec.name}: {found.left_out[PLAIN]}")
    return found


def _speeds(calls: Sequence[_Call], prompt: Sequence[int], num_tokens: int) -> dict[str, float]:
    """Tokens per second by dtype (median, warmed up, in turn): what suits one row, several may not."""
    for call in calls:
        call.answer(prompt, num_tokens)
    seconds: dict[str, list[float]] = {call.stock.dtype: [] for call in calls}
    for _ in range(NUM_DTYPE_TRIES):
        for call in calls:
            seconds[call.stock.dtype].append(call.answer(prompt, num_tokens).seconds)
    return {dtype: num_tokens / median(times) for dtype, times in seconds.items()}


def _wanted(setup: Setup, drafts: DraftSource) -> Iterator[_Wanted]:
    """Plain `generate`, and one peer for each lane of ours that transformers has its like of."""
    yield _Wanted(PLAIN, setup.lanes[0].name, "generate(do_sample=False)", lambda _: {})
    for lane in setup.lanes:
        if lane.spec.drafter == "draft_model":
            yield _assisted(lane, drafts)
        elif lane.spec.drafter == "prompt_lookup":
            yield _lookup(lane)


def _lookup(lane: BenchLane) -> _Wanted:
    count, longest = (int(lane.start.knobs[name]) for name in ("num_draft_tokens", "max_ngram"))
    how = f"generate(prompt_lookup_num_tokens={count}, max_matching_ngram_size={longest})"
    options = {"prompt_lookup_num_tokens": count, "max_matching_ngram_size": longest}
    return _Wanted(f"prompt lookup, as {lane.name}", lane.name, how, lambda _: options)


def _assisted(lane: BenchLane, drafts: DraftSource) -> _Wanted:
    count = int(lane.start.knobs["num_draft_tokens"])
    return _Wanted(
        name=f"assisted generation, as {lane.name}",
        lane=lane.name,
        how=f"generate(assistant_model=the lane's draft), {count} drafts a round",
        options=lambda stock: {"assistant_model": _draft_of(lane, drafts, stock)},
        num_drafts=count,
    )


def _draft_of(lane: BenchLane, drafts: DraftSource, stock: Generate) -> Any:
    """The lane's draft as a model of transformers. ValueError: why there is none."""
    from specviz.lm.checkpoints import load_checkpoint

    knobs = lane.start.knobs
    if knobs["is_adaptive"]:
        raise ValueError("The lane changes its number of drafts as it goes; the peer's is fixed.")
    if knobs[WIDTH_KNOB] != 1:
        raise ValueError("The lane drafts a tree, and the peer can only draft a chain.")
    wanted = knobs["draft"]
    if wanted in ("auto", "own checkpoint") and drafts.own is not None:
        return Generate(drafts.own, stock.dtype, stock.device).model
    if wanted in ("auto", "trained") and drafts.trained is not None:
        return _trained_draft(load_checkpoint(drafts.trained), stock)
    raise ValueError(
        "The lane's draft is a copy of the target made in memory, which transformers cannot load."
    )


def _trained_draft(checkpoint: DrafterCheckpoint, stock: Generate) -> Any:
    """Its layers between the target's embedding and head, the head cut to the draft vocabulary.

    transformers wants logits of the whole vocabulary, so those of other tokens are filled in; it
    drafts the same tokens as the lane, up to rounding.
    """
    import torch

    from specviz.lm.checkpoints import draft_ids
    from specviz.lm.draft_lm import load_draft_lm
    from specviz.lm.plain import PlainLM

    target = stock.model
    embedding = target.get_input_embeddings().weight.detach()
    vocab_size = len(embedding)
    ids = draft_ids(checkpoint, vocab_size=vocab_size, num_known_tokens=vocab_size)
    ids = ids.to(embedding.device)
    head = target.get_output_embeddings().weight.detach()[ids]
    context = int(target.config.max_position_embeddings)
    # In float32, as in bfloat16 on a CPU it would be our packed model and none of theirs.
    lm = load_draft_lm(checkpoint, embedding.float(), head.float(), context=context)
    assert isinstance(lm, PlainLM), "drafts in float32 are models of transformers"
    model = lm.model.to(getattr(torch, stock.dtype))
    model.lm_head = _whole_vocabulary(model.lm_head, ids, vocab_size)
    return model


def _whole_vocabulary(head: Any, ids: Any, vocab_size: int) -> Any:
    """A head of (.., H) -> (.., V) that can only name `ids`, at the cost of those alone."""
    import torch

    class WholeVocabulary(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = head

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            some: torch.Tensor = self.head(hidden)
            least = torch.finfo(some.dtype).min
            logits = some.new_full((*some.shape[:-1], vocab_size), least)
            logits[..., ids] = some
            return logits

    return WholeVocabulary()


def _fixed_drafts(count: int) -> Any:
    """Exactly `count` drafts a round: not fewer when unsure, which is the default."""
    from transformers import GenerationConfig

    return GenerationConfig(
        do_sample=False,
        pad_token_id=0,
        num_assistant_tokens=count,
        num_assistant_tokens_schedule="constant",
        assistant_confidence_threshold=0.0,
    )


def _folder(spec: TargetSpec, tell: Tell) -> Path:
    """Where the lanes' weights lie; they were loaded from there, so nothing is fetched."""
    from specviz.lm.weights import fetch

    return finished(fetch(spec), tell).folder
