"""The page's controls: what is offered, each with its words in either language.

Ranges of controls help the hand; they are no check: `specviz.ui.reading` is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from specviz.config import (
    MAX_NEW_TOKENS_LIMIT,
    MAX_PROMPT_CHARACTERS,
    PLAIN_DRAFTER,
    Catalog,
    DrafterInfo,
    Knob,
    LaneSpec,
    Precision,
    Request,
)
from specviz.ui.lanes import all_lanes
from specviz.ui.offers import DEFAULT_PROMPT, first_lanes
from specviz.ui.speaker import Speaker, Spoken, labelled, or_else
from specviz.words import Language, word

PRECISION_WORDS: dict[Precision, str] = {  # bfloat16 is what "auto" takes where it is any good
    "auto": "page.precision_auto",
    "float32": "page.precision_float32",
    "int8": "page.precision_int8",
    "nf4": "page.precision_nf4",
    "fp4": "page.precision_fp4",
}
DEFAULTS = Request("-", (LaneSpec(PLAIN_DRAFTER),))


@dataclass(frozen=True, slots=True)
class Controls:
    """The components whose values make a request, by field name; a knob's is (drafter, knob)."""

    fields: dict[str, Any]
    knobs: dict[tuple[str, str], Any]

    def components(self) -> list[Any]:
        return [*self.fields.values(), *self.knobs.values()]

    def names(self) -> list[str | tuple[str, str]]:
        """What each of `components` is called, for the page's links."""
        return [*self.fields, *self.knobs]

    def read(self, values: tuple[object, ...]) -> dict[str, object]:
        """Values in the order of `components`, as the fields of `read_request`."""
        named = dict(zip(self.fields, values, strict=False))
        knobs: dict[str, dict[str, object]] = {}
        for (drafter, knob), value in zip(self.knobs, values[len(named) :], strict=True):
            knobs.setdefault(drafter, {})[knob] = value
        stops = named.pop("stop_strings")
        lines = [s for s in stops.split("\n") if s] if isinstance(stops, str) else stops
        named["lanes"] = all_lanes(named.get("lanes"), named.pop("own_lanes", None))
        return {**named, "knobs": knobs, "stop_strings": lines}

    def values_of(self, request: Request) -> dict[Any, object]:
        """The reverse: what each component shows when the page asks for `request`."""
        values: dict[str, object] = {
            "prompt": request.prompt,
            "target": request.target,
            "lanes": list(dict.fromkeys(lane.drafter for lane in request.lanes)),
            "is_chat": request.is_chat,
            "precision": request.precision,
            "verification": request.verification,
            "max_new_tokens": request.max_new_tokens,
            "seed": request.seed,
            "is_adaptive": request.is_adaptive,
            "stop_strings": "\n".join(request.stop_strings),
            "temperature": request.sampling.temperature,
            "top_k": request.sampling.top_k,
            "top_p": request.sampling.top_p,
            "min_p": request.sampling.min_p,
            "repetition_penalty": request.sampling.repetition_penalty,
        }
        shown = {knob: knob.value for knob in self.knobs.values()}  # a component keeps its first
        shown |= {self.fields[name]: value for name, value in values.items() if name in self.fields}
        firsts = {lane.drafter: lane for lane in reversed(request.lanes)}
        for lane in firsts.values():
            for name, value in lane.knobs:
                shown[self.knobs[lane.drafter, name]] = value
        own = [self._own_lane(lane) for lane in request.lanes if lane is not firsts[lane.drafter]]
        return shown | ({self.fields["own_lanes"]: own} if "own_lanes" in self.fields else {})

    def _own_lane(self, lane: LaneSpec) -> dict[str, object]:
        """A drafter's further lane, with every knob: it takes none from the first one's controls."""
        of_lane = {k: c.value for (drafter, k), c in self.knobs.items() if drafter == lane.drafter}
        return {"drafter": lane.drafter, "knobs": {**of_lane, **dict(lane.knobs)}}


def prompt_box(speaker: Speaker) -> Any:
    def spoken(language: Language) -> dict[str, Any]:
        hint = word("page.prompt_hint", language)
        return {"label": word("page.prompt", language), "placeholder": hint}

    return speaker.make(
        gr.Textbox,
        spoken,
        value=DEFAULT_PROMPT,
        show_label=False,
        lines=2,
        max_lines=8,
        max_length=MAX_PROMPT_CHARACTERS,
        elem_id="specviz-prompt",
        scale=8,
    )


def model_controls(catalog: Catalog, speaker: Speaker) -> dict[str, Any]:
    """Target and lanes: what a visitor is most likely to change."""

    def lanes_spoken(language: Language) -> dict[str, Any]:
        titles = [(drafter_title(d)(language), d.name) for d in catalog.drafters]
        return {"label": word("page.lanes", language), "choices": titles}

    with gr.Row(elem_id="specviz-choice"):
        target = speaker.make(
            gr.Dropdown,
            labelled("page.target"),
            choices=[(t.title, t.name) for t in catalog.targets],
            value=catalog.targets[0].name,
            elem_id="specviz-target",
            scale=1,
            min_width=260,
        )
        lanes = speaker.make(
            gr.CheckboxGroup,
            lanes_spoken,
            value=first_lanes(catalog),
            elem_id="specviz-lanes",
            scale=3,
            min_width=320,
        )
    own = gr.JSON(visible=False, label="own lanes")  # the page's script keeps them and fills it in
    return {"target": target, "lanes": lanes, "own_lanes": own}


def drafter_title(info: DrafterInfo) -> Callable[[Language], str]:
    return or_else(f"drafter.{info.name}.title", info.title)


