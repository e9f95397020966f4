"""Gets the default target ready before anybody asks, and tells the page how far that is.

It is an ordinary run of one token: what it fetches, loads and warms is exactly what the first
visitor's run would otherwise wait for. It knows no model and no file.
"""

from __future__ import annotations

import logging
import threading
import time

from specviz.config import LaneSpec, Request
from specviz.session import Session
from specviz.trace import Failure, Progress
from specviz.ui.offers import first_lanes
from specviz.words import Message, message

log = logging.getLogger(__name__)

# Loading a model beside it makes the first picture twice as slow on two processors. A visitor who
# was waiting for the page has it by then; without one, the model is ready so much later.
HOLD_SECONDS = 5.0
DRAW_SECONDS = 1.0  # a browser takes to draw what it was given


class WarmUp:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._state: dict[str, object] = _state("loading", message("page.model_starting"))

    def start(self, after: threading.Event | None = None) -> None:
        """Begins at once, or when `after` has happened and been drawn, or was waited for enough."""
        threading.Thread(
            target=self._run, args=[after], name="specviz-warm-up", daemon=True
        ).start()

    def state(self) -> dict[str, object]:
        """state "loading" | "ready" | "failed", a sentence, and bytes done of total (0: unknown)."""
        return self._state

    def _run(self, after: threading.Event | None) -> None:
        if after is not None and after.wait(HOLD_SECONDS):
            time.sleep(DRAW_SECONDS)
        try:
            self._state = self._warm()
        except Exception as error:  # a page without a model is still useful: it replays
            log.exception("Preparing the model failed")
            self._state = _state("failed", message("page.crashed", kind=type(error).__name__))

    def _warm(self) -> dict[str, object]:
        catalog = self._session.catalog()
        lanes = tuple(map(LaneSpec, first_lanes(catalog)))  # those of the first visitor's run
        # As raw text: a base model has no chat template, and can be made ready all the same.
        target = catalog.targets[0].name
        request = Request("Hello", lanes, target=target, is_chat=False, max_new_tokens=1)
        for event in self._session.events(request):
            if isinstance(event, Failure):
                return _state("failed", event.message)
            if isinstance(event, Progress):
                self._state = _state("loading", event.message, event.done, event.total)
        return _state("ready", message("page.model_ready"))


def _state(state: str, sentence: Message | str, done: int = 0, total: int = 0) -> dict[str, object]:
    return {"state": state, "message": sentence, "done": done, "total": total}
