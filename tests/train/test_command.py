"""`train` from the command line: a new target to a drafter that loads, in miniature."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.__main__ import main
from specviz.lm.checkpoints import load_checkpoint, tokenizer_sha256
from specviz.lm.folder import tokenizer_of
from specviz.train.data import describe
from specviz.train.recipe import Training, kept_steps
from specviz.train.recipes import RECIPES
from tests.models import edit_config, tiny_folder

TENSORS = {  # one of each method's own
    "draft_model": "model.layers.0.self_attn.q_proj.weight",
    "medusa": "3.0.linear.weight",
    "mtp": "backbone.layers.0.self_attn.q_proj.lora_B",
    "eagle": "layers.0.mlp.up_proj.weight",
    "eagle3": "midlayer.hidden_norm.weight",
}


@pytest.fixture(scope="module")
def data(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus that commands may write their vocabulary into."""
    folder = tmp_path_factory.mktemp("data") / "corpus"
    shutil.copytree(corpus, folder)
    return folder


def train(method: str, target: Path, data: Path, out: Path, *words: str) -> int:
    options = ["--target", str(target), "--data", str(data), "--out", str(out)]
    return main(["train", method, *options, "--batch-tokens", "300", *words])


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def test_data_is_made_and_told_of(
    target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "data", "--target", str(target), "--out", str(tmp_path / "corpus")]
    words += ["--workers", "1", "--prompts"]
    assert main([*words, "30"]) == 0
    printed = capsys.readouterr()
    facts = describe(tmp_path / "corpus")
    assert printed.out.startswith(f"{facts['examples']} examples, ")
    assert printed.out.endswith(f"sha256 {facts['sha256']}\n")
    assert "tokens/s" in printed.err
    assert "features: 100.0%" in printed.err
    assert main([*words, "30", "--seed", "1"]) == 2
    assert "another plan or target" in capsys.readouterr().err


