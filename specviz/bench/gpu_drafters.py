"""`bench gpu`'s last part: real drafters on a target whose weights are here, by `bench run`.

Nothing is fetched: without the weights there is a reason instead of a table.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specviz.bench.getting import Tell
from specviz.bench.lane_run import StoppedError
from specviz.bench.machine import kept_weights, load_average
from specviz.bench.prompts import OWN_PROMPTS, balanced, read_prompts
from specviz.bench.report import report_json, report_text
from specviz.bench.results import Results
from specviz.bench.run import PLAIN, WARM_UP_PROMPT, Benchmark, Plan, planned_lanes
from specviz.config import Request, TargetSpec
from specviz.session import LiveSession
from specviz.trace import Progress
from specviz.words import tell as told


@dataclass(frozen=True, slots=True)
class DrafterTable:
    text: str
    document: Any  # that of `bench run`


@dataclass(frozen=True, slots=True)
class _Sentences:
    """A `bench.run.Watcher` that says what happens and draws no bar."""

    say: Tell

    def progress(self, event: Progress) -> None:
        self.say(told(event.message))

    def tell(self, sentence: str) -> None:
        self.say(sentence)

    def advance(self, num_done: int, num_runs: int) -> None:
        """Nothing: what was measured is told at the end."""


def measure_drafters(
    target: TargetSpec, num_prompts: int, num_tokens: int, tell: Tell, is_over: Callable[[], bool]
) -> DrafterTable | str:
    """Every drafter that can run, on a few prompts, until `is_over`; or why there is no such table."""
    if not target.path and kept_weights(target) is None:
        return "its weights are not in the cache, and nothing is fetched"
    session = LiveSession(Path(target.path) if target.path else None)
    request = Request(
        prompt=WARM_UP_PROMPT,
        lanes=(PLAIN,),
        target=target.name,
        is_chat=target.has_chat_template,
        max_new_tokens=num_tokens,
    )
    plan = Plan(
        request=request,
        lanes=planned_lanes(None, request, session.catalog()),
        is_every_drafter=True,
        prompts=balanced(read_prompts(OWN_PROMPTS), num_prompts),
    )
    benchmark = Benchmark(session, plan, _Sentences(tell), is_over)
    load = load_average()
    try:
        setup = benchmark.warm_up()
        records, is_complete = benchmark.measure(setup, None)
    except StoppedError:
        return "the time was over before every lane was warm"
    results = Results(plan, setup, tuple(records), is_complete, load)
    if not results.num_prompts:
        return "the time was over before a prompt was done"
    return DrafterTable(report_text(results, is_markdown=False), json.loads(report_json(results)))
