"""Whatever a browser or a program sends becomes a checked Request or one clear sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gradio as gr
import pytest

from specviz.config import Knob, LaneSpec, Request, SamplingParams
from specviz.drafters import DRAFTERS, drafter_info
from specviz.ui.controls import (
    Controls,
    able_lanes,
    knob_control,
    knob_controls,
    knob_words,
    model_controls,
    more_controls,
    prompt_box,
    readable,
    run_controls,
)
from specviz.ui.offers import first_lanes, presets
from specviz.ui.reading import read_request
from specviz.ui.speaker import Speaker
from specviz.words import table
from tests.ui.sessions import CATALOG

FIELDS = {"prompt": "hello", "lanes": ["autoregressive", "draft_model"]}
WRONG_NUMBERS = [-1, 1e9, 10**400, float("nan"), float("inf"), None, "8", 3.7, True, [], {}]


def read(**fields: object) -> Request:
    return read_request({**FIELDS, **fields}, CATALOG)


def test_fields_reach_the_request_they_name() -> None:
    request = read(
        target="other",
        is_chat=False,
        temperature=0.7,
        top_k=40,
        top_p=0.9,
        min_p=0.05,
        repetition_penalty=1.1,
        verification="coupled",
        precision="float32",
        max_new_tokens=7,
        seed=5,
        stop_strings=["END"],
        knobs={"draft_model": {"num_draft_tokens": 9, "threshold": 0.25}},
    )
    assert request == Request(
        "hello",
        (
            LaneSpec("autoregressive"),
            LaneSpec("draft_model", (("num_draft_tokens", 9), ("threshold", 0.25))),
        ),
        target="other",
        is_chat=False,
        sampling=SamplingParams(0.7, 40, 0.9, 0.05, 1.1),
        verification="coupled",
        precision="float32",
        max_new_tokens=7,
        seed=5,
        stop_strings=("END",),
    )


def test_what_is_left_out_is_the_default() -> None:
    assert read() == Request("hello", (LaneSpec("autoregressive"), LaneSpec("draft_model")))


@pytest.mark.parametrize("value", WRONG_NUMBERS, ids=lambda v: f"{v!r:.12}")
@pytest.mark.parametrize("field", ["max_new_tokens", "seed"])
def test_wrong_whole_numbers_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{field} is a whole number from"):
        read(**{field: value})


@pytest.mark.parametrize("value", [-1, 1e9, float("nan"), None, "8", True, []], ids=repr)
@pytest.mark.parametrize("field", ["temperature", "top_k", "top_p", "min_p", "repetition_penalty"])
def test_wrong_sampling_numbers_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{field} is a"):
        read(**{field: value})


@pytest.mark.parametrize("value", [*WRONG_NUMBERS, 10000, 17, 0], ids=lambda v: f"{v!r:.12}")
def test_wrong_knob_values_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="num_draft_tokens is"):
        read(knobs={"draft_model": {"num_draft_tokens": value}})


@pytest.mark.parametrize("value", [float("nan"), 10**400, True, 1.5, None, "0.5"], ids=repr)
def test_a_share_written_with_whole_bounds_takes_shares_only(value: object) -> None:
    """A knob 0.4 with the range 0 to 1 once refused every fraction and took True for 1.0."""
    knob = Knob("share", "A share.", 0.4, 0, 1)
    assert knob.validated(0.3) == 0.3
    with pytest.raises(ValueError, match="share is a number from 0 to 1"):
        knob.validated(value)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"prompt": None}, "prompt is empty"),
        ({"prompt": " \u200b\n"}, "prompt is empty"),
        ({"prompt": 3}, "prompt is empty"),
        ({"seed": None}, "seed is a whole number from 0 to 9223372036854775807; got nothing"),
        ({"prompt": "x" * 100_001}, "at most 100,000"),
        ({"target": "../../etc"}, "target is one of smollm2-135m-instruct, other"),
        ({"target": None}, "target is a piece of text"),
        ({"lanes": ["medusa9"]}, "drafter is one of"),
        ({"lanes": []}, "between 1 and"),
        ({"lanes": None}, "lanes is a list"),
        ({"lanes": "autoregressive"}, "lanes is a list"),
        ({"lanes": [["a"]]}, "Each of lanes is a piece of text"),
        ({"lanes": ["lookahead", "lookahead"]}, "Two lanes are the same"),
        ({"knobs": []}, "knobs maps"),
        ({"knobs": {"draft_model": 3}}, "knobs maps"),
        ({"knobs": {"medusa9": {}}}, "knobs names 'medusa9'"),
        (
            {"knobs": {"draft_model": {"nope": 1}}},
            "knob of draft_model is one of num_draft_tokens, .*nope",
        ),
        ({"knobs": {"draft_model": {"copy": "stolen"}}}, "copy is one of truncated, quantised"),
        ({"knobs": {"draft_model": {"is_adaptive": 1}}}, "is_adaptive is on or off"),
        ({"is_chat": "yes"}, "is_chat is true or false"),
        ({"precision": "float8"}, "precision is one of"),
        ({"verification": ["rejection"]}, "verification is one of"),
        ({"stop_strings": "END"}, "stop_strings is a list"),
        ({"stop_strings": [""]}, "stop string is empty"),
        (
            {"max_tokens": 5},
            "no setting 'max_tokens'; there are: is_adaptive, is_chat, knobs, lanes",
        ),
    ],
    ids=lambda v: str(v)[:40],
)
def test_the_sentence_says_what_was_expected(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read(**fields)


def test_values_of_the_page_find_their_fields_by_place() -> None:
    with gr.Blocks():
        knobs = knob_controls(CATALOG.drafters, Speaker())
        form = Controls({name: gr.Textbox() for name in ("prompt", "stop_strings", "lanes")}, knobs)
    values = ("hello", "END\n\nSTOP", ["lookahead"], 9, 0.5, "quantised", True)
    assert form.read(values) == {
        "prompt": "hello",
        "lanes": ["lookahead"],
        "stop_strings": ["END", "STOP"],
        "knobs": {
            "draft_model": {
                "num_draft_tokens": 9,
                "threshold": 0.5,
                "copy": "quantised",
                "is_adaptive": True,
            }
        },
    }


def test_each_knob_has_the_control_of_its_kind_with_its_range_and_help() -> None:
    with gr.Blocks():
        made = [knob_control("unknown", knob, Speaker()) for knob in CATALOG.drafters[1].knobs]
    assert [type(c) for c in made] == [gr.Slider, gr.Slider, gr.Dropdown, gr.Checkbox]
    slider = made[0]
    assert (slider.minimum, slider.maximum, slider.value, slider.step) == (1, 16, 4, 1)
    assert slider.info == "How many tokens it guesses."
    assert made[2].value == "truncated"


def test_a_knob_is_called_by_words_not_by_its_field() -> None:
    """Raw names such as is_adaptive once stood on the page."""
    switch = CATALOG.drafters[1].knobs[3]
    assert knob_words("draft_model", switch)("en")["label"] == "Let the length follow success"
    assert knob_words("draft_model", switch)("zh")["label"] == "长度随成败调整"
    assert readable("is_new_kind") == "New kind"
    assert readable("num_rows") == "Rows"


def test_a_request_goes_back_into_the_controls_it_came_from() -> None:
    """What a link or preset asks for is what the controls then read; other knobs are at default."""
    request = read(
        lanes=["draft_model"],
        temperature=0.5,
        stop_strings=["END", "STOP"],
        knobs={"draft_model": {"num_draft_tokens": 9}},
    )
    with gr.Blocks():
        speaker = Speaker()
        fields = {**model_controls(CATALOG, speaker), **run_controls(speaker, True)}
        fields = {
            "prompt": prompt_box(speaker),
            **fields,
            **more_controls(speaker, CATALOG.precisions),
        }
        form = Controls(fields, knob_controls(CATALOG.drafters, speaker))
    shown = form.values_of(request)
    values = tuple(shown[component] for component in form.components())
    assert read_request(form.read(values), CATALOG) == request


def test_knobs_of_drafters_that_do_not_run_are_checked_too() -> None:
    """A value out of range was silently ignored when its drafter had no lane."""
    with pytest.raises(ValueError, match="num_draft_tokens is a whole number from 1 to 16"):
        read(lanes=["autoregressive"], knobs={"draft_model": {"num_draft_tokens": 99}})
    with pytest.raises(ValueError, match="A knob of draft_model is one of"):
        read(lanes=["autoregressive"], knobs={"draft_model": {"nope": 1}})


def test_a_lane_may_bring_its_own_knobs() -> None:
    lanes = [
        "autoregressive",
        {"drafter": "draft_model", "knobs": {"num_draft_tokens": 2}},
        {"drafter": "draft_model", "knobs": {"num_draft_tokens": 8}},
    ]
    assert read(lanes=lanes).lanes == (
        LaneSpec("autoregressive"),
        LaneSpec("draft_model", (("num_draft_tokens", 2),)),
        LaneSpec("draft_model", (("num_draft_tokens", 8),)),
    )


def test_drafters_without_weights_are_neither_offered_nor_run() -> None:
    catalog = replace(CATALOG, untrained=frozenset({("other", "draft_model")}))
    assert able_lanes(["autoregressive", "draft_model"], catalog, "other") == ["autoregressive"]
    assert able_lanes("draft_model", catalog, "other") == []
    assert read_request({**FIELDS}, catalog).lanes[1].drafter == "draft_model"
    with pytest.raises(ValueError, match="no trained draft_model weights for other"):
        read_request({**FIELDS, "target": "other"}, catalog)


def test_a_base_model_takes_raw_text_unless_told_otherwise() -> None:
    """Somebody with a base model had to know that "Raw text" must be chosen by hand."""
    base = replace(CATALOG.targets[1], has_chat_template=False)
    catalog = replace(CATALOG, targets=(CATALOG.targets[0], base))
    assert not read_request({**FIELDS, "target": "other"}, catalog).is_chat
    assert read_request({**FIELDS}, catalog).is_chat
    assert read_request({**FIELDS, "target": "other", "is_chat": True}, catalog).is_chat


def test_presets_are_requests_that_can_run() -> None:
    for recipe in presets(CATALOG).values():
        request = read_request({"prompt": "hello", **recipe}, CATALOG)
        assert request.lanes[0].drafter == "autoregressive"


def test_first_lanes_are_at_most_six_and_have_weights() -> None:
    more = tuple(replace(CATALOG.drafters[2], name=f"d{i}") for i in range(9))
    catalog = replace(
        CATALOG,
        drafters=(*CATALOG.drafters, *more),
        untrained=frozenset({(CATALOG.targets[0].name, "lookahead")}),
    )
    lanes = first_lanes(catalog)
    assert len(lanes) == 6
    assert lanes[:3] == ["autoregressive", "draft_model", "prompt_lookup"]
    assert "lookahead" not in lanes


def test_every_registered_drafter_has_its_words() -> None:
    """What its class says in English, and the same in Chinese: add them to assets/words/drafters.*"""
    for name in DRAFTERS:
        info = drafter_info(name)
        assert table("en")[f"drafter.{name}.title"] == info.title
        assert table("en")[f"drafter.{name}.summary"] == info.summary
        for knob in info.knobs:
            assert f"knob.{knob.name}" in table("en"), knob.name
            assert table("en")[f"knob.{name}.{knob.name}.help"] == knob.help
            said = knob_words(name, knob)("zh")
            for text, choice in said.get("choices", ()):
                assert text != readable(choice), choice
