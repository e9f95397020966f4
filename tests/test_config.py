"""What a person may ask for: everything out of range is refused in one sentence."""

from __future__ import annotations

import math
from typing import Any

import pytest

from specviz.config import (
    MAX_LANES,
    MAX_NEW_TOKENS_LIMIT,
    MAX_PROMPT_CHARACTERS,
    Catalog,
    DrafterInfo,
    Knob,
    LaneSpec,
    Request,
    SamplingParams,
    TargetSpec,
    checked,
)

PLAIN = LaneSpec("plain")
LENGTH = Knob("length", "how many", 4, 1, 16)
WARMTH = Knob("warmth", "how warm", 0.5, 0.0, 2.0)
SWITCH = Knob("is_on", "on or off", True)
KIND = Knob("kind", "which", "a", choices=("a", "b"))
CATALOG = Catalog(
    targets=(TargetSpec("small", "Small", "MIT", "nowhere"),),
    drafters=(
        DrafterInfo("plain", "Plain", "", ""),
        DrafterInfo("guess", "Guess", "", "", (LENGTH, WARMTH, SWITCH, KIND)),
    ),
)


def request(**changes: Any) -> Request:
    return Request(**({"prompt": "Hi", "lanes": (PLAIN,), "target": "small"} | changes))


@pytest.mark.parametrize("name", ["temperature", "top_p", "min_p", "repetition_penalty"])
@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, -math.inf, None, "1", True, 1e9, []])
def test_numbers_out_of_range_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{name} is a number from .* got .*\.$"):
        SamplingParams(**{name: value})


@pytest.mark.parametrize("value", [-1, 3.5, 3.0, math.nan, None, "8", True, 10**9])
def test_top_k_is_a_whole_number(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^top_k is a whole number"):
        SamplingParams(top_k=value)


@pytest.mark.parametrize(
    "edges", [{"temperature": 100.0}, {"top_p": 0.0}, {"min_p": 1.0}, {"top_k": 0}]
)
def test_the_ends_of_a_range_belong_to_it(edges: dict[str, Any]) -> None:
    SamplingParams(**edges)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens is a whole number from 1"),
        ({"max_new_tokens": -1}, "max_new_tokens"),
        ({"max_new_tokens": MAX_NEW_TOKENS_LIMIT + 1}, "max_new_tokens"),
        ({"max_new_tokens": 1e9}, "max_new_tokens"),
        ({"max_new_tokens": 3.7}, "max_new_tokens"),
        ({"max_new_tokens": "8"}, "max_new_tokens"),
        ({"max_new_tokens": None}, "max_new_tokens"),
        ({"max_new_tokens": math.nan}, "max_new_tokens"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"precision": "float16"}, "precision is one of"),
        ({"verification": "typical"}, "verification is one of"),
        ({"prompt": ""}, "prompt is empty"),
        ({"prompt": " \n\t\u200b"}, "prompt is empty"),
        ({"prompt": None}, "prompt is empty"),
        ({"prompt": "x" * (MAX_PROMPT_CHARACTERS + 1)}, "Shorten it"),
        ({"lanes": ()}, "between 1 and"),
        ({"lanes": tuple(LaneSpec("plain", (("k", i),)) for i in range(MAX_LANES + 1))}, "lanes"),
        ({"lanes": (PLAIN, PLAIN)}, "Two lanes are the same"),
        ({"stop_strings": ("",)}, "stop string is empty"),
    ],
)
def test_requests_that_cannot_be_run_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        request(**changes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"target": "../../etc"}, r"^target is one of small; got '\.\./\.\./etc'"),
        ({"lanes": (LaneSpec("medusa"),)}, "A lane's drafter is one of plain, guess; got 'medusa'"),
        ({"lanes": (LaneSpec("guess", (("size", 1),)),)}, "A knob of guess is one of length"),
        ({"lanes": (LaneSpec("plain", (("length", 1),)),)}, "A knob of plain is one of none"),
    ],
)
def test_unknown_names_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        checked(request(**changes), CATALOG)


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        *(
            (LENGTH, value)
            for value in (0, 17, 10000, 3.7, math.nan, math.inf, None, "8", True, [])
        ),
        *((WARMTH, value) for value in (-0.1, 2.1, math.nan, None, "1", False)),
        *((SWITCH, value) for value in (1, 0, "on", None)),
        *((KIND, value) for value in ("c", 1, None, True)),
    ],
)
def test_a_knob_refuses_what_it_cannot_hold(knob: Knob, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{knob.name} is .*; got "):
        knob.validated(value)


@pytest.mark.parametrize(
    ("knob", "value", "kept"),
    [
        (LENGTH, 16, 16),
        (LENGTH, 4.0, 4),
        (WARMTH, 1, 1.0),
        (SWITCH, False, False),
        (KIND, "b", "b"),
    ],
)
def test_a_knob_gives_its_own_type(knob: Knob, value: Any, kept: Any) -> None:
    assert (knob.validated(value), type(knob.validated(value))) == (kept, type(kept))


def test_lanes_that_mean_the_same_compare_equal() -> None:
    """Defaults are dropped and knobs sorted, so a lane set to the default is the default lane."""
    lane = LaneSpec("guess", (("warmth", 0.5), ("length", 9.0), ("is_on", True), ("kind", "a")))
    assert checked(request(lanes=(lane,)), CATALOG).lanes == (LaneSpec("guess", (("length", 9),)),)


def test_two_lanes_that_turn_out_the_same_are_refused() -> None:
    """A default written out made a lane differ from its twin until names were resolved."""
    lanes = (LaneSpec("guess"), LaneSpec("guess", (("length", 4),)))
    with pytest.raises(ValueError, match="Two lanes are the same"):
        checked(request(lanes=lanes), CATALOG)
