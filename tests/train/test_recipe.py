"""The loop: a run that goes on is the run that never stopped, and a bad one ends in a sentence."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from specviz.drafters.eagle_net import EagleNet
from specviz.drafters.training import FrozenTarget
from specviz.lm.folder import config_of, tensors_of
from specviz.train.batches import BatchMaker, choose_vocab
from specviz.train.data import Example, load_corpus
from specviz.train.recipe import WINDOW_STEPS, DivergedError, Training, kept_steps
from specviz.train.recipes import Schedule

SCHEDULE = Schedule(10, batch_tokens=300, warmup_steps=3, eval_every=4, save_seconds=0.0)


@pytest.fixture(scope="module")
def examples(corpus: Path) -> list[Example]:
    return load_corpus(corpus)


@pytest.fixture(scope="module")
def eagle(target: Path, examples: list[Example]) -> Callable[[Path, Schedule], Training]:
    vocab, _ = choose_vocab(examples, 200)
    frozen = FrozenTarget(target, config_of(target), tensors_of(target), vocab)

    def build(folder: Path, schedule: Schedule) -> Training:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            net = EagleNet(frozen)
        return Training(net, examples, maker((*net.taps,)), schedule, folder)

    return build


def maker(taps: tuple[Any, ...] = ()) -> BatchMaker:
    return BatchMaker(taps, num_layers=6, hidden_size=64, device=torch.device("cpu"))


class Scripted(nn.Module):
    """A network whose loss is what the script says, step by step; its one weight falls with it."""

    taps = ()

    def __init__(self, script: Callable[[int], float]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.script, self.calls = script, 0

    def losses(self, batch: Any, random: torch.Generator) -> dict[str, Tensor]:
        self.calls += 1
        return {"loss": self.weight * 0 + self.script(self.calls)} | {"own": torch.zeros(())}

    def ranks(self, batch: Any) -> Tensor:
        return torch.zeros(3, 2, dtype=torch.long)


def scripted(
    script: Callable[[int], float], examples: list[Example], folder: Path, num_steps: int
) -> Training:
    schedule = replace(SCHEDULE, num_steps=num_steps, eval_every=1000)
    return Training(Scripted(script), examples, maker(), schedule, folder)


def weights(training: Training) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in training.net.named_parameters()}


def test_a_run_that_goes_on_equals_one_that_never_stopped(
    eagle: Callable[[Path, Schedule], Training], tmp_path: Path
) -> None:
    """To the last bit: weights, losses (EAGLE's noise included), learning rates, evaluations."""
    whole = eagle(tmp_path / "whole", SCHEDULE)
    reports = list(whole.run())
    assert [report.step for report in reports] == list(range(1, 11))
    assert [report.step for report in reports if report.simulated] == [4, 8, 10]
    told = []
    for stop in (3, 4, 99):  # each time from the files alone
        training = eagle(tmp_path / "parts", SCHEDULE)
        for report in training.run():
            told.append(report)
            if report.step >= stop:
                break
    assert told == reports
    parts = eagle(tmp_path / "parts", SCHEDULE)
    assert parts.step == 10
    assert list(parts.run()) == []
    for name, weight in weights(whole).items():
        assert torch.equal(weight, weights(parts)[name]), name
    assert parts.evaluate() == reports[-1].simulated
    assert [e["step"] for e in parts.history.evaluations] == [4, 8, 10]
    step, history = kept_steps(tmp_path / "parts") or (0, None)
    assert step == 10
    assert history == parts.history
    assert history.seconds is not None
    assert history.seconds > 0


def test_training_lowers_the_loss_and_leaves_the_target_alone(
    eagle: Callable[[Path, Schedule], Training], tmp_path: Path
) -> None:
    training = eagle(tmp_path, replace(SCHEDULE, num_steps=24, eval_every=24, learning_rate=4e-3))
    frozen = {name: b.clone() for name, b in training.net.named_buffers()}
    losses = [report.losses["loss"] for report in training.run()]
    assert sum(losses[-5:]) < 0.96 * sum(losses[:5])  # by itself it wavers by one percent
    for name, buffer in training.net.named_buffers():
        assert torch.equal(buffer, frozen[name]), name


def test_the_rate_warms_up_and_falls_to_a_tenth(
    eagle: Callable[[Path, Schedule], Training], tmp_path: Path
) -> None:
    training = eagle(tmp_path, SCHEDULE)
    rates = []
    for step in range(11):
        training.step = step
        rates.append(training._rate() / SCHEDULE.learning_rate)
    wanted = [1 / 3, 2 / 3, 1.0]
    wanted += [0.1 + 0.9 * (1 + math.cos(math.pi * i / 7)) / 2 for i in range(8)]
    assert rates == pytest.approx(wanted)
    assert rates[-1] == pytest.approx(0.1)


def test_a_loss_that_is_no_number_ends_the_run_and_keeps_the_state(
    examples: list[Example], tmp_path: Path
) -> None:
    training = scripted(lambda n: 1.0 if n <= 6 else math.nan, examples, tmp_path, 50)
    with pytest.raises(DivergedError, match=r"no number for 5 steps, at step 10. Lower the"):
        list(training.run())
    assert torch.isfinite(training.net.weight)
    again = scripted(lambda n: 1.0, examples, tmp_path, 50)
    assert 6 <= again.step <= 10
    assert torch.isfinite(again.net.weight)


def test_a_single_bad_step_is_passed_over(examples: list[Example], tmp_path: Path) -> None:
    training = scripted(lambda n: math.nan if n % 3 == 0 else 1.0, examples, tmp_path, 20)
    assert len(list(training.run())) == 20
    assert torch.isfinite(training.net.weight)


def test_a_loss_that_grows_ends_the_run(examples: list[Example], tmp_path: Path) -> None:
    training = scripted(lambda n: 2.0 if n <= WINDOW_STEPS else 9.0, examples, tmp_path, 200)
    with pytest.raises(DivergedError, match=r"The loss rose from 2\.00 to 5\.\d\d, at step"):
        list(training.run())
    assert training.step < 1.6 * WINDOW_STEPS


def test_a_loss_that_only_wavers_goes_on(examples: list[Example], tmp_path: Path) -> None:
    training = scripted(lambda n: 3.0 + 2.5 * (-1) ** n, examples, tmp_path, 120)
    assert len(list(training.run())) == 120


def test_a_state_of_another_network_is_refused(
    eagle: Callable[[Path, Schedule], Training], examples: list[Example], tmp_path: Path
) -> None:
    scripted(lambda n: 1.0, examples, tmp_path, 2).save()
    with pytest.raises(ValueError, match="is of another network"):
        eagle(tmp_path, SCHEDULE)


@pytest.mark.parametrize("kept", [0, 300])
def test_a_state_cut_short_is_said(examples: list[Example], tmp_path: Path, kept: int) -> None:
    scripted(lambda n: 1.0, examples, tmp_path, 2).save()
    path = tmp_path / "training.pt"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match="cannot be read as a state of training"):
        scripted(lambda n: 1.0, examples, tmp_path, 2)


def test_what_a_state_from_elsewhere_cost_is_not_known(
    examples: list[Example], tmp_path: Path
) -> None:
    training = scripted(lambda n: 1.0, examples, tmp_path, 4)
    next(iter(training.run()))
    (tmp_path / "training.json").unlink()
    again = scripted(lambda n: 1.0, examples, tmp_path, 4)
    list(again.run())
    assert again.history.seconds is None
    assert json.loads((tmp_path / "training.json").read_text())["seconds"] is None


def test_a_corpus_without_anything_held_out_is_too_small(
    examples: list[Example], tmp_path: Path
) -> None:
    few = [example for example in examples if not example.is_held_out]
    with pytest.raises(ValueError, match=r"too small: \d+ examples to learn from, 0 greedy ones"):
        scripted(lambda n: 1.0, few, tmp_path, 2)
