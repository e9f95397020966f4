"""What is kept of a benchmark that is not finished yet."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.bench.records import PartialFile, Parting, Record
from specviz.metrics import tally
from tests.bench.fake_session import rounds

SETTINGS = {"prompts": "abc", "budget": 8, "lanes": ["autoregressive"], "weights": ("cpu", "x")}
RECORDS = [
    Record("p1", "a", "autoregressive", "0", tally=tally(rounds([(1, 2), ()], (1, 2, 3, 4), 2.5))),
    Record("p2", "a", "eagle", "0", num_draft_steps=3, parting=Parting(4, 0.125, True)),
    Record("p3", "b", "eagle", "0", failure="The prompt has 9,000 tokens."),
]


@pytest.fixture
def kept(tmp_path: Path) -> PartialFile:
    return PartialFile(tmp_path / "report.json.partial.jsonl")


def test_records_are_read_as_they_were_written(kept: PartialFile) -> None:
    assert kept.load(SETTINGS) == []
    kept.begin(SETTINGS, RECORDS[:1])
    kept.add(RECORDS[1:])
    assert kept.load(SETTINGS) == RECORDS
    assert kept.load({"budget": 8}) == RECORDS  # what is not known yet is not compared


def test_a_line_that_was_cut_off_is_left_out(kept: PartialFile) -> None:
    """A machine that goes down in the middle of a line must not take the rest along."""
    kept.begin(SETTINGS, RECORDS)
    kept.path.write_bytes(kept.path.read_bytes()[:-9])
    assert kept.load(SETTINGS) == RECORDS[:2]


def test_other_settings_are_refused_by_name(kept: PartialFile) -> None:
    kept.begin(SETTINGS, RECORDS)
    with pytest.raises(ValueError, match="another budget and another set of prompts;") as found:
        kept.load({"budget": 9, "prompts": "abd", "lanes": ["autoregressive"]})
    assert "delete the file" in str(found.value)


@pytest.mark.parametrize(
    "text",
    ["", "[]\n", "{}\n", "hello\n", '{"settings": {}}\n{"prompt": "p"}\n{}\n'],
)
def test_a_file_that_holds_something_else_is_refused(kept: PartialFile, text: str) -> None:
    kept.path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="cannot be read|no measurements that can be read"):
        kept.load({})


def test_a_record_with_a_field_too_many_is_refused(kept: PartialFile) -> None:
    kept.begin(SETTINGS, RECORDS[:1])
    with kept.path.open("a", encoding="utf-8") as stream:
        stream.write(
            json.dumps({"tally": {"depths": [], "time": {}}, "parting": None, "x": 1}) + "\n"
        )
    with pytest.raises(ValueError, match="no measurements that can be read"):
        kept.load(SETTINGS)


def test_a_new_beginning_replaces_the_file(kept: PartialFile) -> None:
    kept.begin(SETTINGS, RECORDS)
    kept.begin(SETTINGS, [replace(RECORDS[0], commit="1")])
    assert [r.commit for r in kept.load(SETTINGS)] == ["1"]
    kept.remove()
    kept.remove()
    assert list(kept.path.parent.iterdir()) == []
