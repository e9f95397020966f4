"""Published drafters through folder, store and engine: beside each other, and lossless."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz.config import LaneSpec, Request, SamplingParams
from specviz.presets import local_target
from specviz.session import LiveSession, drain
from specviz.trace import LaneStart, RoundTrace
from tests.drafters.published_files import eagle3_1, eagle_vicuna
from tests.engine.test_trained import ready
from tests.models import tiny_folder


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
