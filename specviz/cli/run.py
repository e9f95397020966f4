"""`run`: one prompt through the engine, several drafters in a race, recorded on request."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import TextIO

from specviz.cli import FAILED
from specviz.cli.lanes import parse_lanes
from specviz.cli.served import check_options, watch_served
from specviz.cli.watch import ProgressLines, watch
from specviz.config import Request, SamplingParams, TargetSpec, checked
from specviz.places import gathered
from specviz.presets import HUB_ID, PUBLISHED, TARGETS, hub_target, local_target
from specviz.served import ServedSession
from specviz.session import LiveSession, Recorder
from specviz.trace import RunStart, SessionEvent


def run(options: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    check_options(options)
    request = request_of(options)
    if options.server is not None:
        served = ServedSession(options.server, options.model)
        with interrupts(served.cancel, err, after="the next piece"):
            return watch_served(served.events(request), out, err)
    check_out(options.out)
    target = find_target(options.target)
    options = with_places(options, err)
    session = open_session(target, options.draft, options.drafters)
    request = checked(replace(request, target=target.name), session.catalog())
    try:
        with interrupts(session.cancel, err):
            return watch(_recorded(session.events(request), options.out), out, err)
    except BrokenPipeError:
        raise
    except OSError as error:  # the run went well, the trace could not be written
        err.write(f"The run ended because its trace could not be written: {error}.\n")
        return FAILED


def request_of(options: argparse.Namespace) -> Request:
    """The request that the options ask for, of the default target. ValueError: what is wrong."""
    prompt = sys.stdin.read() if options.prompt == "-" else options.prompt
    return Request(
        prompt=prompt,
        lanes=parse_lanes(options.lanes),
        is_chat=not options.raw,
        precision=options.precision,
        sampling=SamplingParams(
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            min_p=options.min_p,
            repetition_penalty=options.repetition_penalty,
        ),
        verification=options.verification,
        max_new_tokens=options.max_new_tokens,
        stop_strings=tuple(options.stop),
        seed=options.seed,
        is_adaptive=options.adaptive_budget,
    )


def find_target(text: str) -> TargetSpec:
    """A target by its name, a folder or a Hub repository as one. ValueError: it is none of them."""
    named = {spec.name: spec for spec in (*TARGETS, *PUBLISHED)}
    if text in named:
        return named[text]
    if Path(text).expanduser().is_dir():
        return local_target(text)
    if HUB_ID.fullmatch(text) and not Path(text).parent.exists():
        return hub_target(text)
    raise ValueError(
        f"--target takes a name ({', '.join(named)}), the folder of a checkpoint, or a repository "
        f"of the Hub as owner/name; got {text!r}."
    )


def with_places(options: argparse.Namespace, err: TextIO) -> argparse.Namespace:
    """The options with --draft and --drafters as folders here. ValueError: they name none."""
    found = gathered(options.drafters, options.draft, ProgressLines(err).tell)
    return argparse.Namespace(**{**vars(options), **asdict(found)})


def open_session(target: TargetSpec, draft: Path | None, drafters: Path | None) -> LiveSession:
    return LiveSession(None if target in TARGETS else target, draft, drafters)


def check_out(path: Path | None, option: str = "--out") -> None:
    """ValueError: nothing can be written there."""
    if path is None:
        return
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"{option} takes a file in a folder that exists; got {str(path)!r}.")


def _recorded(events: Iterator[SessionEvent], path: Path | None) -> Iterator[SessionEvent]:
    """The same events, written to `path`. A run that never starts leaves the file as it was."""
    if path is None:
        yield from events
        return
    for event in events:
        if isinstance(event, RunStart):
            yield from Recorder(path).recorded(chain((event,), events))
            return
        yield event


@contextmanager
def interrupts(
    cancel: Callable[[], None], err: TextIO, after: str = "this round"
) -> Iterator[None]:
    """The first Ctrl-C calls `cancel`, which ends in good order; the second ends the program."""

    def stop() -> None:
        err.write(f"\nStopping after {after}; press Ctrl-C again to quit at once.\n")
        cancel()

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # In a thread of its own: this one may be holding the very locks that stopping takes.
        threading.Thread(target=stop).start()

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
