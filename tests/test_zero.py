"""Runs on ZeroGPU with a stand-in for what lends the GPU: one claim, another process, its end.

No model and no torch: what runs over there is a hand-made trace. `tests/space` has the whole app.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specviz.config import LaneSpec, Request
from specviz.trace import Failure, Progress, RoundTrace, SessionEvent
from specviz.words import tell
from specviz.zero import ZeroSession, gpu_seconds, is_zero_gpu
from tests.space import lending
from tests.traces import demo_run
from tests.ui.sessions import CATALOG

REQUEST = Request("Why?", (LaneSpec("autoregressive"), LaneSpec("lookahead")), max_new_tokens=50)


class Live:
    """What a ZeroSession asks of the session it was made from."""

    def __init__(self, seconds: float = 0.0, crash: Exception | None = None) -> None:
        self.seconds, self.crash = seconds, crash
        self.ran_in: list[int] = []

    def catalog(self) -> Any:
        return CATALOG

    def run_here(
        self, request: Request, is_cancelled: Callable[[], bool]
    ) -> Iterator[SessionEvent]:
        yield Progress("load", f"In process {os.getpid()}.")
        for event in demo_run():
            if is_cancelled():
                return
            time.sleep(self.seconds)
            yield event
        if self.crash is not None:
            raise self.crash


@pytest.fixture
def claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    """What was asked for and given back so far."""
    log = tmp_path / "claims"
    monkeypatch.setenv("STANDIN_LOG", str(log))
    monkeypatch.setitem(sys.modules, "spaces", SimpleNamespace(GPU=lending.GPU))  # type: ignore[arg-type]
    return lambda: (
        [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    )


def zero(live: Live, monkeypatch: pytest.MonkeyPatch) -> ZeroSession:
    session = ZeroSession(live)  # type: ignore[arg-type]
    monkeypatch.setattr(session.fetching, "events", lambda request: iter(()))
    return session


def test_all_lanes_share_one_claim_in_another_process(
    claims: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = zero(Live(), monkeypatch)
    assert claims() == []  # nobody has come
    asking, where, *events = session.events(REQUEST)
    assert events == list(demo_run())
    claim, done = claims()
    assert claim["seconds"] == 23  # 20 to start, and 0.03 for each of 2 lanes' 50 tokens
    assert "at most 23 seconds" in tell(asking.message)  # type: ignore[union-attr]
    assert claim["process"] == os.getpid() != done["process"]
    assert where == Progress("load", f"In process {done['process']}.")
    assert done["num_results"] == len(events) + 1


def test_leaving_gives_the_claim_back_before_the_run_would_have_ended(
    claims: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed generator waits for its process, which used to play all lanes to their end."""
    with closing(zero(Live(seconds=0.05), monkeypatch).events(REQUEST)) as events:  # type: ignore[type-var]
        next(event for event in events if isinstance(event, RoundTrace))
    _, done = claims()
    assert done["num_results"] < len(list(demo_run()))


def test_what_ends_a_claim_is_told_without_its_links(
    claims: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    quota = RuntimeError('No GPU left. <a href="https://x">Sign in</a> for more')
    *_, last = zero(Live(crash=quota), monkeypatch).events(REQUEST)
    assert isinstance(last, Failure)
    assert tell(last.message).endswith("lent no GPU for it: No GPU left. Sign in for more")
    assert not last.is_refusal


@pytest.mark.parametrize(
    ("lanes", "tokens", "sentence"),
    [
        (("autoregressive", "lookahead"), 2048, "may need a GPU for 143 seconds"),
        (("nobody",), 8, "drafter is one of"),
    ],
)
def test_what_cannot_be_run_asks_for_no_gpu(
    claims: Any,
    monkeypatch: pytest.MonkeyPatch,
    lanes: tuple[str, ...],
    tokens: int,
    sentence: str,
) -> None:
    request = Request("Why?", tuple(map(LaneSpec, lanes)), max_new_tokens=tokens)
    (failure,) = zero(Live(), monkeypatch).events(request)
    assert isinstance(failure, Failure)
    assert failure.is_refusal
    assert sentence in tell(failure.message)
    assert claims() == []


def test_the_first_visitors_run_stays_under_a_minute() -> None:
    """What visitors who are not signed in have left of a day is short."""
    lanes = tuple(map(LaneSpec, ("autoregressive", "draft_model", "prompt_lookup", "lookahead")))
    assert gpu_seconds(Request("Why?", lanes)) < 60


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("1", True), ("", False)])
def test_the_machine_says_that_it_is_zero_gpu(
    monkeypatch: pytest.MonkeyPatch, value: str, expected: bool
) -> None:
    monkeypatch.setenv("SPACES_ZERO_GPU", value)
    assert is_zero_gpu() == expected
