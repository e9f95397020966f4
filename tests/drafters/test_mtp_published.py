"""MTP modules in their makers' names and arithmetic, held to a slow reading in float64."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specviz.config import SamplingParams
from specviz.drafters.base import DraftContext
from specviz.drafters.inside import is_inside, load_inside
from specviz.drafters.mtp import Mtp, MtpConfig
from specviz.lm.base import FeatureTap, LanguageModel
from specviz.lm.checkpoints import DrafterCheckpoint
from specviz.lm.loading import load_target
from specviz.lm.sampling import Sampler, make_chance
from tests.drafters.module64 import Module64, Traits
from tests.drafters.own_texts import with_weights
from tests.engine.lanes import PLAIN, MakeDrafter, Setup, kit_of
from tests.models import (
    TINY_SHAPE,
    edit_config,
    family_config,
    random_model,
    tiny,
    tiny_tokenizer,
    write_folder,
)

V, H, WIDE = 97, 64, 0.25
LLAMA_LAYER = ("enorm", "hnorm", "eh_proj", "shared_head.norm")
FAMILIES: dict[str, Traits] = {
    "deepseek": Traits(*LLAMA_LAYER),
    "glm": Traits(*LLAMA_LAYER, norms_heads=True, rotated=0.5, num_experts=4),
    "mimo": Traits(
        *("token_layernorm", "hidden_layernorm", "input_proj", "final_layernorm"),
        is_state_first=True,
        hides_first=True,
    ),
    "qwen": Traits(
        *("pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc", "norm"),
        norms_heads=True,
        is_gated=True,
        rotated=0.5,
        added_to_norms=1.0,
    ),
}
PREFIXES = {
    "deepseek": "model.layers.2.",
    "glm": "model.layers.2.",
    "mimo": "model.mtp_layers.0.",
    "qwen": "mtp.",
}


def config_of(family: str) -> dict[str, Any]:
    """As in the config.json of a target of that family."""
    rope = {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}
    shared = TINY_SHAPE | {"head_dim": 16, "rms_norm_eps": 1e-5, "num_nextn_predict_layers": 1}
    return {
        "deepseek": shared | {"model_type": "llama", "rope_theta": 500.0},
        "mimo": shared | {"model_type": "mimo", "rope_theta": 500.0},
        "glm": shared
        | {"model_type": "glm4_moe", "rope_parameters": rope, "use_qk_norm": True}
        | {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 1}
        | {"topk_group": 1, "moe_intermediate_size": 24, "first_k_dense_replace": 1},
        "qwen": shared
        | {"model_type": "qwen3_5_text", "rope_parameters": rope}
        | {"layer_types": ["full_attention"] * 2},
    }[family]


def module_of(family: str) -> dict[str, Tensor]:
    """Random weights by names inside the module."""
    traits, rng = FAMILIES[family], torch.Generator().manual_seed(11)

    def drawn(*shape: int) -> Tensor:
        return (WIDE * torch.randn(*shape, generator=rng)).bfloat16().float()

    def norm(size: int) -> Tensor:
        return 1.0 - traits.added_to_norms + drawn(size)

    found = {f"{traits.projection}.weight": drawn(H, 2 * H)}
    norms = (traits.embedding_norm, traits.state_norm, traits.final_norm)
    for name in (*norms, "input_layernorm", "post_attention_layernorm"):
        found[f"{name}.weight"] = norm(H)
    rows = {"q": 2 * H if traits.is_gated else H, "k": 32, "v": 32}
    for name, count in rows.items():
        found[f"self_attn.{name}_proj.weight"] = drawn(count, H)
        if family == "mimo":
            found[f"self_attn.{name}_proj.bias"] = drawn(count)
    found["self_attn.o_proj.weight"] = drawn(H, H)
    if traits.norms_heads:
        found |= {f"self_attn.{name}_norm.weight": norm(16) for name in "qk"}
    mlps = {"mlp.": 96}
    if traits.num_experts:
        found["mlp.gate.weight"] = drawn(4, H)
        found["mlp.gate.e_score_correction_bias"] = drawn(4)
        mlps = dict.fromkeys([*(f"mlp.experts.{i}." for i in range(4)), "mlp.shared_experts."], 24)
    for prefix, width in mlps.items():
        found |= {f"{prefix}{name}_proj.weight": drawn(width, H) for name in ("gate", "up")}
        found[f"{prefix}down_proj.weight"] = drawn(H, width)
    return found


def published(family: str) -> dict[str, Tensor]:
    """As its makers name them; DeepSeek's and GLM's files repeat the target's own tensors."""
    prefix = PREFIXES[family]
    outside = ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc", "norm")
    found = {}
    for name, tensor in module_of(family).items():
        is_layer = family == "qwen" and name.removesuffix(".weight") not in outside
        found[f"{prefix}{'layers.0.' if is_layer else ''}{name}"] = tensor
    if family in ("deepseek", "glm"):
        found[f"{prefix}shared_head.head.weight"] = torch.ones(V, H)
        found[f"{prefix}embed_tokens.weight"] = torch.ones(V, H)
    return found


