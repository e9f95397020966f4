"""What a benchmark prints: the same numbers for people and for scripts."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest

from specviz.bench.csv_report import report_csv
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
    first = eagle["acceptance_by_depth"][0]
    # Wilson 1927 by hand: half the width is z / (1 + z² / n) * sqrt(1 / (4 n) + z² / (4 n²)).
    z, n = 1.959964, 6
    half = z / (1 + z * z / n) * (1 / (4 * n) + z * z / (4 * n * n)) ** 0.5
    assert first.pop("interval") == pytest.approx([0.5 - half, 0.5 + half], abs=1e-5)
    assert first == {"depth": 1, "reached": 6, "accepted": 3, "rate": 0.5}
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


def test_every_category_has_numbers_of_its_own(document: Any) -> None:
    long = document["lanes"]["eagle"]["categories"]["long"]
    assert long.pop("seconds") == pytest.approx(
        {
            "draft_seconds": 1.5,
            "verify_seconds": 5.25,
            "commit_seconds": 0.75,
            "prefill_seconds": 0.031,
        }
    )
    assert long == {
        "tau": 2.0,
        "speedup": pytest.approx(1.6),
        "rho": pytest.approx(1.25),
        "identical": 1,
        "prompts": 1,
        "tokens": 6,
        "speedup_quartiles": pytest.approx([1.6, 1.6]),
        "speedup_of_totals": pytest.approx(1.6),
        "rho_quartiles": pytest.approx([1.25, 1.25]),
        "rho_of_totals": pytest.approx(1.25),
        "tokens_per_second": pytest.approx(0.8),
    }
    short = document["lanes"]["eagle"]["categories"]["short"]  # 4 s for 2, 6 s for 3; 6 s and 3 s
    assert short["speedup"] == pytest.approx((2 / 3 + 2) / 2)
    assert short["speedup_of_totals"] == pytest.approx(10 / 9)


def test_every_prompt_is_kept_so_that_reports_can_be_compared(document: Any) -> None:
    first, second, last = document["lanes"]["eagle"]["by_prompt"]
    assert first == {
        "prompt": "P1",
        "category": "long",
        "tau": 2.0,
        "speedup": pytest.approx(1.6),
        "rho": pytest.approx(1.25),
        "tokens_per_second": pytest.approx(0.8),
    }
    assert (second["prompt"], last["prompt"]) == ("P2", "P4")
    assert len(set(document["prompt_texts"].values())) == 4


def test_csv_has_a_line_for_each_prompt_and_lane(results: Results) -> None:
    rows = list(csv.DictReader(io.StringIO(report_csv(results))))
    names = [(row["prompt"], row["lane"]) for row in rows]
    lanes = ("autoregressive", "eagle")
    assert sorted(names) == sorted((f"P{i}", lane) for i in range(1, 5) for lane in lanes)
    found = {name: row for name, row in zip(names, rows, strict=True)}
    first = found["P1", "eagle"]
    assert (first["category"], first["tokens"], first["rounds"]) == ("long", "6", "3")
    assert (first["identical"], first["differs_at_token"], first["failure"]) == ("yes", "", "")
    assert float(first["speedup"]) == pytest.approx(1.6)
    seconds = [float(first[f"{part}_seconds"]) for part in ("draft", "verify", "host")]
    assert seconds == pytest.approx([1.5, 5.25, 0.75])
    last = found["P4", "eagle"]
    assert (last["identical"], last["differs_at_token"], last["near_tie"]) == ("no", "2", "yes")
    skipped = found["P3", "eagle"]
    assert (skipped["failure"], skipped["tokens"], skipped["speedup"]) == (TOO_LONG, "", "")


def test_people_read_the_same_numbers(results: Results) -> None:
    text = report_text(results, is_markdown=False)
    row = next(line for line in text.splitlines() if line.startswith("eagle "))
    assert re.split(r"\s{2,}", row) == [
        *("eagle", "1.57", "1.60x (1.13 to 1.80)", "1.33x", "1.25", "4/9", "2.3"),
        *("20% / 70% / 10%", "2/3", "3"),
    ]
    for sentence in (
        "bfloat16; greedy, up to 8 new tokens; 3 prompts.",
        "eagle: 1: 0.50 (0.19 to 0.81) of 6, 2: 0.50 (0.09 to 0.91) of 2",
        "eagle, prompt P4: at token 2, top two logits differ by 0.125 (a near-tie)",
        "within 2 steps of its number format",  # what a near-tie is, where the word is used
        "medusa: There are no trained heads.",
        f"prompt P3: {TOO_LONG}",
    ):
        assert sentence in text
    assert re.search(r"^long +2\.00, 1\.60x, 1\.60x$", text, re.MULTILINE)
    seconds = r"^long +2\.40 / 8\.40 / 1\.20 +1\.50 / 5\.25 / 0\.75$"
    assert re.search(seconds, text, re.MULTILINE)
    assert re.search(r"^eagle +11 +3\.30 +11\.55 +1\.65 +16\.50 +0\.09 +0\.7$", text, re.MULTILINE)


def test_markdown_has_the_same_rows(results: Results) -> None:
    text = report_text(results, is_markdown=True)
    header = f"| {' | '.join(LANE_COLUMNS)} |"
    assert f"\n\n{header}\n| --- | --: |" in text
    assert "\n| eagle | 1.57 | 1.60x (1.13 to 1.80) | 1.33x | 1.25 | 4/9 | 2.3 |" in text
    assert "\n\n| category | eagle |\n| --- | --: |\n| long | 2.00, 1.60x, 1.60x |\n" in text
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
