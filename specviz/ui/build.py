"""The page: controls around one stage, and the wires between them and a session; beside it `pages`.

The stage is a constant element painted by `assets/stage.js`; token text reaches it as JSON
and is never part of a template, because Gradio evaluates templates as code.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

import gradio as gr

from specviz.config import Catalog
from specviz.served import ServedSession
from specviz.session import Session
from specviz.ui import api, controls
from specviz.ui.kept import KeptTraces
from specviz.ui.lanes import with_baselines
from specviz.ui.open_runs import OpenRuns
from specviz.ui.page import page_settings, stage_html
from specviz.ui.pages import add_pages
from specviz.ui.playback import Recordings
from specviz.ui.published import published_words
from specviz.ui.reading import has_chat_template, read_request
from specviz.ui.speaker import Speaker
from specviz.ui.warm_up import WarmUp
from specviz.words import ASSETS, LANGUAGES, Language, word

# Visitors wait in the session's own line, which tells each one the place. These two bound only
# how many are let into it at once, and how many more may stand outside.
MAX_VISITORS = 64
MAX_OUTSIDE = 64
SYSTEM_FONTS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif")
MONO_FONTS = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace")
STYLES = ("page.css", "side.css", "bench.css")
BEGIN = "(...values) => specviz.begin(values)"


def build_ui(
    session: Session,
    recorded: Recordings | None = None,
    warm_up: WarmUp | None = None,
    served: ServedSession | None = None,
) -> Any:
    """The page as gr.Blocks. Without targets in the catalogue it is a player of `recorded`."""
    recorded, catalog, speaker = recorded or Recordings(()), session.catalog(), Speaker()
    kept, open_runs, form, buttons = KeptTraces(), OpenRuns(), None, None
    with gr.Blocks(title="SpecViz", fill_width=True) as page:
        _painted("head")
        if catalog.targets:
            with gr.Column(elem_id="specviz-form"):
                form, buttons = _run_controls(catalog, speaker)
        settings = page_settings(catalog, form, recorded, warm_up if catalog.targets else None)
        stage = stage_html(settings, catalog, recorded, warm_up, kept, open_runs)
        if form is not None and buttons is not None:
            _connect(session, form, stage, buttons, kept, open_runs)
            _connect_choices(catalog, form, speaker, stage)
            api.add_api(session, MAX_VISITORS)
    add_pages(page, session, recorded, served)
    return page.queue(max_size=MAX_OUTSIDE, api_open=False)


def launch(page: Any, host: str | None = None, port: int | None = None, **more: Any) -> Any:
    """Serve the page. Host and port default to GRADIO_SERVER_NAME and GRADIO_SERVER_PORT.

    Gradio asks the server it has just started for its start-up events and waits as long as that
    takes, so a machine that cannot reach itself is told of in any case. `_frontend` is the second
    look, for the page within three seconds, which a machine busy loading a model does not keep.
    """
    return page.launch(
        server_name=host,
        server_port=port,
        theme=_theme(),
        css="\n".join((ASSETS / name).read_text("utf-8") for name in STYLES),
        head=_icon(),
        footer_links=[],
        run_history=False,  # it would keep every visitor's prompts in the browser
        ssr_mode=False,
        mcp_server=True,
        _frontend=False,
        **more,
    )


def _icon() -> str:
    """In the page itself, which a path before its address cannot lead astray."""
    drawn = quote((ASSETS / "icon.svg").read_text("utf-8").strip())
    return f'<link rel="icon" href="data:image/svg+xml,{drawn}">'


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


def _run_controls(catalog: Catalog, speaker: Speaker) -> tuple[controls.Controls, tuple[Any, Any]]:
    """The form, and its buttons Run and Stop."""
    make = speaker.make
    with gr.Row(elem_id="specviz-ask", equal_height=True):
        prompt = controls.prompt_box(speaker)
        run = make(
            gr.Button,
            _value("page.run"),
            variant="primary",
            elem_id="specviz-run",
            scale=1,
            min_width=110,
        )
        stop = make(
            gr.Button,
            _value("page.stop"),
            variant="stop",
            elem_id="specviz-stop",
            scale=1,
            min_width=110,
        )
    _painted("told")
    _painted("offers")
    _painted("fold")
    # A fold of our own: Gradio makes what stands in a closed accordion only when it opens, and a
    # recipe could not be shown in what is not there.
    with gr.Column(elem_id="specviz-more"):
        model = controls.model_controls(catalog, speaker)
        _painted("lanes", elem_id="specviz-lanes-more")
        _painted("notes")
        is_chat = catalog.targets[0].has_chat_template
        fields = controls.run_controls(speaker, is_chat)
        with make(gr.Accordion, _label("page.more_settings"), open=False):
            fields |= controls.more_controls(speaker, catalog.precisions)
        with make(gr.Accordion, _label("page.knobs"), open=False):
            knobs = controls.knob_controls(catalog.drafters, speaker)
        if catalog.fits:
            with make(gr.Accordion, _label("models.title"), open=False):
                make(gr.Markdown, published_words(catalog))
        with make(gr.Accordion, _label("page.methods"), open=False):
            make(gr.Markdown, controls.method_words(catalog.drafters))
    return controls.Controls({"prompt": prompt, **model, **fields}, knobs), (run, stop)


def _painted(part: str, elem_id: str = "") -> Any:
    """A constant element that `assets/page_form.js` fills."""
    return gr.HTML(
        html_template=f"<div class='specviz-{part}'></div>",
        apply_default_css=False,
        elem_id=elem_id or f"specviz-{part}",
    )


def _value(key: str) -> Any:
    return lambda language: {"value": word(key, language)}


def _label(key: str) -> Any:
    return lambda language: {"label": word(key, language)}


def _connect(
    session: Session,
    form: controls.Controls,
    stage: Any,
    buttons: tuple[Any, Any],
    kept: KeptTraces,
    open_runs: OpenRuns,
) -> None:
    """Run, Stop and Shift+Enter."""

    async def on_run(*values: object) -> AsyncGenerator[str, None]:
        *chosen, run = values
        fields = with_baselines(form.read(tuple(chosen)), session.catalog())
        made = api.envelopes(session, fields, str(run)[:64], kept, open_runs)
        async with aclosing(made) as envelopes:
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
        trigger_mode="multiple",  # one that was left may still be on its way out
        concurrency_limit=MAX_VISITORS,
        api_visibility="private",
    )
    running.failure(None, js="() => specviz.refused()", api_visibility="private")
    stop_button.click(None, js="() => specviz.stop()", api_visibility="private")
    gr.on(
        [component.change for component in form.components()],
        None,
        inputs=form.components(),
        js="(...values) => specviz.keep(values)",
        api_visibility="private",
    )
    form.fields["prompt"].submit(None, js="() => specviz.submit()", api_visibility="private")


def _connect_choices(
    catalog: Catalog, form: controls.Controls, speaker: Speaker, stage: Any
) -> None:
    """What follows from a choice: another language, a recipe or preset, another target."""

    def on_adopt(event: gr.EventData) -> list[Any]:
        wanted = event._data if isinstance(event._data, dict) else {}
        language = _language(wanted.get("language"))
        recipe = wanted.get("recipe")
        return speaker.updates(language, _values(form, recipe, catalog) if recipe else {})

    def on_target(target: object, lanes: object) -> tuple[Any, Any]:
        is_chat = has_chat_template(catalog, target)
        return gr.update(value=is_chat), controls.able_lanes(lanes, catalog, target)

    fields = form.fields
    stage.adopt(
        on_adopt,
        outputs=speaker.components(),
        show_progress="hidden",
        queue=False,
        api_visibility="private",
    )
    fields["target"].change(
        on_target,
        inputs=[fields["target"], fields["lanes"]],
        outputs=[fields["is_chat"], fields["lanes"]],
        preprocess=False,
        show_progress="hidden",
        queue=False,
        api_visibility="private",
    )
    for name in ("target", "lanes"):
        fields[name].change(
            None,
            inputs=[fields["target"], fields["lanes"]],
            js="(target, lanes) => specviz.chosen(target, lanes)",
            api_visibility="private",
        )


def _values(form: controls.Controls, recipe: object, catalog: Catalog) -> dict[Any, object]:
    """What the controls show for a recipe; nothing for one that cannot be run, which the page was
    told of when it asked."""
    try:
        return form.values_of(read_request(recipe if isinstance(recipe, dict) else {}, catalog))
    except ValueError:
        return {}


def _language(value: object) -> Language:
    return next((language for language in LANGUAGES if language == value), "en")
