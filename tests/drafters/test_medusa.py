"""Medusa in lanes: against `generate`, a slow reading of the heads, and training's own count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from specviz.config import SamplingParams
from specviz.drafters.base import DraftContext, Proposal
from specviz.drafters.medusa import ASSUMED_RATES, Medusa, MedusaConfig
from specviz.drafters.medusa_net import MedusaNet
from specviz.drafters.static_growth import likeliest_paths
from specviz.lm.base import LanguageModel
from specviz.lm.checkpoints import DrafterCheckpoint
from specviz.lm.linear import why_not_packed
from specviz.lm.packed_loading import load_packed
from specviz.lm.plain import PlainLM
from specviz.trace import RoundTrace
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

RATES = [[0.5, 0.2, 0.1, 0.05], [0.4, 0.2, 0.1], [0.3, 0.1]]
V, H = 97, 64


@dataclass(frozen=True)
class Taught:
    lm: PlainLM
    net: MedusaNet
    batch: Any
    checkpoint: DrafterCheckpoint


@pytest.fixture(scope="module")
def taught() -> Taught:
    """Heads that know most of three texts: trained, but not to the end."""
    lm = tiny()
    batch = own_batch(lm, [greedy_text(lm, prompt, BUDGET) for prompt in PROMPTS])
    used = batch.tokens[batch.is_answer].unique().tolist()
    net = MedusaNet(frozen_of(lm, sorted({*used[:-2], *range(10, 30)})), num_heads=3)
    learn(net, batch, 50)
    return Taught(lm, net, batch, checkpoint_of(net, hit_rates=RATES))


def random_heads(
    width: int, vocab_size: int, *, own: bool = False, **kept: Any
) -> DrafterCheckpoint:
    """Three heads of random numbers, in the published names, over a tenth of the ids or all."""
    rng = torch.Generator().manual_seed(2)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng).bfloat16()

    tensors = {f"{i}.0.linear.weight": drawn(width, width) / 8 for i in range(3)}
    tensors |= {f"{i}.0.linear.bias": drawn(width) for i in range(3)}
    if own:
        tensors |= {f"{i}.1.weight": drawn(vocab_size, width) for i in range(3)}
    return DrafterCheckpoint(Path("heads"), kept, tensors)


def medusa(checkpoint: DrafterCheckpoint, **knobs: Any) -> MakeDrafter:
    return with_weights(lambda kit: Medusa(MedusaConfig(**knobs), kit), {"medusa": checkpoint})


def mean_accepted(rounds: list[RoundTrace]) -> float:
    return float(np.mean([len(r.verdict.accepted_rows) for r in rounds]))


@pytest.mark.parametrize("budget", [2, 7, 64])
def test_greedy_lanes_write_what_generate_writes(taught: Taught, budget: int) -> None:
    for prompt in PROMPTS:
        setup = Setup(taught.lm, prompt, BUDGET)
        rounds = setup.play(medusa(taught.checkpoint, budget=budget))
        text = [token for round_ in rounds for token in round_.new_tokens]
        assert text == greedy_text(taught.lm, prompt, BUDGET)
        assert mean_accepted(rounds) > 0.1, "a tree that never hits would prove nothing"


@pytest.mark.parametrize(
    "sampling",
    [
        SamplingParams(temperature=1.0),
        SamplingParams(temperature=0.7, top_p=0.9),
        SamplingParams(temperature=1.0, top_k=8, repetition_penalty=1.2),
    ],
)
def test_coupled_sampling_writes_the_plain_lanes_text(
    taught: Taught, sampling: SamplingParams
) -> None:
    for seed in range(3):
        setup = Setup(taught.lm, PROMPTS[0], 30, sampling, rule="coupled", seed=seed)
        assert setup.answer(medusa(taught.checkpoint)) == setup.answer(PLAIN)


def test_a_lane_accepts_what_training_counted(taught: Taught) -> None:
    """At every round, the path the heads' ranks name, as far as the tree goes along it."""
    ranks = iter(taught.net.ranks(taught.batch).tolist())
    by_place = {}  # (prompt, number of the answer token drafted first) -> ranks per depth
    for number in range(len(PROMPTS)):
        for place in range(BUDGET):
            by_place[number, place] = next(ranks)
    assert next(ranks, None) is None
    paths = set(likeliest_paths(RATES, 11))
    for number, prompt in enumerate(PROMPTS):
        place, accepted = 0, list[int]()
        for round_ in Setup(taught.lm, prompt, BUDGET).play(medusa(taught.checkpoint, budget=12)):
            counted, path = 0, tuple(by_place[number, place])
            while counted < len(path) and path[: counted + 1] in paths:
                counted += 1
            accepted.append(len(round_.verdict.accepted_rows))
            assert accepted[-1] == min(counted, BUDGET - place - 1)
            place += len(round_.new_tokens)
        assert len(set(accepted)) > 1


