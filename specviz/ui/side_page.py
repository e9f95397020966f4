"""A page beside the one with the stage: its head, its words, and results that are told again.

What a page shows is made in two steps, so that a change of language asks for no new computation:
`compute` finds a result from what the visitor chose, `paint` puts it into words and pictures. The
contents of a page are no business of this file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import gradio as gr

from specviz.ui.page import hidden_script
from specviz.ui.speaker import Speaker
from specviz.words import ASSETS, LANGUAGES, Language, Told, script, tell, word

SCRIPTS = ("page_runs.js", "page_head.js", "page_share.js", "side.js")
RESULT_SECONDS = 3600  # a visitor's result is kept so long, to be told again
SAVE = "(file) => specviz.save(file)"
Compute: TypeAlias = Callable[
    ..., Iterable[Any]
]  # values of the inputs -> results, the last one stays
Paint: TypeAlias = Callable[[Language, Any], Sequence[Any]]  # -> an update for each output


@dataclass(frozen=True, slots=True)
class _Shown:
    """One place of the page that shows a result."""

    compute: Compute
    inputs: list[Any]
    outputs: list[Any]  # the last one takes what went wrong
    paint: Paint
    result: Any  # gr.State; unused where `is_quick`
    is_quick: bool
    clears: bool  # a refusal takes the result before it away

    def tell(self, language: Language, result: Any) -> list[Any]:
        if isinstance(result, Told):
            said = gr.update(value=tell(result.message, language), visible=True)
            before = gr.update(visible=False) if self.clears else gr.skip()
            return [*(before for _ in self.outputs[:-1]), said]
        painted = self.paint(language, result)
        if self.clears:  # a chart keeps its picture when it is told to show none
            painted = [gr.update(value=value, visible=True) for value in painted]
        return [*painted, gr.update(value="", visible=False)]

    def found(self, values: Sequence[Any]) -> Iterable[Any]:
        try:
            yield from self.compute(*values)
        except Told as told:  # what was asked for cannot be had: a sentence says why
            yield told


class SidePage:
    """Collects what stands on one page. `finish` connects it, when all of it stands."""

    def __init__(self, name: str) -> None:
        self.speaker = Speaker()
        self._language = gr.State("en")
        self._shown: list[_Shown] = []
        self._trouble_here: Any = None  # where the next `show` tells what goes wrong
        self._head = gr.HTML(
            html_template="<div class='specviz-head'></div>",
            js_on_load=_script(name),
            apply_default_css=False,
            elem_id="specviz-head",
        )

    def text(self, key: str, **more: Any) -> Any:
        """Markdown of a sentence of the tables."""
        return self.speaker.make(
            gr.Markdown, lambda language: {"value": word(key, language)}, **more
        )

    def button(self, key: str, **more: Any) -> Any:
        return self.speaker.make(gr.Button, lambda language: {"value": word(key, language)}, **more)

    def fold(self, key: str) -> Any:
        """A closed accordion with the label `key`, to be used with `with`."""
        spoken = lambda language: {"label": word(key, language)}  # noqa: E731
        return self.speaker.make(gr.Accordion, spoken, open=False)

    def trouble_here(self) -> None:
        """Tell here what goes wrong in the next `show`, at the control that asks; the result before
        goes then."""
        self._trouble_here = _trouble()

    def show(
        self,
        triggers: Sequence[Any],
        compute: Compute,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        paint: Paint,
        *,
        is_quick: bool = False,
    ) -> None:
        """Show in `outputs` what `compute` finds from the `inputs` when one of `triggers` happens.

        is_quick: found anew when the page opens and when its language changes, and never kept.
        A `Refusal` of `compute` is told in a line of its own below them, or at `trouble_here`.
        """
        # What shows by itself was asked by no control.
        here = self._trouble_here if triggers else None
        if here is not None:
            self._trouble_here = None
        trouble = _trouble() if here is None else here
        result = gr.State(None, time_to_live=RESULT_SECONDS)
        place = _Shown(
            compute, [*inputs], [*outputs, trouble], paint, result, is_quick, here is not None
        )
        self._shown.append(place)
        if not triggers:  # shown when the page opens, and never again
            return

        def on_trigger(language: Language, *values: Any) -> Iterable[list[Any]]:
            for found in place.found(values):
                yield [None if is_quick else found, *place.tell(language, found)]

        gr.on(
            list(triggers),
            on_trigger,
            inputs=[self._language, *inputs],
            outputs=[result, *place.outputs],
            show_progress="hidden" if is_quick else "minimal",
            trigger_mode="always_last" if is_quick else "once",
            api_visibility="private",
        )

    def save(
        self, button: Any, make: Callable[..., tuple[str, str, str] | None], *inputs: Any
    ) -> None:
        """A file for the visitor: `make(language, *values)` gives (name, type, text)."""
        held = gr.Textbox(visible=False)

        def on_click(language: Language, *values: Any) -> str:
            made = make(language, *values)
            return json.dumps(made) if made else ""

        button.click(
            on_click,
            inputs=[self._language, *inputs],
            outputs=held,
            show_progress="hidden",
            api_visibility="private",
        ).then(None, inputs=held, js=SAVE, api_visibility="private")

    def linked(
        self, name: str, make: Callable[[str], Sequence[Any]], outputs: Sequence[Any]
    ) -> None:
        """Fill `outputs` with `make(text)` where the page is opened by an address with `?name=text`.
        A `Refusal` of `make` is told in a line of its own."""
        trouble = _trouble()

        def on_adopt(event: gr.EventData) -> list[Any]:
            told = event._data if isinstance(event._data, dict) else {}
            asked = told.get("asked")
            text = asked.get(name) if isinstance(asked, dict) else None
            if not isinstance(text, str):
                return [gr.skip() for _ in (*outputs, trouble)]
            try:
                return [*make(text), gr.update(visible=False)]
            except Told as why:
                said = tell(why.message, _language(told.get("language")))
                return [*(gr.skip() for _ in outputs), gr.update(value=said, visible=True)]

        self._head.adopt(
            on_adopt,
            outputs=[*outputs, trouble],
            show_progress="hidden",
            queue=False,
            api_visibility="private",
        )

    def kept(self) -> Any:
        """The state that holds the result of the last `show`, for `save`."""
        return self._shown[-1].result

    def finish(self) -> None:
        """Let the page follow the language."""
        inputs = [c for shown in self._shown for c in (shown.result, *shown.inputs)]
        outputs = [c for shown in self._shown for c in shown.outputs]

        def on_adopt(event: gr.EventData, *values: Any) -> list[Any]:
            wanted = event._data if isinstance(event._data, dict) else {}
            language = _language(wanted.get("language"))
            told, rest = [], list(values)
            for shown in self._shown:
                held, *chosen = rest[: 1 + len(shown.inputs)]
                rest = rest[1 + len(shown.inputs) :]
                told += _told_again(shown, language, held, chosen)
            return [language, *self.speaker.updates(language, {}), *told]

        self._head.adopt(
            on_adopt,
            inputs=inputs,
            outputs=[self._language, *self.speaker.components(), *outputs],
            show_progress="hidden",
            queue=False,
            api_visibility="private",
        )


def _told_again(shown: _Shown, language: Language, held: Any, chosen: list[Any]) -> list[Any]:
    results = [*shown.found(chosen)] if shown.is_quick else [held]
    if results[-1] is None:
        return [gr.skip() for _ in shown.outputs]
    return shown.tell(language, results[-1])


def _trouble() -> Any:
    return gr.Markdown(visible=False, elem_classes="specviz-trouble")


def _language(value: object) -> Language:
    return next((language for language in LANGUAGES if language == value), "en")


def _script(name: str) -> str:
    given = json.dumps({"page": name, "words": script()})
    code = [(ASSETS / file).read_text("utf-8") for file in SCRIPTS]
    return hidden_script([*code, f"startSide({{ element, adopt }}, {given});"])
