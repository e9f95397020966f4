"""What is refused, told of or recorded can be said in Chinese: no sentence travels as English text.

Sentences are found where they come from (a bad request, a saved trace, the source text), never
taken from the tables they are checked against.
"""

from __future__ import annotations

import ast
import math
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from specviz.config import MAX_LANES, MAX_PROMPT_CHARACTERS
from specviz.trace import Failure, LaneStart, RunStart
from specviz.trace_io import load_events, read_trace
from specviz.ui.reading import read_request
from specviz.views.stage import StageFeed
from specviz.views.told import knobs_message
from specviz.words import Refusal, message, recognised, said, table, tell
from tests.chinese import english_in, has_forms, sample, without_values
from tests.ui.sessions import CATALOG

ROOT = Path(__file__).parents[1]
TRACES = sorted((ROOT / "assets" / "traces").iterdir())
IN_TRACES = ("drafts.", "source.", "path.", "failure.", "machine.")  # parts that `told` looks in
BAD: list[dict[str, Any]] = [  # one field each
    *({"prompt": text} for text in ("", None, 3, " \u200b\n", "x" * (MAX_PROMPT_CHARACTERS + 1))),
    *({"target": wrong} for wrong in ("../../etc", None)),
    *({"lanes": wrong} for wrong in ([], None, "autoregressive", [["a"]], ["medusa9"])),
    {"lanes": ["lookahead", "lookahead"]},
    {"lanes": [{"drafter": "draft_model", "knobs": {"num_draft_tokens": n}}
        for n in range(1, MAX_LANES + 2)]},
    {"lanes": [{"drafter": "draft_model", "knobs": []}]},
    {"lanes": [{"drafter": "draft_model", "knobs": {"num_draft_tokens": None}}]},
    {"lanes": [{"drafter": "draft_model", "knobs": {"nope": 1}}]},
    *({"knobs": []}, {"knobs": {"draft_model": 3}}, {"knobs": {"medusa9": {}}}),
    {"knobs": {"draft_model": {"num_draft_tokens": 99}}},
    *({"knobs": {"draft_model": {name: wrong}}} for name, wrong in (
        ("nope", 1), ("copy", "stolen"), ("is_adaptive", 1), ("threshold", math.nan))),
    *({name: wrong} for name in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty",
        "max_new_tokens", "seed") for wrong in (-1, None, "8", 10**30, math.inf)),
    *({name: "no such"} for name in ("precision", "verification", "is_chat", "stop_strings")),
    *({"stop_strings": wrong} for wrong in ([""], [3])),
    {"max_tokens": 5},
]  # fmt: skip


@pytest.mark.parametrize("wrong", BAD, ids=lambda wrong: f"{wrong!r:.50}")
def test_every_refusal_of_a_request_can_be_said_in_chinese(wrong: dict[str, Any]) -> None:
    fields = {"prompt": "hello", "lanes": ["autoregressive"], **wrong}
    with pytest.raises(Refusal) as caught:
        read_request(fields, CATALOG)
    told = caught.value.message
    assert str(caught.value) == tell(told, "en")
    chinese = without_values(told)
    assert re.search("[\u4e00-\u9fff]{2}", chinese)
    assert not english_in(chinese)


def test_an_english_sentence_is_found() -> None:
    assert english_in("温度 must be lower")
    assert english_in("The prompt is empty: type something.") == "The prompt is empty"
    assert not english_in("请用 `python -m specviz train` 训练 EAGLE-3，W=4 N=3")


@pytest.mark.parametrize("name", ["config.py", "ui/reading.py", "trace_io.py"])
def test_what_reads_a_visitors_input_raises_refusals_alone(name: str) -> None:
    tree = ast.parse((ROOT / "specviz" / name).read_text("utf-8"))
    raised = [n.exc.func for n in ast.walk(tree)
              if isinstance(n, ast.Raise) and isinstance(n.exc, ast.Call)]  # fmt: skip
    names = {f.id for f in raised if isinstance(f, ast.Name)}
    assert names <= {
        "Refusal",
        "TypeError",
        "_refused",
        "_out_of_range",
    }  # TypeError: trace_io's own


@pytest.mark.parametrize("name", ["engine", "lm", "session.py"])
def test_progress_is_never_text(name: str) -> None:
    place = ROOT / "specviz" / name
    files = sorted(place.glob("*.py")) if place.is_dir() else [place]
    calls = [n for f in files for n in ast.walk(ast.parse(f.read_text("utf-8")))
             if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "Progress"]  # fmt: skip
    assert calls
    told = [call.args[1] for call in calls]
    assert [t for t in told if isinstance(t, ast.Constant | ast.JoinedStr)] == []


@pytest.mark.parametrize("key", sorted(table("zh")))
def test_no_chinese_text_holds_an_english_sentence(key: str) -> None:
    assert not english_in(without_values(sample(key)))


@pytest.mark.parametrize("part", IN_TRACES)
def test_text_of_a_trace_finds_the_key_it_was_made_of(part: str) -> None:
    keys = [key for key in table("en") if key.startswith(part)]
    assert keys
    assert not any(map(has_forms, keys))  # the number of such a text could not be found again
    for key in keys:
        assert recognised(tell(sample(key)), part) == sample(key)


def test_texts_within_texts_are_recognised_too() -> None:
    layer = message("drafts.layer", size="3.2", tokens="4,096")
    both = message("drafts.tuned", network=layer)
    assert recognised(tell(both), "drafts.") == both
    assert recognised("guesses written by hand", "drafts.") == "guesses written by hand"


def test_a_long_hostile_text_is_left_alone() -> None:
    text = "no drafter: " * 100_000
    assert recognised(text, "drafts.") == text


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_the_shipped_runs_describe_themselves_in_chinese(path: Path) -> None:
    """They were recorded in English, before there were messages."""
    feed = StageFeed()
    for event in load_events(read_trace(path)):
        if isinstance(event, RunStart | LaneStart):
            (item,) = feed.feed(event)
            names = ("source", "path", "machine") if item["kind"] == "start" else ("description",)
            told = {name: item[name] for name in names}
            assert {name: isinstance(one, tuple) for name, one in told.items()} == dict.fromkeys(
                told, True
            )
            assert not any(english_in(without_values(one)) for one in told.values())


def test_knobs_are_called_as_the_controls_call_them() -> None:
    knobs: dict[str, Any] = {"draft": "4-bit copy", "is_adaptive": False, "own_knob": 3}
    said_ = knobs_message(knobs)
    assert tell(said_, "zh") == "由谁起草：目标模型的 4 位副本，长度随成败调整：关，own_knob：3"
    assert knobs_message({}) == ""


def test_english_of_others_is_called_english() -> None:
    told = said(ValueError("The tensor has a hole."))
    assert tell(told) == "The tensor has a hole."
    assert tell(told, "zh") == "引擎报告（原文为英文）：The tensor has a hole."


def test_a_refusal_survives_the_way_between_processes() -> None:
    refusal = Refusal(message("refusal.num_lanes", limit=6, count=9))
    again = pickle.loads(pickle.dumps(refusal))
    assert (type(again), again.message, str(again)) == (Refusal, refusal.message, str(refusal))


def test_hidden_characters_in_a_messages_values_are_shown_as_signs() -> None:
    failure = Failure(message("refusal.text", name=message("field.lanes"), value="\x1b\u202e"))
    (item,) = StageFeed().feed(failure)
    assert tell(item["message"]).endswith("got \u27e8001B\u27e9\u27e8202E\u27e9.")