def slow_guesses(
    lm: LanguageModel, checkpoint: DrafterCheckpoint, state: Tensor, num_known: int
) -> list[list[tuple[int, float]]]:
    """[head]: every guess, best first, by definition and in float64."""
    tensors = {name: t.double().numpy() for name, t in checkpoint.tensors.items()}
    target = lm.head(torch.eye(lm.hidden_size)).double().numpy().T
    h, found = state.double().numpy(), []
    ids = list(range(lm.vocab_size))
    if "d2t" in tensors:
        ids = [place + int(step) for place, step in enumerate(tensors["d2t"])]
    for i in range(3):
        x = tensors[f"{i}.0.linear.weight"] @ h + tensors[f"{i}.0.linear.bias"]
        u = h + x / (1 + np.exp(-x))
        own = tensors.get(f"{i}.1.weight")
        logits = target[ids] @ u if own is None else own @ u
        kept = [
            (token, score) for token, score in zip(ids, logits, strict=True) if token < num_known
        ]
        scores = np.array([score for _, score in kept])
        probs = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        order = np.argsort(-scores)
        found.append([(kept[j][0], float(probs[j])) for j in order])
    return found


@pytest.mark.parametrize("kind", ["ours", "published, shared head", "published, own heads"])
def test_trees_of_several_rounds_against_a_slow_reading(taught: Taught, kind: str) -> None:
    """Which state is read, which token a row stands for, and how sure the head was of it."""
    checkpoint = taught.checkpoint
    if kind != "ours":
        checkpoint = random_heads(H, V, own="own" in kind, hit_rates=RATES)
    paths = sorted(likeliest_paths(RATES, 9), key=lambda path: (len(path), path))
    lane = Setup(taught.lm, PROMPTS[0], 20).lane(medusa(checkpoint, budget=10))
    for _ in range(6):
        context: DraftContext = lane._context()
        assert context.features is not None
        prefix = context.tokens[:-1]
        states = taught.lm.model.model(torch.tensor([prefix])).last_hidden_state[0].detach()
        guesses = slow_guesses(taught.lm, checkpoint, states[-1], V)
        proposal: Proposal = lane.parts.drafter.propose(context)
        tree = proposal.tree
        wanted = {path: guesses[len(path) - 1][path[-1]] for path in paths}
        assert tree.tokens == (context.tokens[-1], *(wanted[path][0] for path in paths))
        rows = {(): 0} | {path: i + 1 for i, path in enumerate(paths)}
        assert tree.parents == (-1, *(rows[path[:-1]] for path in paths))
        assert proposal.draft_probs[1:] == pytest.approx(
            [wanted[path][1] for path in paths], rel=1e-3
        )
        assert proposal.child_probs is None
        assert len(proposal.step_seconds) == 1
        for row, grown in enumerate(proposal.candidates, start=1):
            assert grown.token == tree.tokens[row]
            assert grown.parent == tree.parents[row] - 1
            assert grown.depth == tree.depths[row]
            chances = [wanted[paths[row - 1][:d]][1] for d in range(1, grown.depth + 1)]
            assert grown.score == pytest.approx(np.log(chances).sum(), abs=1e-3)
            assert grown.is_kept
        lane.play_round()


def test_padding_of_the_head_is_never_drafted(taught: Taught) -> None:
    for own in (False, True):
        checkpoint = random_heads(H, V, own=own, hit_rates=RATES)
        kit = replace(kit_of(taught.lm), num_known_tokens=20)
        drafter = medusa(checkpoint)(kit)
        lane = Setup(taught.lm, PROMPTS[0], 20).lane(PLAIN)
        for seed in range(5):
            state = torch.randn(1, H, generator=torch.Generator().manual_seed(seed))
            tree = drafter.propose(replace(lane._context(), features=state)).tree
            guesses = slow_guesses(taught.lm, checkpoint, state[0], 20)
            assert max(tree.tokens[1:]) < 20
            assert tree.tokens[1:5] == tuple(token for token, _ in guesses[0][:4])


@pytest.mark.skipif(why_not_packed() is not None, reason=str(why_not_packed()))
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_packed_lanes_write_the_plain_lanes_text(tmp_path: Path, temperature: float) -> None:
    model = random_model(family_config("llama_padded"))
    model.bfloat16().save_pretrained(tmp_path)
    lm = load_packed(tmp_path, context=128)
    setup = Setup(lm, PROMPTS[0], BUDGET, num_known_tokens=97)
    answers = [replace(setup, prompt=prompt).answer(PLAIN) for prompt in PROMPTS]
    net = MedusaNet(frozen_of(PlainLM(model.float(), 128), range(97)), num_heads=4)
    learn(net, own_batch(lm, answers), 80)
    checkpoint = checkpoint_of(net)
    sampling = SamplingParams(temperature=temperature)
    for prompt in PROMPTS:
        setup = Setup(lm, prompt, BUDGET, sampling, rule="coupled", num_known_tokens=97)
        rounds = setup.play(medusa(checkpoint))
        assert [t for r in rounds for t in r.new_tokens] == setup.answer(PLAIN)
        if temperature == 0.0:
            assert mean_accepted(rounds) > 0.5


