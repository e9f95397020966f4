"""The whole of `bench gpu --miniature` on a CPU, and rounds whose outcome was fixed beforehand."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from specviz import metrics
from specviz.__main__ import main
from specviz.bench.gpu import LENGTHS, promised_speed
from specviz.bench.gpu_drafters import DrafterTable, measure_drafters
from specviz.bench.gpu_plan import full_plan
from specviz.bench.gpu_replay import ScriptedDrafter, Stage, replayed, script_of
from specviz.presets import DEFAULT_TARGET, local_target
from tests.engine.lanes import TEXT
from tests.models import tiny, tiny_folder


@pytest.fixture(scope="module")
def printed() -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["bench", "gpu", "--miniature"]) == 0
    return out.getvalue()


def test_the_miniature_measures_all_that_the_full_run_does(printed: str) -> None:
    document: Any = json.loads(printed.splitlines()[-1])
    assert document["bench"] == "gpu"
    assert {"torch", "transformers"} <= set(document["machine"]["versions"])
    models = {model["name"]: model for model in document["models"]}
    assert set(models) | set(document["skipped"]) == {"miniature", "miniature, nf4"}
    model = models["miniature"]
    assert (model["dtype"], model["form"]) == ("float32", "whole")
    assert model["largest_gap"] < 1e-3
    (equality,) = model["equalities"]
    assert equality["num_compared"] > 0
    assert equality["num_flips"] == 0
    for name in ("called", "eager"):
        decoding = model["decoding"][name]
        assert decoding["share_of_promised"] is None
        speed = model["read_bytes"] / decoding["milliseconds"] * 1000
        assert decoding["bytes_per_second"] == pytest.approx(speed)
        assert decoding["share_of_copying"] == pytest.approx(
            speed / document["copy_bytes_per_second"]
        )
        assert [cost["num_rows"] for cost in model["reads"][name]] == [1, 4]
        free, drafted = model["replays"][name]
        assert 1 < free["tau"] <= 3
        assert 2 < drafted["tau"] < 6
        assert free["draft_step_milliseconds"] is None
        assert drafted["draft_step_milliseconds"] > 0
        for replay in (free, drafted):
            assert replay["rho"] > 0
            assert replay["speedup"] == pytest.approx(replay["tau"] / replay["rho"])


def test_people_are_told_what_scripts_are(printed: str) -> None:
    document: Any = json.loads(printed.splitlines()[-1])
    replay = document["models"][0]["replays"]["called"][1]
    told = f"6 rows, EAGLE-3: tau {replay['tau']:.2f}, rho {replay['rho']:.2f}"
    assert told in printed
    assert f"replays accept {sum(LENGTHS) / len(LENGTHS):.2f} tokens a round" in printed


def test_a_miniature_reads_as_many_bytes_as_its_weights_have(printed: str) -> None:
    """By hand: 5 layers of 4 attention and 3 MLP matrices and 2 norms, a norm, a head of 320."""
    layer = 2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64 + 2 * 64
    document: Any = json.loads(printed.splitlines()[-1])
    assert document["models"][0]["read_bytes"] == 4 * (5 * layer + 64 + 320 * 64)


def test_a_replay_accepts_what_it_was_told_to() -> None:
    lm = tiny()
    stage = Stage(lm, TEXT, script_of(80, lm.vocab_size), 12)
    drafter = ScriptedDrafter(stage.script, (0, 3, 1, 9), 5)
    rounds = replayed(stage, drafter, 40)
    accepted = [len(round_.verdict.accepted_rows) for round_ in rounds[:-1]]
    assert accepted == ([0, 3, 1, 4] * 5)[: len(accepted)]  # five rows hold four drafts
    assert list(metrics.answer_tokens(rounds)) == list(stage.script[12:52])
    assert {len(round_.tree) for round_ in rounds[:-3]} == {5}  # then the budget leaves less room


def test_a_card_is_known_by_its_name() -> None:
    assert promised_speed("NVIDIA H200, 141 GiB") == 4.8e12
    assert promised_speed("NVIDIA H100 PCIe, 80 GiB") == 2.0e12
    assert promised_speed("Some Processor, 2 threads, AVX512") is None


def test_the_full_run_has_the_shapes_it_names() -> None:
    """8B: 32 layers of 218.1 million weights, an embedding and a head of 525.3 million each."""
    shape = next(model.shape for model in full_plan().models if model.name == "8B Llama shape")
    kv = shape.num_kv_heads * shape.hidden_size // shape.num_heads
    layer = 2 * shape.hidden_size * (shape.hidden_size + kv)
    layer += 3 * shape.hidden_size * shape.intermediate_size
    total = shape.num_layers * layer + 2 * shape.vocab_size * shape.hidden_size
    assert total == pytest.approx(8.03e9, rel=0.001)


def test_drafters_are_measured_where_weights_are(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "tiny", num_hidden_layers=1)
    said: list[str] = []
    found = measure_drafters(local_target(str(folder)), 1, 4, said.append, lambda: False)
    assert isinstance(found, DrafterTable)
    assert found.document["settings"]["budget"] == 4
    assert "autoregressive" in found.text
    assert said


def test_without_weights_or_time_there_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path))
    reason = measure_drafters(DEFAULT_TARGET, 1, 4, print, lambda: False)
    assert reason == "its weights are not in the cache, and nothing is fetched"
    folder = tiny_folder(tmp_path / "tiny", num_hidden_layers=1)
    reason = measure_drafters(local_target(str(folder)), 1, 4, [].append, lambda: True)
    assert reason == "the time was over before every lane was warm"
