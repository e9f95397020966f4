"""The default target's real weights: speculative text is plain text, and plain text is generate's.

float32: every lane equals transformers' own `generate`. Packed bfloat16: every lane equals the
plain lane, because a row of a tree is bit for bit the row that plain decoding reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from specviz.config import LaneSpec, Precision, SamplingParams
from specviz.engine import Engine
from specviz.engine.store import ReadyTarget
from specviz.lm.linear import why_not_packed
from specviz.lm.packed import PackedLM
from specviz.session import LiveSession, drain
from specviz.tree import DraftTree
from tests.live import answers, request

pytestmark = [pytest.mark.default_model, pytest.mark.alone]
needs_packed = pytest.mark.skipif(why_not_packed() is not None, reason=str(why_not_packed()))

PROMPTS = (
    "The capital of France is",
    "Repeat this exactly: def add(a, b): return a + b  # def add(a, b): return a + b",
    "Write one sentence about the sea.",
)
NUM_TOKENS = 48
LANES = (
    LaneSpec("autoregressive"),
    LaneSpec("prompt_lookup", (("min_ngram", 1),)),
    LaneSpec("lookahead"),
    LaneSpec("draft_model", (("draft", "truncated copy"), ("num_layers", 6))),
    *map(LaneSpec, ("draft_model", "medusa", "eagle", "eagle2", "eagle3")),  # with shipped weights
)
TUNED = (LaneSpec("autoregressive", (("backbone", "mtp"),)), LaneSpec("mtp"))


@pytest.fixture(scope="module", autouse=True)
def all_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def session() -> Iterator[LiveSession]:
    session = LiveSession()
    yield session
    session.close()


def ready(session: LiveSession) -> ReadyTarget:
    """What the session has loaded."""
    engine = session._engine
    assert isinstance(engine, Engine)
    assert engine.store._ready is not None
    return engine.store._ready


@pytest.mark.parametrize("prompt", PROMPTS)
def test_float32_lanes_write_what_generate_writes(session: LiveSession, prompt: str) -> None:
    events = drain(
        session.events(request(session, *LANES, prompt=prompt, max_new_tokens=NUM_TOKENS))
    )
    found = answers(events)
    assert len(set(found.values())) == 1
    loaded = ready(session).loaded
    tokens = torch.tensor([events[0].prompt_tokens])  # type: ignore[union-attr]
    with torch.random.fork_rng():
        theirs = loaded.lm.model.generate(  # type: ignore[attr-defined]
            tokens,
            attention_mask=torch.ones_like(tokens),
            do_sample=False,
            max_new_tokens=NUM_TOKENS,
            eos_token_id=sorted(loaded.eos),
            pad_token_id=0,
        )
    assert found[0] == tuple(theirs[0, tokens.shape[1] :].tolist())


@needs_packed
@pytest.mark.parametrize("prompt", PROMPTS)
def test_packed_lanes_write_what_the_plain_lane_writes(session: LiveSession, prompt: str) -> None:
    lanes = (*LANES, LaneSpec("draft_model", (("draft", "4-bit copy"),)))
    wanted = request(
        session, *lanes, prompt=prompt, max_new_tokens=NUM_TOKENS, precision="bfloat16"
    )
    assert len(set(answers(drain(session.events(wanted))).values())) == 1


@pytest.mark.parametrize("precision", ["float32", pytest.param("bfloat16", marks=needs_packed)])
def test_mtp_writes_what_its_tuned_backbone_writes(
    session: LiveSession, precision: Precision
) -> None:
    wanted = request(
        session, *TUNED, prompt=PROMPTS[0], max_new_tokens=NUM_TOKENS, precision=precision
    )
    assert len(set(answers(drain(session.events(wanted))).values())) == 1


@needs_packed
def test_packed_lanes_agree_when_coupled(session: LiveSession) -> None:
    wanted = request(
        session,
        *LANES,
        prompt=PROMPTS[2],
        max_new_tokens=NUM_TOKENS,
        precision="bfloat16",
        sampling=SamplingParams(temperature=1.0, top_p=0.95),
        verification="coupled",
        seed=3,
    )
    assert len(set(answers(drain(session.events(wanted))).values())) == 1


@needs_packed
@pytest.mark.parametrize("before", [20, 360, 900])  # a long sum over keys may be split somewhere
def test_a_tree_reads_bitwise_as_one_row_at_a_time(session: LiveSession, before: int) -> None:
    """Over a hundred tokens of real text: the promise that the packed lanes' equality rests on."""
    drain(
        session.events(
            request(session, LANES[0], prompt="Hi", max_new_tokens=1, precision="bfloat16")
        )
    )
    loaded = ready(session).loaded
    lm = loaded.lm
    assert isinstance(lm, PackedLM)
    text = loaded.tokenizer.encode(Path(__file__).read_text(encoding="utf-8"))
    cache = lm.new_cache(before + 280)
    lm.prefill(text[:before], cache)
    alone_cache = cache.clone()
    alone = []
    for token in text[before : before + 100]:
        alone.append(lm.read(DraftTree.chain(token), alone_cache).logits[0])
        alone_cache.keep((0,))
    done = 0
    for size in (7, 1, 16, 31, 4, 12, 9, 20):  # 100 tokens, up to 110 rows at once
        right = text[before + done : before + done + size]
        wrong = [[*right[:cut], *range(1000, 1008)] for cut in range(1, size, 3)]
        tree = DraftTree.from_paths(right[0], [right[1:], *(path[1:] for path in wrong)])
        logits = lm.read(tree, cache).logits
        for row in range(size):
            assert torch.equal(logits[row], alone[done + row]), (done, row, len(tree))
        cache.keep(range(size))
        done += size
    assert done == 100
    assert torch.equal(cache.buffer[:, :, : cache.length], alone_cache.buffer[:, :, : cache.length])
