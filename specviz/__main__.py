"""`python -m specviz run | replay | bench | train | models`: finds the command, and ends as it says.

Exit codes: 0 done, 1 the run failed, 2 the input cannot be used, 130 interrupted.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence

from specviz.cli import BAD_INPUT, FAILED, INTERRUPTED
from specviz.cli.bench import bench
from specviz.cli.models import models
from specviz.cli.parser import parser
from specviz.cli.replay import replay
from specviz.cli.run import run
from specviz.cli.train import train

COMMANDS = {"run": run, "replay": replay, "bench": bench, "train": train, "models": models}


def main(words: Sequence[str] | None = None) -> int:
    options = parser().parse_args(words)
    try:
        return COMMANDS[options.command](options, sys.stdout, sys.stderr)
    except BrokenPipeError:  # whoever read our output has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end
        return FAILED
    except OSError as error:
        reason = f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
        print(f"{reason}.", file=sys.stderr)
        return BAD_INPUT
    except ValueError as error:
        print(error, file=sys.stderr)
        return BAD_INPUT


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a character gets its code
            stream.reconfigure(errors="backslashreplace")
    try:
        code = main()
    except KeyboardInterrupt:
        # At once: the engine's thread may be in the middle of a long step.
        os._exit(INTERRUPTED)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # torch's farewell is not to be interrupted aloud
    sys.exit(code)
