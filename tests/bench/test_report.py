"""What a benchmark prints: the same numbers for people and for scripts."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from specviz.bench.report import LANE_COLUMNS, report_json, report_text
from specviz.bench.results import Results
from specviz.bench.table import aligned, markdown
from tests.bench.fake_session import FakeSession, plain_rounds, plan, rounds
from tests.bench.test_run import PROMPTS, SCRIPTS, measured

TOO_LONG = "The prompt has 9,000 tokens."


@pytest.fixture(scope="module")
def results() -> Results:
    scripts = {
        **SCRIPTS,
        ("warm", "medusa"): "There are no trained heads.",
        ("P3", "autoregressive"): TOO_LONG,
        ("P3", "eagle"): TOO_LONG,
        ("P4", "autoregressive"): plain_rounds((1, 2, 3), gap=0.125),
        ("P4", "eagle"): rounds([(1,), ()], (1, 9, 8), 1.5),
    }
    prompts = [*PROMPTS, ("P3", "long"), ("P4", "short")]
    wanted = plan("eagle", "medusa", prompts=prompts, is_every_drafter=True)
    return measured(FakeSession(scripts), wanted)


@pytest.fixture(scope="module")
def document(results: Results) -> Any:
    line = report_json(results)
    assert "\n" not in line
    return json.loads(line)


def test_the_document_tells_what_was_measured_where_and_with_what(document: Any) -> None:
    assert document["is_complete"]
    assert document["machine"] == "a test bench"
    assert document["commit"] == "0000000"
    assert document["target"]["dtype"] == "bfloat16"
    assert document["date"] == "2026-01-02T03:04:05Z"
    assert {"versions", "load_average"} <= set(document)
    settings = document["settings"]
    assert (settings["budget"], settings["lanes"], settings["target"]) == (8, "all", "hand-made")
    assert settings["categories"] == {"long": 2, "short": 2}
    assert document["prompts"] == 3
    assert document["left_out"] == {"medusa": "There are no trained heads."}
    assert document["skipped"] == [
        {"prompt": "P3", "reason": TOO_LONG, "lanes": ["autoregressive", "eagle"]}
    ]


def test_the_document_holds_every_lanes_numbers(document: Any) -> None:
    assert list(document["lanes"]) == ["autoregressive", "eagle"]
    eagle = document["lanes"]["eagle"]
    assert eagle["baseline"] == "autoregressive"
    assert (eagle["prompts"], eagle["compared"], eagle["identical"]) == (3, 3, 2)
    assert (eagle["tokens"], eagle["rounds"], eagle["rows"]) == (11, 7, 16)
    assert (eagle["tau"], eagle["tau_without_own_token"]) == (11 / 7, 4 / 7)
    assert (eagle["accepted"], eagle["drafted"], eagle["acceptance_rate"]) == (4, 9, 4 / 9)
    assert eagle["acceptance_by_depth"][0] == {"depth": 1, "reached": 6, "accepted": 3, "rate": 0.5}
    assert eagle["speedup"] == pytest.approx(1.6)  # of 2/3, 1.6 and 2
    assert eagle["speedup_quartiles"] == pytest.approx([(1.6 + 2 / 3) / 2, 1.8])
    assert eagle["rho"] == pytest.approx(1.25)  # of 0.75, 1.25 and 1.5
    assert eagle["speedup_of_totals"] == pytest.approx(22 / 16.5)
    assert eagle["tokens_per_second"] == pytest.approx(11 / 16.5)
    seconds = eagle["seconds"]
    assert seconds["draft_seconds"] == pytest.approx(0.2 * 16.5)
    assert seconds["verify_seconds"] == pytest.approx(0.7 * 16.5)
    assert seconds["prefill_seconds"] == pytest.approx(3 * 0.031)
    assert eagle["differences"] == [
        {"prompt": "P4", "position": 1, "top_two_gap": 0.125, "is_near_tie": True}
    ]
    assert eagle["near_ties"] == 1
    assert eagle["categories"]["long"] == {
        "tau": 2.0,
        "speedup": pytest.approx(1.6),
        "rho": pytest.approx(1.25),
        "identical": 1,
        "prompts": 1,
    }


def test_people_read_the_same_numbers(results: Results) -> None:
    text = report_text(results, is_markdown=False)
    row = next(line for line in text.splitlines() if line.startswith("eagle "))
    assert re.split(r"\s{2,}", row) == [
        *("eagle", "1.57", "1.60x (1.13 to 1.80)", "1.33x", "1.25", "4/9", "2.3"),
        *("20% / 70% / 10%", "2/3", "3"),
    ]
    for sentence in (
        "bfloat16; greedy, up to 8 new tokens; 3 prompts.",
        "eagle: 1: 0.50 of 6, 2: 0.50 of 2",
        "eagle, prompt P4: at token 2, top two logits differ by 0.125 (a near-tie)",
        "medusa: There are no trained heads.",
        f"prompt P3: {TOO_LONG}",
    ):
        assert sentence in text
    assert re.search(r"^long +2\.00, 1\.60x$", text, re.MULTILINE)


def test_markdown_has_the_same_rows(results: Results) -> None:
    text = report_text(results, is_markdown=True)
    header = f"| {' | '.join(LANE_COLUMNS)} |"
    assert f"\n\n{header}\n| --- | --: |" in text
    assert "\n| eagle | 1.57 | 1.60x (1.13 to 1.80) | 1.33x | 1.25 | 4/9 | 2.3 |" in text
    assert "\n\n| category | eagle |\n| --- | --: |\n| long | 2.00, 1.60x |\n" in text
    assert f"Skipped:\n\n- prompt P3: {TOO_LONG}\n" in text


def test_a_table_lines_its_columns_up() -> None:
    assert aligned(["a", "number"], [["words", "1"], ["w", "23"]]) == [
        "a      number",
        "-------------",
        "words       1",
        "w          23",
    ]
    assert aligned(["a"], []) == ["a", "-"]
    assert markdown(["a", "n"], [["x|y", "1"]]) == ["| a | n |", "| --- | --: |", r"| x\|y | 1 |"]
