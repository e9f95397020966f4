"""From the page's controls to a `Request`: what is offered, and how what came back is read.

Ranges of controls help the hand; they are no check. Values arrive here as the browser or an
API client sent them, whatever their type, and `read_request` refuses what is not in range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from specviz.config import (
    MAX_NEW_TOKENS_LIMIT,
    MAX_PROMPT_CHARACTERS,
    Catalog,
    DrafterInfo,
    Knob,
    LaneSpec,
    Request,
    SamplingParams,
    checked,
)
from specviz.ui import copy
from specviz.views.summary import PLAIN_DRAFTER

SAMPLING_FIELDS = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
PLAIN_FIELDS = ("prompt", "is_chat", "precision", "verification", "max_new_tokens", "seed")
KNOWN_FIELDS = {*SAMPLING_FIELDS, *PLAIN_FIELDS, "lanes", "knobs", "stop_strings", "target"}
DEFAULTS = Request("-", (LaneSpec(PLAIN_DRAFTER),))


@dataclass(frozen=True, slots=True)
class Controls:
    """The components whose values make a request, by field name; a knob's is (drafter, knob)."""

    fields: dict[str, Any]
    knobs: dict[tuple[str, str], Any]

    def components(self) -> list[Any]:
        return [*self.fields.values(), *self.knobs.values()]

    def read(self, values: tuple[object, ...]) -> dict[str, object]:
        """Values in the order of `components`, as the fields of `read_request`."""
        named = dict(zip(self.fields, values, strict=False))
        knobs: dict[str, dict[str, object]] = {}
        for (drafter, knob), value in zip(self.knobs, values[len(named) :], strict=True):
            knobs.setdefault(drafter, {})[knob] = value
        stops = named.pop("stop_strings")
        lines = [s for s in stops.split("\n") if s] if isinstance(stops, str) else stops
        return {**named, "knobs": knobs, "stop_strings": lines}


def read_request(fields: Mapping[str, object], catalog: Catalog) -> Request:
    """The request these fields ask for. ValueError: what was expected, what came, what to do."""
    if unknown := sorted(set(fields) - KNOWN_FIELDS):
        names = ", ".join(sorted(KNOWN_FIELDS))
        raise ValueError(f"There is no setting {unknown[0]!r:.60}; there are: {names}.")
    values: dict[str, Any] = {name: fields[name] for name in PLAIN_FIELDS if name in fields}
    sampling: dict[str, Any] = {name: fields[name] for name in SAMPLING_FIELDS if name in fields}
    if not isinstance(values.get("is_chat", True), bool):
        raise ValueError(f"is_chat is true or false; got {values['is_chat']!r:.60}.")
    _known_drafters(fields.get("knobs", {}), catalog)
    request = Request(
        lanes=_lanes(fields.get("lanes"), fields.get("knobs", {})),
        target=_text("target", fields.get("target", catalog.targets[0].name)),
        sampling=SamplingParams(**sampling),
        stop_strings=_texts("stop_strings", fields.get("stop_strings", [])),
        **values,
    )
    return checked(request, catalog)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is a piece of text; got {value!r:.60}.")
    return value


def _texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{name} is a list of names or texts; got {value!r:.60}.")
    return tuple(_text(f"Each of {name}", item) for item in value)


def _known_drafters(knobs: object, catalog: Catalog) -> None:
    """Settings of a drafter that does not exist are a slip of the pen, not something to ignore."""
    if not isinstance(knobs, Mapping) or not all(isinstance(v, Mapping) for v in knobs.values()):
        raise ValueError(
            "knobs maps a drafter's name to its settings, as in "
            f'{{"draft_model": {{...}}}}; got {knobs!r:.60}.'
        )
    names = [info.name for info in catalog.drafters]
    if unknown := sorted(set(knobs) - set(names)):
        raise ValueError(f"knobs names {unknown[0]!r:.60}; there are: {', '.join(names)}.")


def _lanes(names: object, knobs: Any) -> tuple[LaneSpec, ...]:
    """One lane per name, each with the knobs given for its drafter."""
    return tuple(
        LaneSpec(name, tuple((k, _knob_value(k, v)) for k, v in knobs.get(name, {}).items()))
        for name in _texts("lanes", names)
    )


def _knob_value(name: str, value: object) -> int | float | bool | str:
    if not isinstance(value, (int, float, str)):
        raise ValueError(f"{name} is a number, a text, or on or off; got {value!r:.60}.")
    return value


