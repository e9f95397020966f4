"""`train data` and `train METHOD`: a corpus from a target, and a drafter from a corpus.

Both go on where they stopped, so Ctrl-C loses little: it ends workers, and keeps a training's
state at the step it is in.
"""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from specviz.cli import DONE, FAILED, INTERRUPTED
from specviz.cli.lanes import parse_value
from specviz.cli.run import find_target, interrupts
from specviz.cli.train_progress import LossLines, TokenBar
from specviz.cli.watch import ProgressLines
from specviz.config import KnobValue, TargetSpec

if TYPE_CHECKING:
    from specviz.train.course import Course, Order
    from specviz.train.data import Made
    from specviz.train.recipe import Training

DATA = "data"
STATE_FOLDER = "training"  # below --out
GO_ON = "Stopped. The same command goes on from here.\n"


def train(options: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    from specviz.lm.weights import WeightsUnavailable
    from specviz.train.recipe import DivergedError
    from specviz.train.workers import WorkerDiedError

    stop = threading.Event()
    try:
        with interrupts(stop.set, err, after="what is under way"):
            work = _data if options.train == DATA else _method
            return work(options, stop, out, err)
    except (WeightsUnavailable, DivergedError, WorkerDiedError) as error:
        err.write(f"{error}\n")
        return FAILED


def _data(options: argparse.Namespace, stop: threading.Event, out: TextIO, err: TextIO) -> int:
    from specviz.train.data import build_corpus, describe
    from specviz.train.features import build_features
    from specviz.train.plan import plan_for

    folder: Path = options.out
    plan = plan_for(folder, options.prompts, options.seed)
    target = _target_folder(find_target(options.target), err)
    num_workers = options.workers or _default_workers()
    for made in (
        build_corpus(target, folder, plan, num_workers),
        build_features(target, folder, num_workers),
    ):
        if not _watched(made, stop, err):
            err.write(GO_ON)
            return INTERRUPTED
    facts = describe(folder)
    kinds = ", ".join(f"{kind} {n:,}" for kind, n in facts["answer_tokens_by_kind"].items())
    out.write(
        f"{facts['examples']:,} examples, {facts['held_out']:,} of them held out; "
        f"{facts['answer_tokens']:,} answer tokens: {kinds}.\nsha256 {facts['sha256']}\n"
    )
    return DONE


def _watched(events: Iterable[Made], stop: threading.Event, err: TextIO) -> bool:
    """False: somebody wanted to stop. Closing the events ends the workers."""
    steps = iter(events)
    assert isinstance(steps, Generator), "it can be closed"
    bar = TokenBar(err)
    try:
        for made in steps:
            if stop.is_set():
                return False
            bar.show(made.stage, made.done, made.total, made.num_tokens)
        return True
    finally:
        bar.close()
        steps.close()


def _method(options: argparse.Namespace, stop: threading.Event, out: TextIO, err: TextIO) -> int:
    from specviz.train.course import Course, use_threads
    from specviz.train.export import export

    use_threads(options.threads)
    course = Course(_order(options, err))
    if options.export_only and not course.is_started:
        raise ValueError(
            f"There is no state of training in {course.order.state} to export; leave --export-only "
            "out to train."
        )
    share = f"{course.vocab.coverage:.1%} of the answer tokens"
    err.write(f"Draft vocabulary: {len(course.vocab.ids):,} tokens, {share}.\n")
    training = course.training(course.first_phase())
    for phase in range(course.first_phase(), 0 if options.export_only else course.num_phases):
        if phase > course.first_phase():
            training = course.training(phase)
        if not _trained(course, training, phase, stop, err):
            err.write(GO_ON)
            return INTERRUPTED
    simulated = training.evaluate()
    export(course, training, simulated, options.out, command_of(options))
    out.write(
        f"{options.out} holds the drafter after {training.step:,} steps; CARD.md says what it is and "
        f"how to use it. Held out, simulated: tau {simulated.chain.tau:.2f} of its chain, "
        f"{simulated.tree.tau:.2f} of a tree of {simulated.tree_rows} rows.\n"
    )
    return DONE


def _trained(
    course: Course, training: Training, phase: int, stop: threading.Event, err: TextIO
) -> bool:
    """False: somebody wanted to stop; the state is kept."""
    lines = LossLines(err)
    num_steps = training.schedule.num_steps
    err.write(
        f"{course.recipe.title}, phase {phase + 1} of {course.num_phases}: step {training.step} of "
        f"{num_steps}, {sum(p.numel() for p in training.parameters) / 1e6:.2f} million parameters, "
        f"{len(training.learned):,} examples, {len(training.held_out)} held out for evaluation.\n"
    )
    try:
        for report in training.run():
            lines.step(report.step, num_steps, report.losses, report.learning_rate)
            if report.simulated is not None:
                lines.tell(report.step, report.simulated)
            if stop.is_set() and report.step < num_steps:
                training.save()
                return False
        return True
    finally:
        lines.close()


def _order(options: argparse.Namespace, err: TextIO) -> Order:
    from specviz.train.course import Order

    if not options.data.is_dir():
        raise ValueError(
            f"--data takes the folder that `train data` wrote; there is none at {options.data}."
        )
    if options.steps is not None and options.epochs is not None:
        raise ValueError("Give --steps or --epochs, not both: each says how long to train.")
    spec = find_target(options.target)
    return Order(
        method=options.train,
        spec=spec,
        target=_target_folder(spec, err),
        data=options.data,
        state=options.state or options.out / STATE_FOLDER,
        num_steps=options.steps,
        num_epochs=options.epochs,
        learning_rate=options.learning_rate,
        batch_tokens=options.batch_tokens,
        seed=options.seed,
        vocab_size=options.vocab_size,
        continued=options.continued,
        first_phase=options.first_phase - 1,
        arguments=dict(map(_argument, options.set)),
    )


def command_of(options: argparse.Namespace) -> str:
    """What was asked for, as a command that means something on another machine: folders by their
    last name alone."""
    words = ["python -m specviz train", options.train]
    for name, value in vars(options).items():
        if name in ("command", "train", "state", "export_only", "threads") or value in (None, []):
            continue
        if name == "first_phase" and value == 1:
            continue
        option = "--from" if name == "continued" else f"--{name.replace('_', '-')}"
        is_folder = isinstance(value, Path) or (name == "target" and Path(value).is_dir())
        given = value if isinstance(value, list) else [Path(value).name if is_folder else value]
        words += [f"{option} {word}" for word in given]
    return " ".join(words)


def _target_folder(spec: TargetSpec, err: TextIO) -> Path:
    from specviz.lm.weights import fetch

    lines, steps = ProgressLines(err), fetch(spec)
    while True:
        try:
            lines.tell(next(steps))
        except StopIteration as end:
            folder: Path = end.value.folder
            return folder


def _argument(text: str) -> tuple[str, KnobValue]:
    name, _, value = text.partition("=")
    if not name or not value:
        raise ValueError(f"--set is written NAME=VALUE, such as num_steps=5; got {text!r}.")
    return name, parse_value(value)


def _default_workers() -> int:
    """One per core; one in all where a GPU does the work."""
    from specviz.lm.device import pick_device

    return 1 if pick_device().type == "cuda" else os.cpu_count() or 1
