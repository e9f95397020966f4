"""The page: controls around one stage, and the wires between them and a session.

The stage is a constant element painted by `assets/stage.js`; token text reaches it as JSON
and is never part of a template, because Gradio evaluates templates as code.
"""

from __future__ import annotations

import html
import json
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import gradio as gr

from specviz.config import Catalog, DrafterInfo
from specviz.session import Session
from specviz.ui import controls, copy, playback
from specviz.ui.playback import Recordings
from specviz.ui.warm_up import WarmUp
from specviz.views.stage import SCRIPTS
from specviz.views.summary import PLAIN_DRAFTER

ASSETS = Path(__file__).parents[2] / "assets"
# Visitors wait in the session's own line, which tells each one the place. These two bound only
# how many are let into it at once, and how many more may stand outside.
MAX_VISITORS = 64
MAX_OUTSIDE = 64
SYSTEM_FONTS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif")
MONO_FONTS = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace")
PLAIN_LANE_NOTE = (
    "(lanes) => { document.body.classList.toggle('specviz-no-plain', "
    f"!lanes.includes('{PLAIN_DRAFTER}')) }}"
)
BEGIN = "(...values) => [...values.slice(0, -1), specviz.begin()]"


def build_ui(
    session: Session, recorded: Recordings | None = None, warm_up: WarmUp | None = None
) -> Any:
    """The page as gr.Blocks. Without targets in the catalogue it is a player of `recorded`."""
    recorded, catalog = recorded or Recordings(()), session.catalog()
    with gr.Blocks(title=copy.TITLE, fill_width=True) as page:
        gr.Markdown(f"# {copy.TITLE}\n{copy.PURPOSE}", elem_id="specviz-head")
        if catalog.targets:
            run, stop, form = _run_controls(catalog)
        stage = stage_html(recorded, warm_up if catalog.targets else None)
        if catalog.targets:
            _connect(session, form, stage, (run, stop))
            _add_api(session)
        if catalog.drafters:
            with gr.Accordion(copy.METHODS_LABEL, open=False):
                gr.Markdown("\n\n".join(map(_method_words, catalog.drafters)))
    return page.queue(max_size=MAX_OUTSIDE, api_open=False)


def launch(page: Any, host: str | None = None, port: int | None = None, **more: Any) -> Any:
    """Serve the page. Host and port default to GRADIO_SERVER_NAME and GRADIO_SERVER_PORT."""
    return page.launch(
        server_name=host,
        server_port=port,
        theme=_theme(),
        css=(ASSETS / "page.css").read_text("utf-8"),
        footer_links=[],
        run_history=False,  # it would keep every visitor's prompts in the browser
        ssr_mode=False,
        **more,
    )


def _theme() -> Any:
    """System fonts, so nothing is fetched; grey text dark enough to read; little air, so that
    the stage starts high."""
    base = gr.themes.Base(
        primary_hue="blue", neutral_hue="slate", font=SYSTEM_FONTS, font_mono=MONO_FONTS
    )
    return base.set(
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_400",
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_400",
        block_padding="8px 12px",
        layout_gap="10px",
        button_cancel_background_fill="#b3261e",
        button_cancel_background_fill_hover="#8c1d18",
        button_cancel_text_color="white",
        button_cancel_background_fill_dark="#b3261e",
        button_cancel_text_color_dark="white",
    )


def stage_html(recorded: Recordings, warm_up: WarmUp | None) -> Any:
    """The stage. A factory, not a subclass: Gradio writes a file beside subclasses it meets."""

    def load_recorded(wanted: object) -> str:
        wanted = wanted if isinstance(wanted, dict) else {}
        return recorded.envelope(str(wanted.get("name")), str(wanted.get("run"))[:64])

    def model_state(_: object) -> str:
        return json.dumps(warm_up.state() if warm_up else None)

    words = {
        "sending": copy.SENDING,
        "stopped": copy.STOPPED,
        "lost": copy.LOST.format(seconds=playback.SILENCE_SECONDS),
        "silenceSeconds": playback.SILENCE_SECONDS,
        "refused": copy.REFUSED,
        "recordedLabel": copy.RECORDED_LABEL,
        "recorded": list(recorded.files),
        "hasModel": warm_up is not None,
    }
    return gr.HTML(
        html_template=(
            "<div class='specviz-bar'><div class='specviz-recorded'></div>"
            "<div class='specviz-readiness' role='status'></div></div>"
            "<div class='specviz-stage'></div>"
        ),
        css_template=_as_template((ASSETS / "stage.css").read_text("utf-8")),
        js_on_load=_script(words),
        server_functions=[load_recorded, model_state],
        apply_default_css=False,
        elem_id="specviz-stage",
    )


