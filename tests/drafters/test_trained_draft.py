"""The draft model with trained weights: against transformers, in lanes, and as training counts it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from specviz.config import SamplingParams
from specviz.drafters.base import CopySpec, DraftContext
from specviz.drafters.draft_model import DraftIds, DraftModel, DraftModelConfig
from specviz.drafters.draft_net import EVAL_DEPTH, DraftNet
from specviz.lm.base import LanguageModel
from specviz.lm.checkpoints import DrafterCheckpoint, load_checkpoint, save_checkpoint
from specviz.lm.linear import why_not_packed
from specviz.lm.packed import PackedLM
from specviz.lm.packed_loading import load_packed
from specviz.lm.plain import PlainLM
from specviz.lm.sampling import Sampler, make_chance
from specviz.tree import DraftTree
from tests.drafters.cyclic import learn
from tests.drafters.own_texts import (
    BUDGET,
    PROMPTS,
    checkpoint_of,
    frozen_of,
    greedy_text,
    own_batch,
    with_weights,
)
from tests.engine.lanes import PLAIN, MakeDrafter, Setup, kit_of
from tests.models import family_config, random_model, tiny

V = 97
SAMPLINGS = (
    SamplingParams(temperature=1.0),
    SamplingParams(temperature=0.7, top_p=0.8),
    SamplingParams(temperature=1.0, top_k=6, repetition_penalty=1.3),
    SamplingParams(temperature=0.9, min_p=0.1, repetition_penalty=0.8),
)


@dataclass(frozen=True)
class Taught:
    lm: PlainLM
    net: DraftNet
    batch: Any
    checkpoint: DrafterCheckpoint

    @property
    def ids(self) -> list[int]:
        return self.net.vocab.ids.tolist()

    def logits(self, text: list[int]) -> torch.Tensor:
        """(V,) after `text`, by transformers' own Llama; minus infinity where it has no guess."""
        settings = self.lm.model.config.to_dict() | {"num_hidden_layers": 1}
        model = LlamaForCausalLM(type(self.lm.model.config)(**settings)).eval()
        own = {name: t.float() for name, t in self.checkpoint.tensors.items() if name != "d2t"}
        own["model.embed_tokens.weight"] = self.lm.model.model.embed_tokens.weight
        own["lm_head.weight"] = self.lm.model.lm_head.weight
        model.load_state_dict(own)
        with torch.no_grad():
            logits = model(torch.tensor([text])).logits[0, -1]
        return torch.full((V,), -torch.inf).index_copy(0, torch.tensor(self.ids), logits[self.ids])


@pytest.fixture(scope="module")
def taught() -> Taught:
    """One layer, over ids that are neither all nor the first ones, trained but not to the end."""
    lm = tiny(rope_parameters={"rope_type": "default", "rope_theta": 300.0})
    batch = own_batch(lm, [greedy_text(lm, prompt, BUDGET) for prompt in PROMPTS])
    used = batch.tokens[batch.is_answer].unique().tolist()
    net = DraftNet(frozen_of(lm, sorted({*used[:-3], *range(10, 40)})), num_layers=1)
    learn(net, batch, 40, rate=1e-3)
    return Taught(lm, net, batch, checkpoint_of(net))


def trained(checkpoint: DrafterCheckpoint, **knobs: Any) -> MakeDrafter:
    knobs = {"draft": "trained"} | knobs
    return with_weights(
        lambda kit: DraftModel(DraftModelConfig(**knobs), kit), {"draft_model": checkpoint}
    )


def test_greedy_lanes_write_what_generate_writes(taught: Taught) -> None:
    accepted = []
    for prompt in [*PROMPTS, [7]]:
        rounds = Setup(taught.lm, prompt, BUDGET).play(trained(taught.checkpoint))
        text = [token for round_ in rounds for token in round_.new_tokens]
        assert text == greedy_text(taught.lm, prompt, BUDGET)
        accepted += [len(round_.verdict.accepted_rows) for round_ in rounds]
    assert set(accepted) == {0, 1, 2, 3}


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["hot", "top p", "top k", "min p"])
def test_coupled_sampling_writes_the_plain_lanes_text(
    taught: Taught, sampling: SamplingParams
) -> None:
    for seed in range(3):
        setup = Setup(taught.lm, PROMPTS[0], 30, sampling, rule="coupled", seed=seed)
        assert setup.answer(trained(taught.checkpoint)) == setup.answer(PLAIN)