def test_packed_heads_say_what_plain_ones_say(taught: Taught) -> None:
    head = taught.lm.model.lm_head.weight.detach().bfloat16()
    plain = medusa(taught.checkpoint)(kit_of(taught.lm))
    halved = replace(kit_of(taught.lm), dtype=torch.bfloat16, head_rows=lambda ids: head[ids])
    packed = medusa(taught.checkpoint)(halved)
    state = torch.randn(1, H, generator=torch.Generator().manual_seed(0)).bfloat16()
    exact, rounded = plain.heads.guess(state.float(), 20), packed.heads.guess(state, 40)  # type: ignore[attr-defined]
    for ours, theirs in zip(exact, rounded, strict=True):
        log_probs = dict(theirs)
        for token, log_prob in ours[:10]:
            assert log_probs[token] == pytest.approx(log_prob, abs=0.2)


# The tree.


def test_measured_rates_shape_the_tree_and_assumed_ones_say_so(taught: Taught) -> None:
    kit = kit_of(taught.lm)
    measured = medusa(random_heads(H, V, hit_rates=[[0.9], [0.9], [0.9]]), budget=4)(kit)
    assert measured.shape.paths == [(0,), (0, 0), (0, 0, 0)]  # type: ignore[attr-defined]
    assert measured.description == (
        "3 heads of 0.0M parameters on the target's last state, in a tree of 4 rows by measured "
        "hit rates"
    )
    assumed = medusa(random_heads(H, V), budget=4)(kit)
    assert assumed.shape.paths == [(0,), (1,), (0, 0)]  # type: ignore[attr-defined]
    assert "assumed hit rates" in assumed.description
    assert all(sum(rates) < 1 for rates in ASSUMED_RATES)


def test_a_draft_vocabulary_smaller_than_the_list_of_ranks(taught: Taught) -> None:
    ids = torch.tensor([3, 50, 70])
    heads = random_heads(H, V, hit_rates=RATES)
    heads.tensors["d2t"] = ids - torch.arange(3)
    tree = Setup(taught.lm, PROMPTS[0], 20).lane(medusa(heads, budget=64)).play_round().tree
    assert set(tree.tokens[1:]) == set(ids.tolist())
    assert len(tree.children(0)) == 3


def test_fewer_heads_reach_less_far(taught: Taught) -> None:
    for count in (1, 2, 3, 5):
        lane = Setup(taught.lm, PROMPTS[0], 20).lane(
            medusa(taught.checkpoint, num_heads=count, budget=64)
        )
        tree = lane.play_round().tree
        assert max(tree.depths) == min(count, 3)


# Bounds and faults.


def test_nothing_is_drafted_beyond_the_budget(taught: Taught) -> None:
    lane = Setup(taught.lm, PROMPTS[0], 20).lane(medusa(taught.checkpoint))
    for room in range(4):
        proposal = lane.parts.drafter.propose(replace(lane._context(), max_depth=room))
        assert max(proposal.tree.depths) == min(room, 3)


def test_a_prompt_of_one_token_begins_with_plain_decoding(taught: Taught) -> None:
    rounds = Setup(taught.lm, [7], 12).play(medusa(taught.checkpoint))
    assert len(rounds[0].tree) == 1
    assert len(rounds[1].tree) > 1
    text = [token for round_ in rounds for token in round_.new_tokens]
    assert text == greedy_text(taught.lm, [7], 12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"1.0.linear.bias": None}, "lacks the bias of 1 of its 3 blocks, 1.0.linear.bias among"),
        ({"0.0.linear.weight": torch.zeros(32, 32)}, "0.0.linear.weight of 32 x 32; 64 x 64 fits"),
        (
            {"0.1.linear.weight": torch.zeros(H, H)},
            "the bias of 1 of its 4 blocks, 0.1.linear.bias",
        ),
        ({"0.linear.weight": torch.zeros(H, H)}, "has no use for, 0.linear.weight"),
        ({"0.1.weight": torch.zeros(V, H)}, "lacks 2 tensors, 1.1.weight among them"),
        ({"d2t": torch.full((5,), V)}, "d2t in heads does not name ascending ids from 0 to 96"),
        (
            dict.fromkeys([f"{i}.0.linear.{k}" for i in range(3) for k in ("weight", "bias")]),
            "lacks",
        ),
    ],
)
def test_other_weights_are_refused(
    taught: Taught, change: dict[str, Tensor | None], words: str
) -> None:
    heads = random_heads(H, V)
    changed = {name: t for name, t in (heads.tensors | change).items() if t is not None}
    with pytest.raises(ValueError, match=words):
        medusa(replace(heads, tensors=changed))(kit_of(taught.lm))