def prompt_box() -> Any:
    return gr.Textbox(
        copy.DEFAULT_PROMPT,
        label=copy.PROMPT_LABEL,
        placeholder=copy.PROMPT_HINT,
        lines=2,
        max_lines=8,
        max_length=MAX_PROMPT_CHARACTERS,
        elem_id="specviz-prompt",
        scale=8,
    )


def model_controls(catalog: Catalog) -> dict[str, Any]:
    """Target and lanes: what a visitor is most likely to change."""
    with gr.Row(elem_id="specviz-choice"):
        target = gr.Dropdown(
            [(t.title, t.name) for t in catalog.targets],
            value=catalog.targets[0].name,
            label=copy.TARGET_LABEL,
            scale=1,
            min_width=260,
        )
        lanes = gr.CheckboxGroup(
            [(d.title, d.name) for d in catalog.drafters],
            value=[d.name for d in catalog.drafters],
            label=copy.LANES_LABEL,
            elem_id="specviz-lanes",
            scale=3,
            min_width=320,
        )
    return {"target": target, "lanes": lanes}


def sampling_controls() -> dict[str, Any]:
    s, slider = DEFAULTS.sampling, gr.Slider
    with gr.Row():
        fields = {
            "temperature": slider(
                0,
                2,
                s.temperature,
                step=0.05,
                label=copy.TEMPERATURE_LABEL,
                info=copy.TEMPERATURE_HELP,
            ),
            "top_k": slider(0, 200, s.top_k, step=1, label=copy.TOP_K_LABEL, info=copy.TOP_K_HELP),
            "top_p": slider(0, 1, s.top_p, step=0.01, label=copy.TOP_P_LABEL, info=copy.TOP_P_HELP),
            "min_p": slider(0, 1, s.min_p, step=0.01, label=copy.MIN_P_LABEL, info=copy.MIN_P_HELP),
            "repetition_penalty": slider(
                1,
                2,
                s.repetition_penalty,
                step=0.05,
                label=copy.PENALTY_LABEL,
                info=copy.PENALTY_HELP,
            ),
        }
    rule = gr.Radio(
        list(copy.RULE_CHOICES), value="rejection", label=copy.RULE_LABEL, info=copy.RULE_HELP
    )
    return {**fields, "verification": rule}


def run_controls() -> dict[str, Any]:
    with gr.Row():
        fields = {
            "max_new_tokens": gr.Slider(
                1,
                MAX_NEW_TOKENS_LIMIT,
                DEFAULTS.max_new_tokens,
                step=1,
                label=copy.BUDGET_LABEL,
                info=copy.BUDGET_HELP,
                elem_id="specviz-budget",
            ),
            "seed": gr.Number(
                DEFAULTS.seed, label=copy.SEED_LABEL, info=copy.SEED_HELP, precision=0, minimum=0
            ),
            "stop_strings": gr.Textbox(
                "", label=copy.STOP_STRINGS_LABEL, info=copy.STOP_STRINGS_HELP, lines=2
            ),
        }
    with gr.Row():
        fields["is_chat"] = gr.Radio(
            list(copy.FORM_CHOICES), value=True, label=copy.FORM_LABEL, info=copy.FORM_HELP
        )
        fields["precision"] = gr.Radio(
            list(copy.PRECISION_CHOICES),
            value="auto",
            label=copy.PRECISION_LABEL,
            info=copy.PRECISION_HELP,
        )
    return fields


def knob_controls(drafters: tuple[DrafterInfo, ...]) -> dict[tuple[str, str], Any]:
    """A control per knob, grouped by drafter: a new drafter's knobs appear by themselves."""
    knobs: dict[tuple[str, str], Any] = {}
    for info in drafters:
        if info.knobs:
            with gr.Group():
                gr.Markdown(f"**{info.title}**", elem_classes="specviz-knob-title")
                with gr.Row():
                    for knob in info.knobs:
                        knobs[info.name, knob.name] = knob_control(knob)
    return knobs


def knob_control(knob: Knob) -> Any:
    label = knob.name.replace("_", " ")
    if isinstance(knob.default, bool):
        return gr.Checkbox(knob.default, label=label, info=knob.help)
    if knob.choices:
        return gr.Dropdown(list(knob.choices), value=knob.default, label=label, info=knob.help)
    step = 1 if isinstance(knob.default, int) else None
    return gr.Slider(
        knob.minimum,
        knob.maximum,
        knob.default,
        step=step,
        label=label,
        info=knob.help,
        min_width=240,
    )