@pytest.mark.parametrize("sampling", [SamplingParams(), *SAMPLINGS])
def test_what_it_drew_from_is_the_reference_model_under_the_runs_settings(
    taught: Taught, sampling: SamplingParams
) -> None:
    """Over several rounds, whatever was accepted in between."""
    lane = Setup(taught.lm, PROMPTS[1], 14, sampling).lane(trained(taught.checkpoint))
    while lane.end_reason is None:
        proposal = lane.parts.drafter.propose(lane._context())
        text = list(lane.tokens)
        for row, token in enumerate(proposal.tree.tokens[1:]):
            wanted = Sampler(sampling, V).probs(taught.logits(text), text)
            if sampling == SamplingParams():  # greedy: chosen, not drawn
                assert proposal.child_probs is None
                assert token == int(wanted.argmax())
                text.append(token)
                continue
            assert proposal.child_probs is not None
            torch.testing.assert_close(proposal.child_probs[row], wanted, atol=1e-4, rtol=0)
            assert token in taught.ids
            text.append(token)
        lane.play_round()


@pytest.mark.parametrize("sampling", [SamplingParams(), *SAMPLINGS])
@pytest.mark.parametrize("ids", [[0, 1, 2, 3, 4], [2, 3, 7, 11, 19]])
def test_probabilities_among_few_ids_are_those_among_all(
    sampling: SamplingParams, ids: list[int]
) -> None:
    """Computing among the draft's ids alone is no approximation: a sum rounds otherwise, no more."""
    rng = torch.Generator().manual_seed(0)
    for _ in range(20):
        logits = 3 * torch.randn(5, generator=rng)
        path = torch.randint(23, (6,), generator=rng).tolist()
        everywhere = torch.full((23,), -torch.inf).index_copy(0, torch.tensor(ids), logits)
        sampler = Sampler(sampling, 21)
        found = DraftIds(torch.tensor(ids), 23).probs(logits, sampler, path)
        wanted = sampler.probs(everywhere, path)
        torch.testing.assert_close(found, wanted, atol=1e-15, rtol=1e-12)
        assert torch.equal(found > 0, wanted > 0)


def test_a_lane_accepts_what_training_counted(taught: Taught) -> None:
    """At every round of a greedy lane: as many as the ranks say are right in a row."""
    ranks = iter(taught.net.ranks(taught.batch).tolist())
    for prompt in PROMPTS:
        counted = [next(ranks) for _ in range(BUDGET)]
        place = 0
        make = trained(taught.checkpoint, num_draft_tokens=EVAL_DEPTH)
        for round_ in Setup(taught.lm, prompt, BUDGET).play(make):
            right = [rank == 0 for rank in counted[place]] + [False]
            assert len(round_.verdict.accepted_rows) == min(right.index(False), BUDGET - place - 1)
            place += len(round_.new_tokens)
    assert next(ranks, None) is None


@pytest.mark.skipif(why_not_packed() is not None, reason=str(why_not_packed()))
def test_packed_lanes_write_the_plain_lanes_text(tmp_path: Path) -> None:
    model = random_model(family_config("llama_padded"))
    model.bfloat16().save_pretrained(tmp_path / "target")
    lm = load_packed(tmp_path / "target", context=128)
    setup = Setup(lm, PROMPTS[0], BUDGET, num_known_tokens=V)
    answers = [replace(setup, prompt=prompt).answer(PLAIN) for prompt in PROMPTS]
    net = DraftNet(frozen_of(PlainLM(model.float(), 128), range(3, 90)), num_layers=2)
    learn(net, own_batch(lm, answers), 60, rate=1e-3)
    save_checkpoint(tmp_path / "draft", *net.export())
    make = trained(load_checkpoint(tmp_path / "draft"))
    accepted = 0
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        greedy = replace(setup, prompt=prompt)
        lane = greedy.lane(make)
        assert isinstance(lane.parts.drafter.lm, PackedLM)  # type: ignore[attr-defined]
        rounds = greedy.play(make)
        assert [token for round_ in rounds for token in round_.new_tokens] == answer
        accepted += sum(len(round_.verdict.accepted_rows) for round_ in rounds)
        hot = replace(greedy, sampling=SamplingParams(temperature=1.0), rule="coupled")
        assert hot.answer(make) == hot.answer(PLAIN)
    assert accepted > 30


@pytest.mark.skipif(why_not_packed() is not None, reason=str(why_not_packed()))
def test_the_packed_draft_is_close_to_the_plain_one(taught: Taught) -> None:
    plain = trained(taught.checkpoint)(kit_of(taught.lm)).lm  # type: ignore[attr-defined]
    head, table = taught.lm.model.lm_head.weight, taught.lm.model.model.embed_tokens.weight
    halved = replace(
        kit_of(taught.lm),
        dtype=torch.bfloat16,
        embed=lambda ids: table[ids].bfloat16(),
        head_rows=lambda ids: head[ids].bfloat16(),
    )
    packed = trained(taught.checkpoint)(halved).lm  # type: ignore[attr-defined]
    found = [all_logits(lm, list(range(5, 45))) for lm in (plain, packed)]
    assert found[0].shape == (40, len(taught.ids))
    difference = (found[0] - found[1]).abs().mean() / found[0].std()
    assert difference < 0.03