def drafter_summary(info: DrafterInfo) -> Callable[[Language], str]:
    return or_else(f"drafter.{info.name}.summary", info.summary)


def run_controls(speaker: Speaker, has_chat_template: bool) -> dict[str, Any]:
    """What changes most between runs: luck, length, and the form of the prompt."""
    make = speaker.make
    with gr.Row():
        fields = {
            "temperature": make(
                gr.Slider,
                labelled("page.temperature"),
                minimum=0,
                maximum=2,
                value=DEFAULTS.sampling.temperature,
                step=0.05,
            ),
            "max_new_tokens": make(
                gr.Slider,
                labelled("page.budget"),
                minimum=1,
                maximum=MAX_NEW_TOKENS_LIMIT,
                value=DEFAULTS.max_new_tokens,
                step=1,
                elem_id="specviz-budget",
            ),
            "seed": make(
                gr.Number, labelled("page.seed"), value=DEFAULTS.seed, precision=0, minimum=0
            ),
        }
    with gr.Row():
        rules = [("page.rule_rejection", "rejection"), ("page.rule_coupled", "coupled")]
        fields["verification"] = make(
            gr.Radio, labelled("page.rule", choices=rules), value="rejection"
        )
        fields["is_chat"] = make(
            gr.Radio,
            labelled("page.form", choices=[("page.form_chat", True), ("page.form_raw", False)]),
            value=has_chat_template,
            elem_id="specviz-form-of-prompt",
        )
    return fields


def more_controls(speaker: Speaker, precisions: Sequence[Precision]) -> dict[str, Any]:
    """What few people change."""
    s, make = DEFAULTS.sampling, speaker.make
    with gr.Row():
        fields = {
            name: make(gr.Slider, labelled(key), minimum=low, maximum=high, value=value, step=step)
            for name, key, low, high, value, step in (
                ("top_k", "page.top_k", 0, 200, s.top_k, 1),
                ("top_p", "page.top_p", 0, 1, s.top_p, 0.01),
                ("min_p", "page.min_p", 0, 1, s.min_p, 0.01),
                ("repetition_penalty", "page.penalty", 1, 2, s.repetition_penalty, 0.05),
            )
        }
    with gr.Row():
        fields["stop_strings"] = make(gr.Textbox, labelled("page.stop_strings"), value="", lines=2)
        choices = [(PRECISION_WORDS[p], p) for p in precisions if p in PRECISION_WORDS]
        fields["precision"] = make(
            gr.Radio, labelled("page.precision", choices=choices), value="auto"
        )
    fields["is_adaptive"] = make(gr.Checkbox, labelled("page.adaptive"), value=DEFAULTS.is_adaptive)
    return fields


def knob_controls(
    drafters: tuple[DrafterInfo, ...], speaker: Speaker
) -> dict[tuple[str, str], Any]:
    """A control per knob, a tab per drafter: a new drafter's knobs appear by themselves."""
    knobs: dict[tuple[str, str], Any] = {}
    with gr.Tabs(elem_id="specviz-knobs"):
        for info in drafters:
            if info.knobs:
                with speaker.make(gr.Tab, _tab_words(info)), gr.Row():
                    for knob in info.knobs:
                        knobs[info.name, knob.name] = knob_control(info.name, knob, speaker)
    return knobs


def _tab_words(info: DrafterInfo) -> Spoken:
    return lambda language: {"label": drafter_title(info)(language)}


def knob_control(drafter: str, knob: Knob, speaker: Speaker) -> Any:
    spoken = knob_words(drafter, knob)
    if isinstance(knob.default, bool):
        return speaker.make(gr.Checkbox, spoken, value=knob.default)
    if knob.choices:
        return speaker.make(gr.Dropdown, spoken, value=knob.default)
    return speaker.make(
        gr.Slider,
        spoken,
        minimum=knob.minimum,
        maximum=knob.maximum,
        value=knob.default,
        step=1 if isinstance(knob.default, int) else None,
        min_width=240,
    )


def knob_words(drafter: str, knob: Knob) -> Spoken:
    """A label in words instead of the field's name, its help, and its choices."""
    label = or_else(f"knob.{knob.name}", readable(knob.name))
    help_ = or_else(f"knob.{drafter}.{knob.name}.help", knob.help)
    choices = [(or_else(f"knob.{knob.name}.{_key_part(c)}", readable(c)), c) for c in knob.choices]

    def spoken(language: Language) -> dict[str, Any]:
        said: dict[str, Any] = {"label": label(language), "info": help_(language)}
        if choices:
            said["choices"] = [(text(language), value) for text, value in choices]
        return said

    return spoken


def _key_part(choice: str) -> str:
    return choice.replace(" ", "_").replace("-", "_")


def readable(name: str) -> str:
    """A field's name for people who have never seen one: `is_adaptive` is "Adaptive"."""
    words = name.replace("_", " ").split()
    if len(words) > 1 and words[0] in ("is", "has", "num"):
        words = words[1:]
    return " ".join(words).capitalize()


def able_lanes(names: object, catalog: Catalog, target: object) -> list[str]:
    """Those of the chosen lanes that can run on `target`."""
    chosen = names if isinstance(names, list) else []
    return [n for n in chosen if isinstance(n, str) and catalog.can_run(str(target), n)]


def method_words(drafters: tuple[DrafterInfo, ...]) -> Spoken:
    """What each lane does and where it comes from."""

    def spoken(language: Language) -> dict[str, Any]:
        parts = [
            f"**{drafter_title(d)(language)}**: {drafter_summary(d)(language)}"
            + (f" *{d.paper}*" if d.paper else "")
            for d in drafters
        ]
        return {"value": "\n\n".join(parts)}

    return spoken
