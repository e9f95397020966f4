"""Two saved reports side by side, on reports whose numbers are counted by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from specviz.__main__ import main
from specviz.bench.report import report_json
from tests.bench.fake_session import FakeSession, Script, plain_rounds, plan, rounds
from tests.bench.test_run import SCRIPTS, SIX, TWO, measured

# Against `SCRIPTS`, eagle is 1.25 times as fast on P1 and twice as fast on P2; plain is as fast on
# P1 and half as fast on P2. P3 and P4 have no partner in the other report.
FASTER: dict[tuple[str, str], Script] = {
    ("P1", "autoregressive"): plain_rounds(SIX),
    ("P2", "autoregressive"): plain_rounds(TWO, 4.0),
    ("P1", "eagle"): rounds([(1, 2), (4, 50), (51, 52)], SIX, 2.0),
    ("P2", "eagle"): rounds([(50,), (51,)], TWO, 1.5),
}


def saved(folder: Path, name: str, session: FakeSession, *lanes: str, last: str) -> Path:
    prompts = [("P1", "long"), ("P2", "short"), (last, "short")]
    path = folder / name
    path.write_text(report_json(measured(session, plan(*lanes, prompts=prompts))) + "\n")
    return path


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    other = FakeSession(FASTER, commit="1111111", machine="another bench")
    return [
        "bench",
        "compare",
        str(saved(tmp_path, "a.json", FakeSession(SCRIPTS), "eagle", "medusa", last="P3")),
        str(saved(tmp_path, "b.json", other, "eagle", last="P4")),
    ]


def document_of(capsys: pytest.CaptureFixture[str]) -> tuple[str, Any]:
    told = capsys.readouterr().out
    return told, json.loads(told.splitlines()[-1])


def test_ratios_are_over_the_prompts_that_both_measured(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 0
    told, document = document_of(capsys)
    assert (document["bench"], document["a"], document["b"]) == ("compare", "a.json", "b.json")
    eagle = document["lanes"]["eagle"]
    assert eagle["common_prompts"] == 2
    assert eagle["tokens_per_second_ratio"]["median"] == pytest.approx((1.25 + 2) / 2)
    assert eagle["speedup_ratio"]["median"] == pytest.approx((1.25 + 4) / 2)
    assert eagle["speedup_ratio"]["low"] == pytest.approx(0.75 * 1.25 + 0.25 * 4)
    plain = document["lanes"]["autoregressive"]
    assert plain["speedup_ratio"]["median"] == pytest.approx(1.0)
    assert plain["tokens_per_second_ratio"]["median"] == pytest.approx(0.75)
    row = next(line for line in told.splitlines() if line.startswith("eagle "))
    cells = re.split(r"\s{2,}", row)
    assert cells[-3:] == ["2.62x (1.94 to 3.31)", "1.62x (1.44 to 1.81)", "2"]


def test_a_lane_that_only_one_report_has_is_shown_without_ratios(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(words)
    told, document = document_of(capsys)
    assert document["lanes"]["medusa"]["tau"] == [1.0, None]
    assert document["lanes"]["medusa"]["speedup_ratio"] is None
    assert re.search(r"^medusa +1\.00 +- +1\.00x +- +- +- +0$", told, re.MULTILINE)


def test_what_differs_is_named_and_nothing_else(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(words)
    told, document = document_of(capsys)
    names = {"machine", "commit", "settings prompts", "settings lanes"}
    assert set(document["differs"]) == names
    assert "commit: 0000000 in A, 1111111 in B" in told
    assert "machine: a test bench in A, another bench in B" in told
    assert main([*words[:3], words[2], "--markdown"]) == 0
    told, document = document_of(capsys)
    assert document["differs"] == {}
    assert "Machine, versions, target and settings are the same." in told
    assert "\n| drafter | tau A | tau B |" in told


def test_a_prompt_of_the_same_name_with_another_text_is_no_partner(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Two files may both call their first line "line 1"."""
    path = Path(words[3])
    facts = json.loads(path.read_text())
    facts["prompt_texts"]["P1"] = "0" * 64
    path.write_text(json.dumps(facts))
    main(words)
    assert document_of(capsys)[1]["lanes"]["eagle"]["common_prompts"] == 1


def test_a_report_of_before_single_prompts_were_kept_is_compared_as_far_as_it_goes(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(words[2])
    facts = json.loads(path.read_text())
    del facts["prompt_texts"]
    for lane in facts["lanes"].values():
        del lane["by_prompt"]
    path.write_text(json.dumps(facts))
    assert main(words) == 0
    told, document = document_of(capsys)
    assert document["lanes"]["eagle"]["tau"] == [pytest.approx(9 / 6), pytest.approx(9 / 6)]
    assert document["lanes"]["eagle"]["speedup_ratio"] is None
    assert "No ratio over prompts: a.json holds no single prompts; measure it anew." in told


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hello", "x.json is no report of `bench run --out`. It is not one JSON document."),
        ("[1, 2]", "x.json is no report"),
        ('{"bench": "engine"}', "x.json is no report"),
        ('{"bench": "run"}', 'Its "lanes" are no object of objects.'),
        ('{"bench": "run", "lanes": {"eagle": 3}}', 'Its "lanes" are no object of objects.'),
        ('{"bench": "run", "lanes": {"e": {"tau": "x"}}}', "A number of lane 'e' is none."),
        ('{"bench": "run", "lanes": {"e": {"by_prompt": [{}]}}}', "of lane 'e' is damaged."),
        ('{"bench": "run", "lanes": {}, "prompt_texts": []}', '"prompt_texts" are no object.'),
    ],
)
def test_what_is_no_report_is_refused_in_one_sentence(
    text: str, sentence: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    assert main([*words[:3], str(path)]) == 2
    told = capsys.readouterr()
    assert sentence in told.err
    assert told.err.count("\n") == 1
    assert not told.out


def test_a_report_that_is_not_there_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words[:3], "nowhere.json"]) == 2
    assert "No such file or directory: nowhere.json." in capsys.readouterr().err
