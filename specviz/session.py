"""The seam between the engine and everything that watches it.

A session turns a request into a stream of events. LiveSession runs the engine (torch is
imported inside the call); ReplaySession reads a saved trace and needs no torch. Closing the
iterator stops the run within one round.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from specviz.config import Catalog, Request
from specviz.trace import SessionEvent
from specviz.trace_io import load_events


class Session(Protocol):
    def catalog(self) -> Catalog:
        """What can be asked for."""

    def events(self, request: Request) -> Iterator[SessionEvent]:
        """Progress while the run cannot start yet, then the trace; or one Failure with the reason."""


class ReplaySession:
    """A recorded run as a session: it can offer nothing but itself."""

    def __init__(self, text: str) -> None:
        self._events = tuple(load_events(text))

    def catalog(self) -> Catalog:
        return Catalog((), ())

    def events(self, request: Request | None = None) -> Iterator[SessionEvent]:
        del request  # the trace already holds one
        return iter(self._events)