def _script(words: dict[str, object]) -> str:
    """Stage and page as one function, its text escaped so that it holds no quoted word: Gradio
    takes each quoted word of this script for an event, and "self" among them broke its config."""
    files = [(ASSETS / name).read_text("utf-8") for name in (*SCRIPTS, "page.js")]
    start = f"startPage({{ element, props, server, watch }}, {json.dumps(words)});"
    text = json.dumps("\n".join([*files, start, "//# sourceURL=specviz.js"]))
    text = text.replace("'", "\\u0027").replace("`", "\\u0060").replace('\\"', "\\u0022")
    names = "element, props, server, watch"
    return f'new Function("{names}", {text})({names});'


def _as_template(css: str) -> str:
    """CSS as it must stand in a JS template literal, which is what Gradio makes of it."""
    return css.replace("\\", "\\\\").replace("`", "\\`").replace("${", "\\${")


def _run_controls(catalog: Catalog) -> tuple[Any, Any, controls.Controls]:
    with gr.Row(elem_id="specviz-ask", equal_height=True):
        prompt = controls.prompt_box()
        run = gr.Button(copy.RUN, variant="primary", elem_id="specviz-run", scale=1, min_width=110)
        stop = gr.Button(copy.STOP, variant="stop", elem_id="specviz-stop", scale=1, min_width=110)
    with gr.Row(elem_id="specviz-examples"):
        for example in copy.EXAMPLES:
            button = gr.Button(example.title, size="sm", min_width=60, scale=0)
            text = json.dumps(example.prompt)
            button.click(None, outputs=prompt, js=f"() => {text}", api_visibility="private")
    model = controls.model_controls(catalog)
    gr.Markdown(copy.NO_PLAIN_LANE, elem_id="specviz-no-plain-note")
    with gr.Accordion(copy.SETTINGS_LABEL, open=False):
        settings = {**controls.sampling_controls(), **controls.run_controls()}
        knobs = controls.knob_controls(catalog.drafters)
    return run, stop, controls.Controls({"prompt": prompt, **model, **settings}, knobs)


def _connect(
    session: Session, form: controls.Controls, stage: Any, buttons: tuple[Any, Any]
) -> None:
    async def on_run(*values: object) -> AsyncGenerator[str, None]:
        *chosen, run = values
        fields = form.read(tuple(chosen))
        async with aclosing(_envelopes(session, fields, str(run)[:64])) as envelopes:
            async for envelope in envelopes:
                yield envelope

    run_button, stop_button = buttons
    run_id = gr.Textbox(visible=False)  # BEGIN fills it in on the way
    running = run_button.click(
        on_run,
        inputs=[*form.components(), run_id],
        outputs=stage,
        js=BEGIN,
        preprocess=False,  # what the controls allow is no check: `read_request` is
        show_progress="hidden",
        concurrency_limit=MAX_VISITORS,
        api_visibility="private",
    )
    running.failure(None, js="() => specviz.refused()", api_visibility="private")
    stop_button.click(None, js="() => specviz.stop()", cancels=[running], api_visibility="private")
    form.fields["prompt"].submit(None, js="() => specviz.submit()", api_visibility="private")
    form.fields["lanes"].change(
        None, inputs=form.fields["lanes"], js=PLAIN_LANE_NOTE, api_visibility="private"
    )


def _add_api(session: Session) -> None:
    """The same runs for programs. Names and ranges are checked exactly as for the page."""

    async def run(prompt: str, settings: dict[str, Any] | None = None) -> AsyncGenerator[str, None]:
        fields = _api_fields(prompt, settings, session.catalog())
        async with aclosing(_envelopes(session, fields, secrets.token_hex(8))) as envelopes:
            async for envelope in envelopes:
                yield envelope

    async def trace(
        prompt: str, settings: dict[str, Any] | None = None
    ) -> AsyncGenerator[str, None]:
        try:
            catalog = session.catalog()
            request = controls.read_request(_api_fields(prompt, settings, catalog), catalog)
            async with aclosing(playback.traced(session, request)) as texts:
                async for text in texts:
                    yield text
        except ValueError as error:
            raise gr.Error(html.escape(str(error)), print_exception=False) from error

    for endpoint, words in ((run, copy.RUN_API), (trace, copy.TRACE_API)):
        gr.api(
            endpoint,
            api_name=endpoint.__name__,
            api_description=words,
            concurrency_limit=MAX_VISITORS,
        )


def _api_fields(prompt: object, settings: object, catalog: Catalog) -> dict[str, object]:
    """Settings left out are the page's own: every lane, on the first target."""
    more = {} if settings is None else settings
    if not isinstance(more, dict):
        more = {"settings": more}  # refused with the list of what can be set
    return {"lanes": [d.name for d in catalog.drafters], **more, "prompt": prompt}


def _method_words(info: DrafterInfo) -> str:
    return f"**{info.title}**: {info.summary} *{info.paper}*"


async def _envelopes(
    session: Session, fields: dict[str, object], run: str
) -> AsyncGenerator[str, None]:
    try:
        request = controls.read_request(fields, session.catalog())
    except ValueError as error:
        yield playback.refusal(run, str(error))
        return
    async with aclosing(playback.live(session, request, run)) as envelopes:
        async for envelope in envelopes:
            yield envelope