def all_logits(lm: LanguageModel, tokens: list[int]) -> torch.Tensor:
    return lm.read(DraftTree.chain(tokens[0], tokens[1:]), lm.new_cache(64)).logits.float()


# Which weights draft.


def test_auto_takes_trained_weights_before_copies_and_after_the_owners_own(taught: Taught) -> None:
    def refuse(spec: CopySpec) -> LanguageModel:
        raise AssertionError("no copy is needed")

    kit = replace(kit_of(taught.lm), copy=refuse, has_quantised_copy=True)
    make = trained(taught.checkpoint, draft="auto")
    words = make(kit).description
    assert words == "a 1-layer model of 0M parameters, distilled from the target"
    own = replace(kit, draft_lm=lambda: taught.lm)
    assert make(own).description.startswith("a draft model of")
    drafter = trained(taught.checkpoint, draft="trained")(own)
    assert "distilled" in drafter.description


def test_lanes_share_a_draft_model_and_keep_caches_of_their_own(taught: Taught) -> None:
    kit, make = kit_of(taught.lm), trained(taught.checkpoint)
    first, second = make(kit), make(kit)
    assert isinstance(first, DraftModel)
    assert isinstance(second, DraftModel)
    assert first.lm is second.lm
    texts = [(1, 2, 3, 4), (9, 8, 7)]
    for drafter, text in zip((first, second), texts, strict=True):
        drafter.start(context_of(text))
    ours = [d.propose(context_of(t)).tree for d, t in zip((first, second), texts, strict=True)]
    for text, tree in zip(texts, ours, strict=True):
        alone = make(kit_of(taught.lm))
        alone.start(context_of(text))
        assert alone.propose(context_of(text)).tree == tree


def context_of(tokens: tuple[int, ...]) -> DraftContext:
    sampler = Sampler(SamplingParams(), V)
    return DraftContext(tokens, None, sampler, make_chance("rejection", 0), max_depth=5)


def test_auto_without_trained_weights_copies_the_target(taught: Taught) -> None:
    make = with_weights(lambda kit: DraftModel(DraftModelConfig(), kit), {})
    asked: list[CopySpec] = []

    def copy(spec: CopySpec) -> LanguageModel:
        asked.append(spec)
        return taught.lm

    make(replace(kit_of(taught.lm), copy=copy, has_quantised_copy=True))
    assert asked == [CopySpec("quantised")]


def test_trained_weights_that_are_not_there_are_refused(taught: Taught) -> None:
    make = with_weights(lambda kit: DraftModel(DraftModelConfig(draft="trained"), kit), {})
    with pytest.raises(ValueError, match="no trained draft_model weights"):
        make(kit_of(taught.lm))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model.norm.weight": None}, "lacks 1 tensors, model.norm.weight among them"),
        ({"lm_head.weight": torch.zeros(V, 64)}, "has no use for, lm_head.weight"),
        ({"model.norm.weight": torch.zeros(32)}, "model.norm.weight of 32; 64 fits this target"),
        ({"d2t": torch.full((5,), V)}, "does not name ascending ids from 0 to 96"),
        ({"model.layers.0.self_attn.k_proj.weight": torch.zeros(24, 64)}, "does not fit 4 query"),
    ],
)
def test_other_weights_are_refused(
    taught: Taught, change: dict[str, torch.Tensor | None], words: str
) -> None:
    changed = taught.checkpoint.tensors | change
    kept = {name: t for name, t in changed.items() if t is not None}
    with pytest.raises(ValueError, match=words):
        trained(replace(taught.checkpoint, tensors=kept))(kit_of(taught.lm))


def test_a_config_that_does_not_say_how_many_heads_is_refused(taught: Taught) -> None:
    config = {k: v for k, v in taught.checkpoint.config.items() if k != "num_attention_heads"}
    with pytest.raises(ValueError, match="does not say num_attention_heads"):
        trained(replace(taught.checkpoint, config=config))(kit_of(taught.lm))


def test_making_a_draft_leaves_the_worlds_randomness_alone(taught: Taught) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    trained(taught.checkpoint)(kit_of(taught.lm))
    assert torch.equal(torch.get_rng_state(), before)