def made(family: str) -> DrafterCheckpoint:
    return DrafterCheckpoint(Path("module"), config_of(family), published(family))


def mtp(checkpoint: DrafterCheckpoint, **knobs: Any) -> MakeDrafter:
    return with_weights(lambda kit: Mtp(MtpConfig(**knobs), kit), {"mtp": checkpoint})


def context_of(lm: LanguageModel, tokens: list[int]) -> DraftContext:
    features = lm.prefill(tokens[:-1], lm.new_cache(128), [FeatureTap("normed")])
    sampler, chance = Sampler(SamplingParams(), V), make_chance("rejection", 0)
    return DraftContext(tuple(tokens), features, sampler, chance, 20)


@pytest.mark.parametrize("family", FAMILIES)
def test_rounds_are_those_of_a_slow_reading(family: str) -> None:
    lm = tiny()
    drafter: Any = mtp(made(family), num_draft_tokens=3, top_k=1)(kit_of(lm))
    slow = Module64(module_of(family), lm.embed(torch.arange(V)), FAMILIES[family], eps=1e-5)
    tokens = list(range(30, 37))
    drafter.start(context_of(lm, tokens))
    for num_accepted in (0, 2, 3, 0):
        context = context_of(lm, tokens)
        proposal = drafter.propose(context)
        drafted, probs = list[int](), [1.0]
        assert context.features is not None
        for _ in range(3):
            out = slow.outputs(context.features, tokens + drafted)[-1]
            chances = torch.softmax(lm.head(out.float()[None])[0].double(), dim=0)
            drafted.append(int(chances.argmax()))
            probs.append(float(chances.max()))
        assert list(proposal.tree.tokens) == [tokens[-1], *drafted]
        assert proposal.draft_probs == pytest.approx(probs, rel=1e-3)
        tokens += [*drafted[:num_accepted], 50 + num_accepted]


@pytest.mark.parametrize("family", FAMILIES)
def test_lanes_write_the_plain_lanes_text(family: str) -> None:
    lm = tiny()
    settings = product((SamplingParams(), SamplingParams(temperature=0.9)), ((1, 4), (4, 16)))
    for sampling, (top_k, num_rows) in settings:
        setup = Setup(lm, [5, 6, 7, 8], 16, sampling, rule="coupled")
        rounds = setup.play(mtp(made(family), top_k=top_k))
        assert max(len(r.tree) for r in rounds) == num_rows
        assert [t for r in rounds for t in r.new_tokens] == setup.answer(PLAIN)


