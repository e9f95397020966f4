"""The mtp lane: its module against a slow one, its model against transformers, its baseline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from specviz.config import LaneSpec, Precision, Request
from specviz.drafters.base import backbone_of
from specviz.drafters.mtp import Mtp, MtpConfig
from specviz.drafters.mtp_net import MtpNet
from specviz.drafters.training import FrozenTarget, TrainBatch
from specviz.engine import Engine
from specviz.lm.base import FeatureTap
from specviz.lm.checkpoints import load_checkpoint, save_checkpoint
from specviz.lm.device import pick_device
from specviz.lm.folder import config_of, tensors_of, tokenizer_of
from specviz.lm.linear import why_not_packed
from specviz.lm.loading import load_target, load_tuned
from specviz.lm.low_rank import updates_of
from specviz.lm.text import encode_prompt
from specviz.presets import local_target
from specviz.session import drain
from specviz.trace import LaneEnd, LaneStart, RoundTrace, SessionEvent
from tests.drafters.checkpoints import MAKERS
from tests.drafters.cyclic import learn
from tests.engine.lanes import kit_of
from tests.models import tiny, tiny_folder

NUM_TOKENS = 24
PROMPT = "one, two, three, four, one, two"
OWN_PLAIN = LaneSpec("autoregressive", (("backbone", "mtp"),))
LANES = (LaneSpec("autoregressive"), LaneSpec("mtp"), OWN_PLAIN)
CHAIN = LaneSpec("mtp", (("top_k", 1),))
PACKED = pytest.mark.skipif(why_not_packed() is not None, reason="no packed pass here")


@dataclass(frozen=True)
class Trained:
    folder: Path  # a tiny target; beside it, in drafters/mtp, what a training leaves
    prompt: list[int]
    answer: list[int]  # greedy, by transformers' generate on the merged model
    ranks: list[list[int]]  # of the answer's tokens, as training sees them


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A wide update of the model, and a module that learned by heart what the tuned model writes.

    It learns from the merged model in float32, so that training and decoding see the same states.
    """
    folder = tiny_folder(tmp_path_factory.mktemp("mtp") / "tiny")
    tensors = {name: tensor.float() for name, tensor in tensors_of(folder).items()}
    frozen = FrozenTarget(folder, config_of(folder), tensors, torch.arange(2, 318))
    net, rng = MtpNet(frozen, rank=4), torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in net.backbone.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=rng)
    config, made = net.export()
    save_checkpoint(drafters(folder) / "mtp", config, made)
    merged, prompt = merged_by_hand(folder), encode_prompt(tokenizer_of(folder), PROMPT, False)
    text = merged.generate(
        torch.tensor([prompt]),
        do_sample=False,
        max_new_tokens=NUM_TOKENS,
        pad_token_id=0,
        suppress_tokens=list(range(320, 328)),  # rows of the head that are no tokens
    )
    net.backbone = merged.model.requires_grad_(False)
    is_answer = torch.arange(text.shape[1])[None] >= len(prompt)
    states = net.states(TrainBatch(text, is_answer, torch.empty(0), torch.empty(0)))
    batch = TrainBatch(text, is_answer, states, states)
    learn(net, batch, 40)
    with torch.no_grad():
        for parameter in net.module.parameters():
            parameter.copy_(parameter.bfloat16())
    learned = {n: t for n, t in net.export()[1].items() if not n.startswith("backbone.")}
    save_checkpoint(drafters(folder) / "mtp", config, made | learned)
    return Trained(folder, prompt, text[0, len(prompt) :].tolist(), net.ranks(batch).tolist())


@pytest.fixture(scope="module")
def folder(trained: Trained) -> Path:
    return trained.folder


def drafters(folder: Path) -> Path:
    return folder.parent / "drafters"


def run(
    folder: Path,
    lanes: tuple[LaneSpec, ...],
    precision: Precision = "float32",
    tokens: int = NUM_TOKENS,
) -> list[SessionEvent]:
    target = local_target(str(folder))
    engine = Engine([target], drafters_root=drafters(folder))
    request = Request(
        PROMPT, lanes, target.name, is_chat=False, precision=precision, max_new_tokens=tokens
    )
    return drain(engine.run(request))


def answers(events: list[SessionEvent]) -> list[list[int]]:
    """Each lane's tokens."""
    assert {e.reason for e in events if isinstance(e, LaneEnd)} <= {"length", "stop"}
    lanes = [e.lane for e in events if isinstance(e, LaneStart)]
    rounds = [e for e in events if isinstance(e, RoundTrace)]
    return [[t for r in rounds if r.lane == lane for t in r.new_tokens] for lane in lanes]


def merged_by_hand(folder: Path) -> Any:
    """transformers' model with W + alpha / r B A, rounded to bfloat16, in float32."""
    checkpoint = load_checkpoint(drafters(folder) / "mtp")
    scale = checkpoint.config["lora_alpha"] / checkpoint.config["lora_rank"]
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tensors = checkpoint.tensors
    for name in {n.rpartition(".")[0] for n in tensors if n.startswith("backbone.")}:
        down, up = tensors[f"{name}.lora_A"].double(), tensors[f"{name}.lora_B"].double()
        layer = model.model.get_submodule(name.removeprefix("backbone."))
        with torch.no_grad():
            layer.weight.copy_((layer.weight.double() + scale * up @ down).bfloat16())
    return model


