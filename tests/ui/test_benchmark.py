"""The page that measures: a benchmark followed to its end, stopped and gone on with, and its tables."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specviz.bench.compare import Comparison, SavedReport
from specviz.bench.run import Plan
from specviz.config import Request
from specviz.trace import SessionEvent
from specviz.ui.bench_runs import Benches, Seen
from specviz.ui.benchmark import _Choice, _plan
from specviz.ui.benchmark_tables import comparison_html, progress_html, report_html
from specviz.words import Refusal, word
from tests.bench.fake_session import FakeSession, plain_rounds, plan, rounds

ANSWER = (7, 8, 9, 7, 8, 9)
PROMPTS = [(name, "<b>prose</b>") for name in ("one", "two", "three")]


class HaltingSession(FakeSession):
    """Waits before the prompt `halts_at`, so that a test can stop it there."""

    halts_at = ""
    has_come = threading.Event()
    may_go_on = threading.Event()

    def events(self, request: Request) -> Iterator[SessionEvent]:
        if request.prompt == self.halts_at:
            self.has_come.set()
            assert self.may_go_on.wait(10)
        return super().events(request)


def session() -> HaltingSession:
    scripts: dict[tuple[str, str], Any] = {}
    for name, _ in PROMPTS:
        scripts[name, "autoregressive"] = plain_rounds(ANSWER)
        scripts[name, "eagle"] = rounds([(7, 8), (7, 8)], ANSWER, 3.0)
    return HaltingSession(scripts)


def wanted() -> Plan:
    return plan("eagle", prompts=PROMPTS)


def follow(benches: Benches, session: FakeSession, **more: Any) -> list[Seen]:
    found = benches.measured("me", session, wanted(), None, is_anew=more.get("is_anew", False))
    return list(found)


def test_a_benchmark_shows_its_report_and_gives_the_files(tmp_path: Path) -> None:
    last = follow(Benches(lambda: tmp_path), session())[-1]
    assert (last.is_over, last.state) == (True, ("bench.done", {"prompts": 3, "of": 3}))
    eagle = json.loads(last.report.document)["lanes"]["eagle"]
    assert (eagle["tau"], eagle["speedup"]) == (3.0, pytest.approx(6 * 2.0 / (2 * 3.0)))
    html = report_html(last.report, "en")
    assert "<b>2.00x</b>" in html
    assert "1.00 <small>(0.61 to 1.00; 6/6)</small>" in html  # 6 / (6 + 1.96 ** 2), by Wilson
    for term in ("by_depth", "near_tie", "by_kind", "tau"):
        assert f"<dt>{word(f'bench.column.{term}')}</dt>" in html
    assert "<b>prose</b>" not in html  # a category is text, whatever it holds
    assert last.report.csv.count("\n") == 7
    assert last.report.markdown.startswith("hand-made")
    assert "<progress" in progress_html(last, "zh")


def test_what_was_measured_before_a_stop_is_not_measured_again(tmp_path: Path) -> None:
    first, benches = session(), Benches(lambda: tmp_path)
    first.halts_at = "three"
    followed: list[Seen] = []
    thread = threading.Thread(target=lambda: followed.extend(follow(benches, first)))
    thread.start()
    assert first.has_come.wait(10)
    benches.stop("somebody else")
    benches.stop("me")
    first.may_go_on.set()
    thread.join(10)
    assert followed[-1].state == ("bench.stopped", {"prompts": 2, "of": 3})
    assert json.loads(followed[-1].report.document)["prompts"] == 2
    again = session()
    assert follow(Benches(lambda: tmp_path), again)[-1].state[0] == "bench.done"
    measured = [prompt for prompt, _ in again.asked if prompt != "warm"]
    assert measured == ["three", "three"]
    anew = session()
    follow(benches, anew, is_anew=True)
    assert len([prompt for prompt, _ in anew.asked if prompt != "warm"]) == 6


def test_measurements_of_another_machine_are_not_mixed_in(tmp_path: Path) -> None:
    """The sentence spoke of --out and of files to delete, which a page has not."""
    benches, moved = Benches(lambda: tmp_path), session()
    follow(benches, session())
    moved.machine = "another one"
    with pytest.raises(Refusal, match="Begin anew"):
        follow(benches, moved)


def test_a_lane_that_cannot_run_is_told_in_a_sentence(tmp_path: Path) -> None:
    broken = session()
    broken.scripts["warm", "eagle"] = "It has no weights."
    with pytest.raises(Refusal, match="It has no weights"):
        follow(Benches(lambda: tmp_path), broken)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kinds": []}, "No kind of prompts"),
        ({"count": 400}, "from 1 to 28; got 400"),
        ({"budget": 0}, "from 1 to 128; got 0"),
        ({"lanes": ["telepathy"]}, "telepathy"),
    ],
)
def test_a_choice_that_cannot_be_measured_is_refused(changes: Any, sentence: str) -> None:
    given = {"target": "hand-made", "kinds": ["code", "list"], "count": 4, "lanes": ["eagle"]}
    given |= {"budget": 16, "is_with_peers": False}
    catalog = session().catalog()
    made = _plan(catalog, _Choice(**given))  # type: ignore[arg-type]
    assert [p.category for p in made.prompts] == ["code", "list"] * 2
    with pytest.raises(ValueError, match=sentence):
        _plan(catalog, _Choice(**{**given, **changes}))


def test_two_reports_are_compared_prompt_by_prompt(tmp_path: Path) -> None:
    slow = session()
    for name, _ in PROMPTS:
        slow.scripts[name, "eagle"] = rounds([(7, 8), (7, 8)], ANSWER, 6.0)
    before = follow(Benches(lambda: tmp_path / "a"), slow)[-1].report.document
    after = follow(Benches(lambda: tmp_path / "b"), session())[-1].report.document
    a, b = SavedReport("<a>", json.loads(before)), SavedReport("b", json.loads(after))
    html = comparison_html(Comparison(a, b), "en")
    assert "<b>2.00x</b>" in html
    assert "&lt;a&gt;" in html
    assert "<td>3</td>" in html  # common prompts
    assert f"<dt>{word('bench.column.common')}</dt>" in html
