"""The stage's element and what the page's scripts are given: code, words, and what there is.

Gradio evaluates templates as code, so these are constant; whatever a visitor wrote reaches the
page as JSON and becomes text there.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import gradio as gr

from specviz.config import MAX_LANES, Catalog, Knob
from specviz.ui import offers, playback
from specviz.ui.controls import Controls
from specviz.ui.kept import KeptTraces
from specviz.ui.lanes import own_backbones
from specviz.ui.learn import learn_code, learn_style, method_facts
from specviz.ui.open_runs import OpenRuns
from specviz.ui.playback import Recordings
from specviz.ui.reading import has_chat_template, read_request
from specviz.ui.warm_up import WarmUp
from specviz.views.stage import SCRIPTS, STYLES
from specviz.views.tokens import legible_message
from specviz.words import ASSETS, Message, message, said, script

PAGE_SCRIPTS = (
    "page_runs.js",
    "page_files.js",
    "page_head.js",
    "page_offline.js",
    "page_share.js",
    "page_lanes.js",
    "page_form.js",
    "page_told.js",
    "page_limits.js",
    "page_settle.js",
    "page_focus.js",
    "page_bar.js",
    "page_save.js",
    "page_links.js",
    "page_facts.js",
    "page_measure.js",
    "page.js",
)
Settings = dict[str, Any]


def page_settings(
    catalog: Catalog, form: Controls | None, recorded: Recordings, warm_up: WarmUp | None
) -> Settings:
    """What `startPage` is told. `form` is None for a page that only plays."""
    settings: Settings = {
        "silenceSeconds": playback.SILENCE_SECONDS,
        "doubtSeconds": 3 * playback.BEAT_SECONDS,
        "maxImport": playback.MAX_IMPORT_CHARACTERS,
        "recorded": list(recorded.files),
        "hasModel": warm_up is not None,
        "hasForm": form is not None,
        "maxLanes": MAX_LANES,
        "methods": method_facts(catalog),
    }
    if form is None:
        return settings
    return settings | {
        "names": form.names(),
        "defaults": [component.value for component in form.components()],
        "examples": offers.EXAMPLES,
        "presets": offers.presets(catalog),
        "knobs": {d.name: [_knob(knob) for knob in d.knobs] for d in catalog.drafters},
        "ownBackbones": own_backbones(catalog),
        "drafters": {d.name: d.title for d in catalog.drafters},
        "untrained": sorted(catalog.untrained),
        "targets": {t.name: t.title for t in catalog.targets},
        "baseTargets": [t.name for t in catalog.targets if not has_chat_template(catalog, t.name)],
    }


def _knob(knob: Knob) -> dict[str, Any]:
    return {**asdict(knob), "isWhole": isinstance(knob.default, int)}


def stage_html(
    settings: Settings,
    catalog: Catalog,
    recorded: Recordings,
    warm_up: WarmUp | None,
    kept: KeptTraces,
    open_runs: OpenRuns,
) -> Any:
    """The stage. A factory, not a subclass: Gradio writes a file beside subclasses it meets."""

    def load_recorded(wanted: object) -> str:
        name, run = _texts(wanted, "name", "run")
        return recorded.envelope(name, run[:64])

    def prompt_of(name: object) -> str:
        return recorded.prompt(str(name))

    def load_trace(wanted: object) -> str:
        """{"text": the trace}, or {"refusal": a message}."""
        run, name = _texts(wanted, "run", "name")
        text = recorded.trace(name) if name else kept.text(run)
        found = {"refusal": message("page.trace_gone")} if text is None else {"text": text}
        return json.dumps(found)

    def import_trace(wanted: object) -> str:
        text, name, run = _texts(wanted, "text", "name", "run")
        return playback.imported(text, name, run[:64])

    def why_not(recipe: object) -> Message | str:
        """What is wrong with a link's recipe; "" if it can be run."""
        try:
            read_request(recipe if isinstance(recipe, dict) else {}, catalog)
        except ValueError as error:
            return legible_message(said(error))
        return ""

    def leave_run(run: object) -> None:
        open_runs.leave(str(run)[:64])

    def model_state(_: object) -> str:
        return json.dumps(warm_up.state() if warm_up and settings["hasModel"] else None)

    css = stage_style()
    return gr.HTML(
        html_template=(
            "<div class='specviz-bar'></div><div class='specviz-desk'>"
            "<div class='specviz-learn svl'></div><div class='specviz-stage'></div></div>"
            "<div class='specviz-facts'></div>"
        ),
        css_template=_as_template(f"{css}\n{learn_style()}"),
        js_on_load=_script(settings, css),
        server_functions=[
            load_recorded,
            prompt_of,
            load_trace,
            import_trace,
            why_not,
            leave_run,
            model_state,
        ],
        apply_default_css=False,
        elem_id="specviz-stage",
    )


def _texts(wanted: object, *names: str) -> list[str]:
    """Fields of what a browser sent, each as text; "" where it sent none."""
    fields = wanted if isinstance(wanted, dict) else {}
    return [value if isinstance(value := fields.get(name), str) else "" for name in names]


def stage_code() -> str:
    """Words and stage: what a replay without a server needs too."""
    return "\n".join([script(), *((ASSETS / name).read_text("utf-8") for name in SCRIPTS)])


def stage_style() -> str:
    return "\n".join((ASSETS / name).read_text("utf-8") for name in STYLES)


def _script(settings: Settings, css: str) -> str:
    """Stage and page as one function."""
    given = {**settings, "stageCode": stage_code(), "learnCode": learn_code(), "stageStyle": css}
    code = [(ASSETS / name).read_text("utf-8") for name in PAGE_SCRIPTS]
    return hidden_script(
        [*code, f"startPage({{ element, props, server, watch, adopt }}, {json.dumps(given)});"]
    )


def hidden_script(code: list[str]) -> str:
    """What Gradio runs when it mounts an element: the code, its text escaped so that it holds no
    quoted word. Gradio takes each quoted word of a script for an event, and "self" among them broke
    its config. The one event there is, adopt, stands in quotes on purpose."""
    text = json.dumps("\n".join([*code, "//# sourceURL=specviz.js"]))
    text = text.replace("'", "\\u0027").replace("`", "\\u0060").replace('\\"', "\\u0022")
    names = "element, props, server, watch, adopt"
    adopt = "(wanted) => trigger('adopt', wanted)"
    return f'new Function("{names}", {text})(element, props, server, watch, {adopt});'


def _as_template(css: str) -> str:
    """CSS as it must stand in a JS template literal, which is what Gradio makes of it."""
    return css.replace("\\", "\\\\").replace("`", "\\`").replace("${", "\\${")