def test_the_lane_writes_what_its_own_model_writes(trained: Trained) -> None:
    """Not what the target writes: mtp and its baseline agree with each other and with generate."""
    events = run(trained.folder, LANES)
    target, mtp, own_plain = answers(events)
    assert len(trained.answer) == NUM_TOKENS
    assert mtp == own_plain == trained.answer
    assert target != trained.answer
    starts = [e for e in events if isinstance(e, LaneStart)]
    assert [start.backbone for start in starts] == ["", "mtp", "mtp"]
    assert "text may differ from the target's" in starts[1].description
    assert "text may differ from the target's" in starts[2].description
    assert "text may differ" not in starts[0].description


def test_as_many_are_accepted_as_training_says(trained: Trained) -> None:
    """Round by round: training's ranks of the same text, counted while they are the first."""
    events = run(trained.folder, (CHAIN,))
    rounds = [e for e in events if isinstance(e, RoundTrace)]
    accepted = [len(round_.verdict.accepted_rows) for round_ in rounds[:-1]]
    assert {0, 1, 2, 3} >= set(accepted) > {3}  # rounds of several lengths are refreshed
    for round_, count in zip(rounds, accepted, strict=False):
        # The first start guesses the answer's first token, after the prompt's last.
        ranks = trained.ranks[round_.cache_length + 1 - len(trained.prompt)]
        assert count == next((i for i, rank in enumerate(ranks) if rank != 0), 3)
        assert len(round_.draft_step_seconds) == round_.tree.num_draft_tokens == 3


@PACKED
def test_the_packed_lane_writes_what_its_packed_model_writes(folder: Path) -> None:
    _, mtp, own_plain = answers(run(folder, LANES, "bfloat16"))
    assert mtp == own_plain


def test_one_read_of_the_prompt_serves_a_lane_alone(folder: Path) -> None:
    """Whatever other lanes run, and in which order."""
    (alone,) = answers(run(folder, (LaneSpec("mtp"),)))
    assert answers(run(folder, LANES[::-1]))[1] == alone


@PACKED
def test_the_tuned_model_is_the_same_packed_or_plain(folder: Path) -> None:
    updates, tokens = updates_of(load_checkpoint(drafters(folder) / "mtp")), list(range(40, 60))
    features = []
    for precision in ("float32", "bfloat16"):
        target = load_target(folder, precision, torch.device("cpu"))  # type: ignore[arg-type]
        lm = load_tuned(target, updates)
        assert (type(lm), lm.path) == (type(target.lm), target.lm.path)
        read = lm.prefill(tokens, lm.new_cache(64), [FeatureTap("normed")])
        assert read is not None
        features.append(read.float())
    truth = merged_by_hand(folder).model(torch.tensor([tokens])).last_hidden_state[0]
    torch.testing.assert_close(features[0], truth, atol=1e-4, rtol=1e-4)
    assert (features[1] - truth).norm() / truth.norm() < 0.03


def test_a_module_without_an_update_works_on_the_target(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "tiny")
    lm = load_target(folder, "float32", pick_device()).lm
    made = MAKERS["mtp"](lm)
    module = {n: t for n, t in made.tensors.items() if not n.startswith("backbone.")}
    save_checkpoint(drafters(folder) / "mtp", made.config, module)
    kit = replace(kit_of(lm), trained=lambda name: load_checkpoint(drafters(folder) / name))
    drafter = Mtp(MtpConfig(), kit)
    assert backbone_of(drafter) == ""
    assert "tuned" not in drafter.description
    plain, mtp = answers(run(folder, LANES[:2]))
    assert mtp == plain
    with pytest.raises(ValueError, match="brings no tuned model; choose the target as backbone"):
        run(folder, (OWN_PLAIN,))


def test_no_weights_no_lane(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "tiny")
    for lane in LANES[1:]:
        with pytest.raises(ValueError, match="There are no trained mtp weights for"):
            run(folder, (lane,))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"backbone.layers.0.mlp.up_proj.lora_A": (2, 64)}, "half an update of backbone.layers.0"),
        ({"model.layers.2.eh_proj.weight": (64, 64)}, "eh_proj.weight of 64 x 64; 64 x 128 fits"),
        ({"model.layers.2.mlp.gate.weight": (8, 64)}, "MTP has no use for"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(
    change: dict[str, tuple[int, ...]], words: str
) -> None:
    lm = tiny()
    made = MAKERS["mtp"](lm)
    tensors = made.tensors | {name: torch.ones(shape) for name, shape in change.items()}
    kit = replace(kit_of(lm), trained=lambda name: replace(made, tensors=tensors))
    with pytest.raises(ValueError, match=words):
        Mtp(MtpConfig(), kit)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("layers.9.self_attn.q_proj", "changes model.layers.9.self_attn.q_proj.weight, which"),
        ("layers.0.self_attn.k_proj", r"of another target: model.layers.0.self_attn.k_proj.weight"),
    ],
)
def test_an_update_of_another_model_is_refused(folder: Path, name: str, words: str) -> None:
    target = load_target(folder, "float32", pick_device())
    made = MAKERS["mtp"](target.lm)
    old = "backbone.layers.0.self_attn.q_proj"
    tensors = {n.replace(old, f"backbone.{name}"): t for n, t in made.tensors.items()}
    with pytest.raises(ValueError, match=words):
        load_tuned(target, updates_of(replace(made, tensors=tensors)))


def test_the_config_must_tell_the_scale() -> None:
    made = MAKERS["mtp"](tiny())
    config = {name: value for name, value in made.config.items() if name != "lora_alpha"}
    with pytest.raises(ValueError, match="does not say lora_alpha and lora_rank"):
        updates_of(replace(made, config=config))
