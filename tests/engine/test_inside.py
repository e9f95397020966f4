"""Drafters that came inside their target's own checkpoint: found, offered, run, and lossless."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specviz.config import LaneSpec, Request
from specviz.presets import local_target
from specviz.session import LiveSession, drain
from specviz.trace import LaneEnd, LaneStart, RoundTrace
from tests.drafters.test_mtp_published import published
from tests.models import (
    edit_config,
    family_config,
    random_model,
    tiny_tokenizer,
    write_folder,
)

ROWS, H = 328, 64


def heads() -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(1)
    found = {
        f"medusa_head.{i}.0.linear.weight": torch.randn(H, H, generator=rng) / 8 for i in (0, 1)
    }
    found |= {f"medusa_head.{i}.0.linear.bias": torch.randn(H, generator=rng) for i in (0, 1)}
    return found | {
        f"medusa_head.{i}.1.weight": torch.randn(ROWS, H, generator=rng) for i in (0, 1)
    }


@pytest.mark.parametrize("method", ["mtp", "medusa"])
def test_a_target_brings_its_own_drafter(tmp_path: Path, method: str) -> None:
    family, inside = {"mtp": ("qwen2", published("mimo")), "medusa": ("llama", heads())}[method]
    config = family_config(family, vocab_size=ROWS)
    folder = write_folder(tmp_path / "whole", random_model(config), tiny_tokenizer())
    weights = folder / "model.safetensors"
    save_file(load_file(weights) | inside, weights, metadata={"format": "pt"})
    if method == "mtp":
        edit_config(folder, model_type="mimo", rope_theta=500.0)
    session = LiveSession(folder)
    try:
        name = local_target(str(folder)).name
        assert session.catalog().can_run(name, method)
        assert not session.catalog().can_run(name, "eagle3")
        lanes = (LaneSpec("autoregressive"), LaneSpec(method))
        request = Request(
            "one, two", lanes, name, is_chat=False, precision="float32", max_new_tokens=12
        )
        events = drain(session.events(request))
    finally:
        session.close()
    assert {e.reason for e in events if isinstance(e, LaneEnd)} <= {"length", "stop"}
    assert [e.drafter for e in events if isinstance(e, LaneStart)] == ["autoregressive", method]
    rounds = [e for e in events if isinstance(e, RoundTrace)]
    plain, drafted = ([t for r in rounds if r.lane == i for t in r.new_tokens] for i in (0, 1))
    assert plain == drafted
    assert any(r.tree.num_draft_tokens > 1 for r in rounds if r.lane == 1)
