"""The page that helps to choose: advice, links, numbers of the calculators, files. No browser."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from itertools import product
from statistics import median

import pytest

from specviz.config import Catalog
from specviz.drafters import DRAFTERS, drafter_class
from specviz.labs import recordings
from specviz.theory import Costs, expected_tokens
from specviz.trace_io import load_events, read_trace
from specviz.ui import (
    calculators,
    charts,
    choosing_guide,
    choosing_slow,
    choosing_table,
    labs_greedy,
)
from specviz.ui.lab_parts import lane_name, run_name
from specviz.ui.reading import read_request
from specviz.words import Language, Refusal, table, word
from tests.races import FOLDER, RACES, SAMPLED
from tests.traces import demo_run
from tests.ui.sessions import CATALOG

ANSWERS = [dict(zip(choosing_guide.QUESTIONS, a, strict=True))
           for a in product(*choosing_guide.QUESTIONS.values())]  # fmt: skip
LANGUAGES: tuple[Language, ...] = ("en", "zh")


def test_every_way_through_the_questions_ends_in_advice_with_reasons() -> None:
    found = {choosing_guide.recommended(answers)[0] for answers in ANSWERS}
    assert found == {"autoregressive", "mtp", "prompt_lookup", "draft_model", "lookahead", "eagle3"}
    for answers in ANSWERS:
        made = choosing_guide.advice(tuple(answers.values()), CATALOG)
        for language in LANGUAGES:
            text = choosing_guide.checklist(language, made)
            assert text.count("- [ ]") == len(choosing_guide.CHECKLIST)


def test_the_link_is_a_recipe_that_can_be_run() -> None:
    address = choosing_guide.link_to("lookahead", CATALOG)
    text = address.removeprefix("./#run=")
    state = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    assert state["v"] == 1
    request = read_request(state["recipe"], CATALOG)
    assert [lane.drafter for lane in request.lanes] == ["autoregressive", "lookahead"]
    assert choosing_guide.link_to("eagle3", CATALOG) == ""  # not on offer there
    assert choosing_guide.link_to("lookahead", Catalog((), ())) == ""


def test_many_tokens_per_pass_can_be_slower_and_the_page_says_so() -> None:
    costs = Costs(0.9, 0.0, ((1, 1.0), (13, 1.0)))
    said, _, _ = calculators.paint_cost("en", (calculators.Prices(0.8, 4, costs), "small"))
    assert "Slower: 0.73" in said  # 3.36 / (1 + 4 * 0.9)
    assert "best K at these prices is 0" in said


def test_the_published_drafts_give_their_published_speedups_back() -> None:
    *_, table = calculators.paint_cost(
        "en", (calculators.Prices(0.8, 4, Costs(0.1, 0.0, ((1, 1.0),))), "large")
    )
    for alpha, speedup in calculators.PUBLISHED_DRAFTS.values():
        cost = (expected_tokens(alpha, 7) / speedup - 1) / 7
        assert f"| {cost:.2f} |" in table
    assert table.startswith("**Not so.**")


def test_what_was_measured_stands_beside_what_was_published() -> None:
    runs = {"demo": tuple(e for e in demo_run() if e.kind not in ("progress", "failure"))}
    measured = choosing_table.of_runs(lambda: runs)
    assert measured
    (text,) = choosing_table.paint("en", (measured, False))
    assert "in the median of 1 recorded race (" in text
    (empty,) = choosing_table.paint("en", ({}, False))
    assert "bench run --out" in empty


def test_recorded_races_are_told_together_and_drawn_ones_are_left_out() -> None:
    """One cell held seven races in a row, the noisiest first."""
    files = {name: tuple(load_events(read_trace(FOLDER / f"{name}.jsonl.gz"))) for name in RACES}
    speeds = [lane for name, events in files.items() if name not in SAMPLED
              for lane in recordings.lane_speeds(events) if lane.drafter == "eagle3"]  # fmt: skip
    (text,) = choosing_table.paint("en", (choosing_table.of_runs(lambda: files), False))
    wanted = f"{median(lane.speedup for lane in speeds):.2f}× in the median of {len(speeds)} recorded races"
    assert wanted in text
    assert text.count("recorded races (") == len(choosing_table.METHODS)


@pytest.mark.parametrize(
    ("lane", "method"),
    [("eagle3", "eagle3"), ("eagle", "eagle"), ("draft_model-2", "draft_model"), ("other", None)],
)
def test_a_reports_lane_is_found_by_its_name(lane: str, method: str | None) -> None:
    assert choosing_table.method_of(lane) == method


def test_runs_and_lanes_are_called_as_on_the_stage_in_either_language() -> None:
    """Files' names and English titles stood in the tables of a Chinese page."""
    runs = {"chat_rainbows": tuple(e for e in demo_run() if e.kind not in ("progress", "failure"))}
    named = [
        (
            run_name(run, "zh"),
            lane_name(run, lane, "zh"),
            lane_name(run, replace(lane, title="Its own"), "zh"),
        )
        for run, events in runs.items()
        for lane in recordings.chain_lanes(events)
        if lane.drafter == "draft_model"
    ]
    assert named == [("闲聊：彩虹", "闲聊：彩虹、草稿模型", "闲聊：彩虹、Its own")]
    assert (
        "闲聊：彩虹、草稿模型"
        in labs_greedy.paint("zh", labs_greedy.found(0.4, "none", lambda: runs))[2]
    )
    (reading,) = [recordings.reading(runs["chat_rainbows"])]
    assert reading is not None
    assert "| 闲聊：彩虹 |" in choosing_slow.paint_readings("zh", [("chat_rainbows", reading)])[0]


def test_plain_decoding_is_not_offered_beside_itself() -> None:
    answers = ("large", "batch", "mixed", "published", "none")
    _, html = choosing_guide.paint("en", choosing_guide.advice(answers, CATALOG))
    assert "Open the page with plain decoding alone" in html


def test_what_is_no_report_is_refused(tmp_path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(Refusal):
        choosing_table.of_report(tmp_path / "x.json")


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_published_figure_has_a_link_to_its_source(language: Language) -> None:
    """A figure alone cannot be looked up. Parts of a cell stand between semicolons."""
    link = re.compile(r"\]\(https://(arxiv\.org/abs/\d{4}\.\d{5}|github\.com/[\w-]+/[\w-]+)\)")
    for method in choosing_table.METHODS:
        told = word(f"choose.table.{method}.published", language)
        parts = re.split("[;；](?![^(（]*[)）])", link.sub("]<link>", told))
        assert all("<link>" in part for part in parts), told
    published = "Published|published" if language == "en" else "发表"
    for key in ("choose.cost.bigger", "choose.cost.how", "choose.why.modest"):
        told = word(key, language)
        assert re.search(published, told)
        assert link.search(told), key
    published = "Published:" if language == "en" else "论文报告"
    for key, told in table(language).items():
        name = key.removeprefix("method.").removesuffix(".when")
        if name in DRAFTERS and published in told:
            assert "arXiv:" in drafter_class(name).paper, (
                key
            )  # a link there: tests/ui/test_learn.py


def test_csv_keeps_what_a_spreadsheet_would_break_or_run() -> None:
    text = charts.csv_text(("a", "b"), [('=1+1,"x"', -0.5)])
    assert text == 'a,b\r\n"\'=1+1,""x""",-0.5\r\n'
