"""The peers of transformers on tiny real models, in float32 on both sides so that texts agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.__main__ import main
from specviz.bench import stock_peers as stock_peers_module
from specviz.bench.generate import Generate
from specviz.bench.run import PLAIN, BenchLane, Setup
from specviz.bench.stock_peers import DraftSource, StockPeers, stock_peers
from specviz.config import LaneSpec
from specviz.lm.checkpoints import DrafterCheckpoint, load_checkpoint, save_checkpoint
from specviz.lm.plain import PlainLM
from specviz.presets import local_target
from specviz.trace import LaneStart
from tests.drafters.checkpoints import draft_model, draft_vocabulary
from tests.models import tiny_folder
from tests.traces import lane_start, run_start

PROMPT = {"prompt": "Repeat: one, two, three, four. one, two,", "category": "copying"}
TOKENS = 12
KNOBS = {"num_draft_tokens": 3, "draft": "auto", "is_adaptive": False, "num_layers": 1, "top_k": 1}


@pytest.fixture(autouse=True)
def _float32_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which dtype is faster on a tiny model is chance."""
    monkeypatch.setattr(stock_peers_module, "DTYPES", ("float32",))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("peers") / "tiny")


@pytest.fixture(scope="module")
def checkpoint(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> DrafterCheckpoint:
    """A one-layer draft whose vocabulary lacks every fifth token."""
    made = draft_model(PlainLM(Generate(folder, "float32", torch.device("cpu")).model, 128))
    where = tmp_path_factory.mktemp("drafters") / "draft_model"
    save_checkpoint(where, made.config, made.tensors)
    return load_checkpoint(where)


def lane(drafter: str, **knobs: Any) -> BenchLane:
    start: LaneStart = lane_start(0, drafter)
    start.knobs.update(knobs)
    return BenchLane(drafter, LaneSpec(drafter), start, "autoregressive")


def peers_for(folder: Path, *lanes: BenchLane, **sources: Path) -> StockPeers:
    spec = local_target(str(folder))
    setup = Setup(run_start(), (lane(PLAIN.drafter), *lanes), {})
    drafts = DraftSource(sources.get("own"), sources.get("drafters"), spec.name)
    return stock_peers(spec, setup, drafts, TOKENS, lambda _: None)


def test_the_whole_of_a_benchmark_with_peers(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The target drafts for itself, so every draft is right: 3 rounds of 3 drafts and one more."""
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps(PROMPT), encoding="utf-8")
    words = ["bench", "run", "--peers", "--lanes", "draft_model,prompt_lookup"]
    words += ["--prompts", str(prompts), "--target", str(folder), "--draft", str(folder)]
    assert main([*words, "--budget", str(TOKENS), "--precision", "float32"]) == 0
    told = capsys.readouterr().out
    document = json.loads(told.splitlines()[-1])
    plain, assisted, lookup = document["peers"].values()
    assert list(document["peers"]) == [
        "generate",
        "assisted generation, as draft_model",
        "prompt lookup, as prompt_lookup",
    ]
    for peer in (plain, assisted, lookup):
        assert (peer["tokens"], peer["identical"], peer["prompts"]) == (TOKENS, 1, 1)
        assert peer["our_speedup"] > 0
        assert peer["seconds"] > 0
    assert plain["tokens_per_pass"] == 1.0
    ours = document["lanes"]["draft_model"]
    assert assisted["tokens_per_pass"] == ours["tau"] == 4.0
    assert lookup["how"] == "generate(prompt_lookup_num_tokens=8, max_matching_ngram_size=3)"
    assert document["peers_left_out"] == {}
    assert "Peers: transformers, greedy, same weights and process, each in its faster dtype" in told


def test_a_trained_draft_says_the_same_in_transformers_as_in_the_lane(
    folder: Path, checkpoint: DrafterCheckpoint
) -> None:
    """And never names a token that is not of its vocabulary."""
    found = peers_for(folder, lane("draft_model", **KNOBS), drafters=checkpoint.folder.parent)
    call = found.calls["assisted generation, as draft_model"]
    draft, target = call.options["assistant_model"], call.stock.model
    ids = draft_vocabulary(target.config.vocab_size)
    tokens = torch.tensor([[5, 80, 17, 200, 33]])
    with torch.no_grad():
        logits = draft(tokens).logits[0]
        states = draft.model(inputs_embeds=target.get_input_embeddings()(tokens))
        expected = states.last_hidden_state[0] @ target.get_output_embeddings().weight[ids].T
    assert logits.shape == (5, target.config.vocab_size)
    assert torch.allclose(logits[:, ids], expected, atol=1e-4)
    others = sorted(set(range(target.config.vocab_size)) - set(ids.tolist()))
    assert bool((logits[:, others] == torch.finfo(torch.float32).min).all())
    held = dict(draft.model.named_parameters())
    weight = checkpoint.tensors["model.layers.0.self_attn.q_proj.weight"]
    assert torch.equal(held["layers.0.self_attn.q_proj.weight"], weight.float())


def test_each_lane_has_a_peer_with_as_many_drafts(folder: Path) -> None:
    many = lane("draft_model", **(KNOBS | {"num_draft_tokens": 5}))
    found = peers_for(folder, many, own=folder)
    prompt = [5, 80, 17, 200, 33]
    plain, assisted = (found.answer(peer, prompt, TOKENS) for peer in found.peers)
    assert (plain.num_passes, assisted.num_passes) == (12, 2)  # six tokens a pass
    assert plain.tokens == assisted.tokens
    assert min(plain.seconds, assisted.seconds) > 0


@pytest.mark.parametrize(
    ("knobs", "reason"),
    [
        ({"draft": "truncated copy"}, "a copy of the target made in memory, which transformers"),
        ({"draft": "4-bit copy"}, "a copy of the target made in memory, which transformers"),
        ({"is_adaptive": True}, "The lane changes its number of drafts as it goes"),
        ({"top_k": 4}, "The lane drafts a tree, and the peer can only draft a chain"),
    ],
)
def test_a_draft_that_is_no_checkpoint_has_no_peer(
    folder: Path, knobs: dict[str, Any], reason: str
) -> None:
    found = peers_for(folder, lane("draft_model", **(KNOBS | knobs)), own=folder)
    assert [peer.name for peer in found.peers] == ["generate"]
    assert reason in found.left_out["assisted generation, as draft_model"]


def test_a_draft_that_transformers_refuses_is_left_out_with_its_reason(
    folder: Path, tmp_path: Path
) -> None:
    other = tiny_folder(tmp_path / "other", vocab_size=400)
    found = peers_for(folder, lane("draft_model", **KNOBS), own=other)
    assert [peer.name for peer in found.peers] == ["generate"]
    (reason,) = found.left_out.values()
    assert "different tokenizers" in reason


def test_each_peer_computes_in_the_dtype_that_is_faster_for_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """float32 can be the faster one for a row at a time, and the slower one for several at once."""
    monkeypatch.setattr(stock_peers_module, "DTYPES", ("float32", "bfloat16"))
    asked: list[tuple[str, bool]] = []

    def answer(
        stock: Generate, prompt: tuple[int, ...], num_tokens: int, **options: Any
    ) -> tuple[tuple[int, ...], float]:
        is_plain = not options
        asked.append((stock.dtype, is_plain))
        is_fast = (stock.dtype == "float32") == is_plain
        return prompt[:1] * num_tokens, 1.0 if is_fast else 3.0

    monkeypatch.setattr(Generate, "answer", answer)
    lookup = lane("prompt_lookup", num_draft_tokens=8, max_ngram=3)
    plain, copying = peers_for(folder, lookup).peers
    assert (plain.dtype, plain.speeds) == ("float32", {"float32": 12.0, "bfloat16": 4.0})
    assert (copying.dtype, copying.speeds) == ("bfloat16", {"float32": 4.0, "bfloat16": 12.0})
    assert asked[:4] == [("float32", True), ("bfloat16", True)] * 2
