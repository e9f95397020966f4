"""`replay`: text and summary of a saved trace. Needs no torch and no model."""

from __future__ import annotations

import argparse
from typing import TextIO

from specviz.cli import DONE
from specviz.cli.watch import watch
from specviz.session import ReplaySession
from specviz.trace_io import read_trace


def replay(options: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    session = ReplaySession(read_trace(options.file))
    watch(session.events(), out, err)
    return DONE
