"""Published drafters through folder, store and engine: beside each other, and lossless."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specviz.config import LaneSpec, Request, SamplingParams
from specviz.engine.arena import race
from specviz.lm.checkpoints import load_checkpoint
from specviz.presets import local_target
from specviz.session import LiveSession, drain
from specviz.trace import LaneStart, RoundTrace, rounds_of
from tests.drafters import eagle_rounds, test_medusa_published, test_mtp_published
from tests.drafters.published_files import PUBLISHED, eagle3_1, eagle_vicuna
from tests.drafters.test_medusa_published import CASES
from tests.drafters.test_mtp_published import FAMILIES
from tests.engine.lanes import PLAIN, MakeDrafter, Setup, answer_of, registered
from tests.engine.test_trained import ready
from tests.models import tiny, tiny_folder


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_every_dialect_races_beside_every_other(tmp_path: Path, temperature: float) -> None:
    """All lanes take turns over one model; each writes the plain lane's text."""
    lm = tiny(num_hidden_layers=8)
    makes = dict[str, MakeDrafter]()
    for kind, published_by in PUBLISHED.items():
        published = published_by(lm)
        checkpoint = load_checkpoint(published.write(tmp_path / kind))
        for name in ("eagle3",) if published.method == "eagle3" else ("eagle", "eagle2"):
            makes[f"{kind} as {name}"] = eagle_rounds.made(name, {}, checkpoint)
    for case in CASES:
        makes[case] = test_medusa_published.medusa(test_medusa_published.made(case))
    for family in FAMILIES:
        checkpoint = test_mtp_published.made(family)
        checkpoint = replace(
            checkpoint,
            tensors={
                name.replace("layers.2.", "layers.8."): tensor
                for name, tensor in checkpoint.tensors.items()
            },
        )
        makes[family] = test_mtp_published.mtp(checkpoint)
    makes |= {name: registered(name) for name in ("draft_model", "prompt_lookup", "lookahead")}
    sampling = SamplingParams(temperature=temperature)
    setup = Setup(lm, [5, 6, 7, 8, 5, 6], 16, sampling, rule="coupled", draft=tiny(seed=1))
    lanes = [setup.lane(make, index=i) for i, make in enumerate((PLAIN, *makes.values()))]
    events = list(race(lanes, lambda: False))
    plain, *texts = [answer_of(rounds_of(events, lane.index)) for lane in lanes]
    assert len(plain) == 16
    assert dict(zip(makes, texts, strict=True)) == dict.fromkeys(makes, plain)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_all_lanes_write_the_same_text(tmp_path: Path, temperature: float) -> None:
    folder = tiny_folder(tmp_path / "tiny", num_hidden_layers=6)
    lm, root = ready(folder).loaded.lm, tmp_path / "drafters"
    for maker, method in ((eagle_vicuna, "eagle"), (eagle3_1, "eagle3")):
        published = maker(lm)
        published.place = method
        published.write(root)
    lanes = tuple(map(LaneSpec, ("autoregressive", "eagle", "eagle2", "eagle3")))
    request = Request(
        "one, two, three",
        lanes,
        local_target(str(folder)).name,
        is_chat=False,
        precision="float32",
        sampling=SamplingParams(temperature=temperature),
        verification="coupled",
        max_new_tokens=16,
    )
    session = LiveSession(folder, drafters=root)
    events = drain(session.events(request))
    session.close()
    texts: dict[int, list[int]] = {lane: [] for lane in range(len(lanes))}
    for event in events:
        if isinstance(event, RoundTrace):
            texts[event.lane] += event.new_tokens
    assert len(texts[0]) > 1
    assert all(text == texts[0] for text in texts.values()), texts
    assert len([event for event in events if isinstance(event, LaneStart)]) == len(lanes)
