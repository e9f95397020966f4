"""A session whose lanes' rounds are written by hand, so that every number can be counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from specviz.bench.prompts import BenchPrompt
from specviz.bench.run import PLAIN, Plan
from specviz.config import Catalog, DrafterInfo, LaneSpec, Request, TargetSpec
from specviz.trace import (
    Failure,
    LaneEnd,
    Progress,
    RoundTrace,
    RunEnd,
    SessionEvent,
)
from specviz.tree import DraftTree
from specviz.words import tell
from tests.traces import greedy_verdict, lane_start, round_trace, run_start

Script: TypeAlias = "list[RoundTrace] | str | LaneEnd"  # rounds, why it cannot start, how it ends
TARGET = TargetSpec("hand-made", "hand-made", "none", "no model: a test")


def rounds(
    guesses: Sequence[Sequence[int]], answer: Sequence[int], seconds: float, gap: float = 2.0
) -> list[RoundTrace]:
    """Chains of guesses against the answer; each round takes `seconds`, a fifth of it to draft."""
    found: list[RoundTrace] = []
    done = 0
    for index, guess in enumerate(guesses):
        tree = DraftTree.chain(0, guess)
        verdict = greedy_verdict(tree, [*answer[done:], 0]).cut(len(answer) - done, tree)
        times = (0.2 * seconds, 0.7 * seconds, 0.1 * seconds)
        found.append(round_trace(tree, verdict, index=index, seconds=times, gap=gap))
        done += len(found[-1].new_tokens)
    assert done == len(answer)
    return found


def plain_rounds(answer: Sequence[int], seconds: float = 2.0, gap: float = 2.0) -> list[RoundTrace]:
    return rounds([()] * len(answer), answer, seconds, gap)


@dataclass
class FakeSession:
    scripts: dict[tuple[str, str], Script]  # (prompt, lane)
    backbones: dict[str, str] = field(default_factory=dict)  # by drafter
    commit: str = "0000000"
    machine: str = "a test bench"
    asked: list[tuple[str, str]] = field(default_factory=list)

    def catalog(self) -> Catalog:
        names = dict.fromkeys(["autoregressive", *(lane for _, lane in self.scripts)])
        return Catalog((TARGET,), tuple(DrafterInfo(n, n, "", "") for n in names if "(" not in n))

    def events(self, request: Request) -> Iterator[SessionEvent]:
        (spec,) = request.lanes
        name = spec.drafter + "".join(f" ({knob}={value})" for knob, value in spec.knobs)
        self.asked.append((request.prompt, name))
        script = self.scripts.get((request.prompt, name), plain_rounds((1,)))
        yield Progress("load", "Loading.")
        if isinstance(script, str):
            yield Failure(script)
            return
        start = run_start(dtype="bfloat16", prompt=request.prompt)
        yield replace(start, commit=self.commit, machine=self.machine)
        backbone = dict(spec.knobs).get("backbone", self.backbones.get(spec.drafter, ""))
        yield replace(lane_start(0, spec.drafter), backbone=backbone)
        yield from plain_rounds((1,)) if isinstance(script, LaneEnd) else script
        yield script if isinstance(script, LaneEnd) else LaneEnd(0, "length", "")
        yield RunEnd(1.0)


@dataclass
class Notes:
    """A watcher that remembers."""

    told: list[str] = field(default_factory=list)
    progress_told: list[str] = field(default_factory=list)
    steps: list[tuple[int, int]] = field(default_factory=list)

    def progress(self, event: Progress) -> None:
        self.progress_told.append(tell(event.message))

    def tell(self, sentence: str) -> None:
        self.told.append(sentence)

    def advance(self, num_done: int, num_runs: int) -> None:
        self.steps.append((num_done, num_runs))


def plan(
    *lanes: str, prompts: Sequence[tuple[str, str]], is_every_drafter: bool = False, budget: int = 8
) -> Plan:
    """`prompts` are (text, category); a prompt's text is its name, too."""
    return Plan(
        request=Request("warm", (PLAIN,), target=TARGET.name, max_new_tokens=budget),
        lanes=(PLAIN, *map(LaneSpec, lanes)),
        is_every_drafter=is_every_drafter,
        prompts=tuple(BenchPrompt(text, category, text) for text, category in prompts),
    )