def test_a_module_may_read_states_before_the_final_norm() -> None:
    """The norm it then does itself is none of the target's: with a norm of ones before, and a
    state norm that forgets the scale, both readings say the same."""
    lm = tiny()
    with torch.no_grad():
        lm.model.model.norm.weight.fill_(1.0)
    setup = Setup(lm, [5, 6, 7, 8], 16)
    normed, raw = (
        [r.tree.tokens[:2] for r in setup.play(mtp(made("deepseek"), state=state))]
        for state in ("normed", "raw")
    )
    assert normed == raw
    drafter: Any = mtp(made("deepseek"), state="raw")(kit_of(lm))
    assert drafter.taps == (FeatureTap("output", 1),)


GATE = "mtp.layers.0.self_attn.q_norm.weight"


@pytest.mark.parametrize(
    ("family", "change", "words"),
    [
        ("mimo", {"model.mtp_layers.0.self_attn.k_proj.bias": None}, "lacks 1 tensors, layers.0.s"),
        ("mimo", {"model.mtp_layers.0.input_proj.weight": torch.ones(H, H)}, "64 x 128 fits this"),
        ("qwen", {GATE: None}, "lacks 1 tensors, layers.0.self_attn.q_norm"),
        ("qwen", {"mtp.layers.0.self_attn.sinks": torch.ones(4)}, "its family has no use for"),
        ("glm", {"model.layers.2.enorm.weight": None}, "lacks 1 tensors, layers.0.enorm.weight"),
        ("deepseek", {"more.weight": torch.ones(2)}, "MTP has no use for, more.weight"),
        ("glm", {"model.layers.2.mlp.gate.weight_scale_inv": torch.ones(1)}, "blocks of 8 bits"),
    ],
)
def test_faults_are_named(family: str, change: dict[str, Tensor | None], words: str) -> None:
    whole = made(family)
    changed = {n: t for n, t in (whole.tensors | change).items() if t is not None}
    with pytest.raises(ValueError, match=words):
        mtp(replace(whole, tensors=changed))(kit_of(tiny()))


@pytest.mark.parametrize(
    ("family", "change", "words"),
    [
        ("qwen", {"layer_types": ["linear_attention", "full_attention"]}, "recurrent layers"),
        ("mimo", {"hidden_size": 4096}, "states of 4096 numbers; this target's have 64"),
        ("glm", {"model_type": "no_such_family"}, "cannot be read"),
    ],
)
def test_configs_of_other_models_are_named(family: str, change: dict[str, Any], words: str) -> None:
    whole = made(family)
    with pytest.raises(ValueError, match=words):
        mtp(replace(whole, config=whole.config | change))(kit_of(tiny()))


def test_a_module_behind_another_layer_is_of_another_target() -> None:
    with pytest.raises(ValueError, match="is layer 2 of its model, and this target has 3 layers"):
        mtp(made("deepseek"))(kit_of(tiny(num_hidden_layers=3)))


def test_mimo_is_loaded_without_its_own_code_and_brings_its_module(tmp_path: Path) -> None:
    """Its config.json names code of its own, which is not there and would not be run."""
    model = random_model(family_config("qwen2", vocab_size=328))
    folder = write_folder(tmp_path / "mimo", model, tiny_tokenizer())
    file = folder / "model.safetensors"
    save_file(load_file(file) | published("mimo"), file, metadata={"format": "pt"})
    edit_config(folder, model_type="mimo", auto_map={"AutoConfig": "configuration_mimo.MiMoConfig"})
    target = load_target(folder, "float32", torch.device("cpu"))
    tokens = [7, 8, 9, 10]
    states = target.lm.prefill(tokens, target.lm.new_cache(64), [FeatureTap("normed")])
    assert states is not None
    true = model.model(torch.tensor([tokens])).last_hidden_state[0]
    torch.testing.assert_close(states, true, atol=1e-4, rtol=1e-4)
    assert is_inside("mtp", folder)
    assert not is_inside("medusa", folder)
    found = load_inside("mtp", folder)
    assert found.tensors.keys() == published("mimo").keys()
    drafter: Any = mtp(found)(kit_of(target.lm))
    assert drafter.propose is not None
