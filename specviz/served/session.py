"""A run on somebody else's server, as a stream of events. Closing the iterator ends it there too."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from time import perf_counter

from specviz.config import Request
from specviz.served.client import Client, ServerLost, root_of
from specviz.served.counts import counted, look
from specviz.served.events import ServedEnd, ServedEvent, ServerCounts
from specviz.served.pieces import Steps
from specviz.trace import EndReason, Failure, Progress
from specviz.words import message, said

ENDS: dict[str, EndReason] = {"length": "length", "stop": "stop"}  # by the server's own word


class ServedSession:
    """`address` of an OpenAI-compatible server, and the model to ask: empty takes its first.

    Refusal: this is no address.
    """

    def __init__(self, address: str, model: str = "") -> None:
        self._root, self._model = root_of(address), model
        self._is_cancelled = threading.Event()

    def cancel(self) -> None:
        """End the run in progress with the next piece that comes."""
        self._is_cancelled.set()

    def events(self, request: Request) -> Iterator[ServedEvent]:
        """Lanes, verification and precision of the request are the server's own affair."""
        self._is_cancelled.clear()
        try:
            with closing(Client(self._root)) as client:
                yield from self._events(client, request)
        except (ValueError, ServerLost) as error:
            yield Failure(said(error), is_refusal=isinstance(error, ValueError))

    def _events(self, client: Client, request: Request) -> Iterator[ServedEvent]:
        yield Progress("load", message("served.asking", address=client.address))
        start = client.look(self._model)
        yield start
        before, steps, began = look(client, start), Steps(), perf_counter()
        lost: ServerLost | None = None
        try:
            with client.answer(start, request) as pieces:
                for piece in pieces:
                    yield from steps.add(piece, perf_counter() - began)
                    if self._is_cancelled.is_set():
                        break
        except ServerLost as error:
            lost = error
        yield from steps.rest()
        if lost is not None and steps.first_seconds is None:
            yield Failure(said(lost))
        elif lost is not None:
            yield _end("error", steps, ServerCounts(missing=said(lost)))
        elif self._is_cancelled.is_set():
            yield _end("cancelled", steps, ServerCounts(missing=message("served.cancelled")))
        else:
            counts = counted(client, start, before, steps.timings, steps.num_tokens)
            yield _end(ENDS.get(steps.finish, "stop"), steps, counts)


def _end(reason: EndReason, steps: Steps, counts: ServerCounts) -> ServedEnd:
    return ServedEnd(reason, steps.num_tokens, steps.last_seconds, steps.first_seconds, counts)