@pytest.mark.parametrize("method", sorted(RECIPES))
def test_one_command_trains_and_exports_a_drafter(
    method: str, target: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / method
    assert train(method, target, data, out, "--steps", "6", "--seed", "2") == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(f"{out} holds the drafter")
    assert "held out (simulated)" in printed.err
    checkpoint = load_checkpoint(out)
    assert checkpoint.config["method"] == method
    assert checkpoint.config["specviz_target"] == {
        "name": "local:tiny",
        "architecture": "LlamaForCausalLM",
        "hidden_size": 64,
        "num_layers": 6,
        "vocab_size": 328,
        "tokenizer_sha256": tokenizer_sha256(tokenizer_of(target)),
    }
    assert checkpoint.tensors[TENSORS[method]].dtype == torch.bfloat16
    vocab = read(data, "vocab.json")
    ids = torch.arange(len(vocab["ids"])) + checkpoint.tensors["d2t"]
    assert ids.tolist() == vocab["ids"]
    assert ("hit_rates" in checkpoint.config) == (method in ("medusa", "eagle"))
    check_papers(out, method, data)


def check_papers(out: Path, method: str, data: Path) -> None:
    """Provenance and card agree with what was done, and name no folder of this machine."""
    facts = read(out, "provenance.json")
    assert facts["command"] == (
        f"python -m specviz train {method} --target tiny --data corpus --out {method} --steps 6 "
        "--batch-tokens 300 --seed 2"
    )
    assert facts["seed"] == 2
    assert facts["corpus"] == describe(data)
    steps = [phase["steps"] for phase in facts["phases"]]
    assert sum(steps) == 6
    assert len(steps) == len(RECIPES[method].phases)
    for phase in facts["phases"]:
        assert phase["answer_tokens_seen"] > 0
        assert phase["schedule"]["batch_tokens"] == 300
        assert phase["evaluations"][-1]["step"] == phase["steps"]
    assert facts["phases"][-1]["evaluations"][-1] == {"step": steps[-1], **facts["held_out"]}
    card = (out / "CARD.md").read_text()
    assert f"tau of a chain of {len(facts['held_out']['conditional'])}" in card
    assert "Simulated on" in card
    assert f"| 1 | {steps[0]} |" in card
    for name in ("provenance.json", "CARD.md", "config.json"):
        assert str(out.parent) not in (out / name).read_text()


def test_a_run_in_two_sittings_exports_the_same_weights(
    target: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command goes on; done already, it exports again without a step more."""
    assert train("eagle", target, data, tmp_path / "whole", "--steps", "5") == 0
    run = Training.run

    def interrupted(self: Training) -> Any:
        for report in run(self):
            yield report
            if report.step == 2:
                self.save()
                raise KeyboardInterrupt

    monkeypatch.setattr(Training, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train("eagle", target, data, tmp_path / "parts", "--steps", "5")
    monkeypatch.setattr(Training, "run", run)
    assert not (tmp_path / "parts" / "config.json").exists()
    for _ in range(2):
        assert train("eagle", target, data, tmp_path / "parts", "--steps", "5") == 0
        whole, parts = (load_checkpoint(tmp_path / name) for name in ("whole", "parts"))
        for name, tensor in whole.tensors.items():
            assert torch.equal(tensor, parts.tensors[name]), name


def test_ctrl_c_keeps_the_step_it_is_in(
    target: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = Training.run

    def interrupted(self: Training) -> Any:
        for report in run(self):
            if report.step == 3:
                signal.raise_signal(signal.SIGINT)
                time.sleep(0.2)  # the handler works in a thread of its own
            yield report

    monkeypatch.setattr(Training, "run", interrupted)
    assert train("medusa", target, data, tmp_path / "out", "--steps", "900") == 130
    assert "The same command goes on from here." in capsys.readouterr().err
    assert (kept_steps(tmp_path / "out" / "training") or (0,))[0] == 3
    assert not (tmp_path / "out" / "config.json").exists()


def test_an_export_takes_the_state_as_it_is(
    target: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    words = ("--state", str(state), "--export-only")
    assert train("mtp", target, data, tmp_path / "mtp", *words) == 2
    assert "There is no state of training" in capsys.readouterr().err
    assert train("mtp", target, data, tmp_path / "made", "--steps", "4", "--state", str(state)) == 0
    # A state that lies in the folder itself is the last phase's, wherever it came from.
    shutil.move(state / "phase-2" / "training.pt", state / "training.pt")
    shutil.rmtree(state / "phase-1")
    assert train("mtp", target, data, tmp_path / "mtp", *words) == 0
    made, again = (load_checkpoint(tmp_path / name) for name in ("made", "mtp"))
    assert all(torch.equal(tensor, again.tensors[name]) for name, tensor in made.tensors.items())
    facts = read(tmp_path / "mtp", "provenance.json")
    assert [phase["steps"] for phase in facts["phases"]] == [1]
    assert facts["phases"][0]["seconds"] is None
    assert "| not recorded |" in (tmp_path / "mtp" / "CARD.md").read_text()


def test_a_checkpoint_is_gone_on_from(target: Path, data: Path, tmp_path: Path) -> None:
    """Its vocabulary comes along, and its first held-out acceptance is where it left off."""
    assert train("medusa", target, data, tmp_path / "a", "--steps", "30") == 0
    words = ("--steps", "1", "--learning-rate", "1e-9", "--from", str(tmp_path / "a"))
    assert train("medusa", target, data, tmp_path / "b", *words) == 0
    before, after = (load_checkpoint(tmp_path / name).tensors for name in "ab")
    for name, tensor in before.items():
        torch.testing.assert_close(tensor, after[name], atol=1e-6, rtol=0)
    origin = {"name": "a", "provenance": read(tmp_path / "a", "provenance.json")}
    assert read(tmp_path / "b", "provenance.json")["continued_from"] == origin
    card = (tmp_path / "b" / "CARD.md").read_text()
    assert "The first phase made the checkpoint that the last training went on from." in card
    assert "\n| 1 | 30 | " in card
    assert "\n| 2 | 1 | " in card
    (tmp_path / "a" / "provenance.json").unlink()
    assert train("medusa", target, data, tmp_path / "c", *words) == 0
    assert "went on from `a`, of which no" in (tmp_path / "c" / "CARD.md").read_text()


def test_a_checkpoint_goes_on_from_a_later_phase(target: Path, data: Path, tmp_path: Path) -> None:
    """MTP's second phase alone: it starts at the checkpoint's module, and now tunes the backbone."""
    assert train("mtp", target, data, tmp_path / "a", "--steps", "4") == 0
    words = ("--first-phase", "2", "--from", str(tmp_path / "a"), "--steps", "3")
    words += ("--learning-rate", "1e-9")
    assert train("mtp", target, data, tmp_path / "b", *words) == 0
    assert not (tmp_path / "b" / "training" / "phase-1").exists()
    before, after = (load_checkpoint(tmp_path / name).tensors for name in "ab")
    for name, tensor in before.items():
        torch.testing.assert_close(tensor, after[name], atol=1e-6, rtol=0)
    facts = read(tmp_path / "b", "provenance.json")
    assert "--first-phase 2" in facts["command"]
    assert [(phase["steps"], phase["arguments"]) for phase in facts["phases"]] == [(3, {})]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--steps", "0"), "expected a whole number from 1 on, got '0'"),
        (("--epochs", "-1"), "expected a number above 0, got '-1'"),
        (("--steps", "3", "--epochs", "1"), "--steps or --epochs, not both"),
        (
            ("--set", "rank=3"),
            "--set takes arguments of the eagle3 network (num_steps); got 'rank'",
        ),
        (("--set", "rank"), "--set is written NAME=VALUE"),
        (("--vocab-size", "7"), "guess from 320 tokens"),
        (("--first-phase", "2"), "To begin with phase 2, give the checkpoint"),
        (("--first-phase", "3"), "EAGLE-3 is trained in 2 phases; there is no phase 3"),
        (("--from", "nowhere"), "There is no folder nowhere"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(
    words: tuple[str, ...],
    sentence: str,
    target: Path,
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (data / "vocab.json").write_text(
        json.dumps({"size": 320, "coverage": 1.0, "ids": list(range(320))})
    )
    try:
        code = train("eagle3", target, data, tmp_path / "out", *words)
    except SystemExit as end:
        code = int(str(end.code))
    assert code == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_data_that_does_not_serve_is_said(
    target: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert train("eagle", target, tmp_path / "none", out) == 2
    assert "--data takes the folder that `train data` wrote" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert train("eagle", target, tmp_path / "empty", out) == 2
    assert "holds no corpus" in capsys.readouterr().err
    shutil.copytree(corpus, tmp_path / "half")
    (tmp_path / "half" / "answers-0001.features").unlink()
    assert train("eagle", target, tmp_path / "half", out) == 2
    assert "1 shards of" in capsys.readouterr().err
    other = tiny_folder(tmp_path / "other", num_hidden_layers=5)
    assert train("eagle", other, corpus, out) == 2
    assert "written by another target than other" in capsys.readouterr().err
    edit_config(other, hidden_act="relu")
    assert train("eagle", other, corpus, out) == 2
    assert "No drafter can be trained for this target" in capsys.readouterr().err
    assert not out.exists()
