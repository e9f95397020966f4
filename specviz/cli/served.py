"""`run --server`: the prompt goes to somebody else's server, and what can be seen of it is told."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TextIO

from specviz.cli import BAD_INPUT, DONE, FAILED, INTERRUPTED
from specviz.cli.parser import parser
from specviz.cli.watch import ProgressLines, printable
from specviz.served.events import ServedEnd, ServedEvent, ServedStart, ServedStep
from specviz.served.report import report
from specviz.trace import Failure, Progress
from specviz.words import Refusal, message, tell

# What the engine does and a server does in its own way: an option that would be ignored is refused.
OURS = ("lanes", "target", "draft", "drafters", "precision", "verification", "out")


def check_options(options: argparse.Namespace) -> None:
    """Refusal: an option that has no effect with, or without, a server."""
    if options.server is None:
        if options.model:
            raise Refusal(message("served.needs_server"))
        return
    defaults = parser().parse_args(["run", "-"])
    for name in OURS:
        if getattr(options, name) != getattr(defaults, name):
            raise Refusal(message("served.lone_option", name=f"--{name}"))


def watch_served(events: Iterator[ServedEvent], out: TextIO, err: TextIO) -> int:
    """The text as it comes and the report to `out`, progress and failures to `err`; the exit code."""
    progress, steps = ProgressLines(err), list[ServedStep]()
    start: ServedStart | None = None
    for event in events:
        if isinstance(event, Progress):
            progress.tell(event)
        elif isinstance(event, Failure):
            err.write(f"{printable(tell(event.message))}\n")
            return BAD_INPUT if event.is_refusal else FAILED
        elif isinstance(event, ServedStart):
            start = event
        elif isinstance(event, ServedStep):
            steps.append(event)
            out.write(printable(event.text))
            out.flush()
        elif start is not None:
            _write_report(start, steps, event, out)
            return {"error": FAILED, "cancelled": INTERRUPTED}.get(event.reason, DONE)
    return FAILED


def _write_report(start: ServedStart, steps: list[ServedStep], end: ServedEnd, out: TextIO) -> None:
    sentences = (printable(tell(sentence)) for sentence in report(start, steps, end))
    out.write("\n\n" + "\n".join(sentences) + "\n")
