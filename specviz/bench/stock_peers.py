"""The peers of transformers: `generate`, its assisted generation, its prompt lookup; all greedy.

Called as their documentation says, at our lane's number of drafts, with a fixed schedule: left to
themselves they would stop drafting when unsure, and drafts would not be equal. Torch and
transformers are imported inside the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specviz.bench import CannotMeasureError
from specviz.bench.generate import Generate, fastest
from specviz.bench.peers import Peer, PeerAnswer
from specviz.bench.run import BenchLane, Setup
from specviz.config import TargetSpec
from specviz.presets import SHIPPED_DRAFTERS

if TYPE_CHECKING:
    from specviz.lm.checkpoints import DrafterCheckpoint

PLAIN = "generate"
NUM_DTYPE_TRIES = 2
Tell = Callable[[str], None]


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


@dataclass(slots=True)
class StockPeers:
    """A `bench.peers.Peers`."""

    stock: Generate
    speeds: dict[str, float]
    peers: list[Peer] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    options: dict[str, dict[str, Any]] = field(default_factory=dict)  # of `generate`, by peer
    num_drafts: dict[str, int] = field(default_factory=dict)  # of those with a draft model

    @property
    def dtype(self) -> str:
        return self.stock.dtype

    def add(self, peer: Peer, options: dict[str, Any], num_drafts: int = 0) -> None:
        self.peers.append(peer)
        self.options[peer.name] = options
        self.num_drafts[peer.name] = num_drafts

    def answer(self, peer: Peer, prompt: Sequence[int], num_tokens: int) -> PeerAnswer:
        options = self.options[peer.name]
        if draft := options.get("assistant_model"):
            draft.generation_config = _fixed_drafts(self.num_drafts[peer.name])
        passes: list[None] = []
        hook = self.stock.model.get_decoder().register_forward_hook(lambda *_: passes.append(None))
        try:
            tokens, seconds = self.stock.answer(prompt, num_tokens, **options)
        finally:
            hook.remove()
        return PeerAnswer(tokens, seconds, len(passes))


def stock_peers(
    spec: TargetSpec, setup: Setup, drafts: DraftSource, num_tokens: int, tell: Tell
) -> StockPeers:
    """Loaded and warm. CannotMeasureError: transformers cannot run the target."""
    from specviz.lm.device import pick_device

    prompt = setup.start.prompt_tokens
    tell("Loading the peers: transformers on the same weights.")
    folder = _folder(spec)
    try:
        stock, speeds = fastest(folder, pick_device(), prompt, num_tokens, NUM_DTYPE_TRIES)
    except ValueError as error:
        raise CannotMeasureError(f"transformers cannot run {spec.name}: {error}") from error
    found = StockPeers(stock, speeds)
    plain = setup.lanes[0]
    found.add(Peer(PLAIN, plain.name, "generate(do_sample=False)"), {})
    for lane in setup.lanes:
        if lane.spec.drafter == "draft_model":
            _add_assisted(found, lane, drafts)
        elif lane.spec.drafter == "prompt_lookup":
            _add_lookup(found, lane)
    for peer in tuple(found.peers):
        tell(f"Warming up the peer {peer.name}.")
        try:
            found.answer(peer, prompt, num_tokens)
        except ValueError as error:
            found.left_out[peer.name] = str(error)
            found.peers.remove(peer)
    return found


def _add_lookup(found: StockPeers, lane: BenchLane) -> None:
    count, longest = (int(lane.start.knobs[name]) for name in ("num_draft_tokens", "max_ngram"))
    how = f"generate(prompt_lookup_num_tokens={count}, max_matching_ngram_size={longest})"
    options = {"prompt_lookup_num_tokens": count, "max_matching_ngram_size": longest}
    found.add(Peer(f"prompt lookup, as {lane.name}", lane.name, how), options)


def _add_assisted(found: StockPeers, lane: BenchLane, drafts: DraftSource) -> None:
    name = f"assisted generation, as {lane.name}"
    count = int(lane.start.knobs["num_draft_tokens"])
    try:
        draft = _draft_of(lane, drafts, found.stock)
    except (ValueError, OSError) as error:
        found.left_out[name] = str(error)
        return
    how = f"generate(assistant_model=the lane's draft), {count} drafts a round"
    found.add(Peer(name, lane.name, how), {"assistant_model": draft}, count)


def _draft_of(lane: BenchLane, drafts: DraftSource, stock: Generate) -> Any:
    """The lane's draft as a model of transformers. ValueError: why there is none."""
    from specviz.lm.checkpoints import load_checkpoint

    knobs = lane.start.knobs
    if knobs["is_adaptive"]:
        raise ValueError("The lane changes its number of drafts as it goes; the peer's is fixed.")
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


def _folder(spec: TargetSpec) -> Path:
    """Where the lanes' weights lie; they were loaded from there, so nothing is fetched."""
    from specviz.lm.weights import WeightsUnavailable, fetch

    steps = fetch(spec)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            folder: Path = end.value.folder
            return folder
        except WeightsUnavailable as error:
            raise CannotMeasureError(str(error)) from error
