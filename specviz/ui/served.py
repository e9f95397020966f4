"""The part of a page that asks the server the app was started with, and shows what can be seen of it.

The address is the owner's alone: visitors who could choose it would send this machine where it has
nothing to look for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

import gradio as gr

from specviz.config import PLAIN_DRAFTER, LaneSpec, Request, shown
from specviz.served import ServedSession
from specviz.served.events import ServedEnd, ServedStart, ServedStep
from specviz.served.report import report
from specviz.trace import Failure
from specviz.ui.offers import DEFAULT_PROMPT
from specviz.ui.side_page import SidePage
from specviz.words import Language, Refusal, Told, message, tell, word

PAINT_SECONDS = 0.25  # the whole answer is sent each time
MOST_TOKENS = 256
FIRST_TOKENS = 96


@dataclass(frozen=True, slots=True)
class Seen:
    start: ServedStart
    steps: tuple[ServedStep, ...] = ()
    end: ServedEnd | None = None


def served_part(page: SidePage, session: ServedSession) -> None:
    """Fill the part of `page` that is open."""
    make = page.speaker.make
    page.text("served.purpose")
    prompt = make(gr.Textbox, _labelled("served.prompt"), value=DEFAULT_PROMPT, lines=2)
    tokens = make(
        gr.Slider,
        _labelled("served.tokens"),
        value=FIRST_TOKENS,
        minimum=1,
        maximum=MOST_TOKENS,
        step=1,
    )
    ask = page.button("served.ask", variant="primary", elem_id="specviz-served-ask")
    page.text("served.answer")
    answer = gr.HighlightedText(show_label=False, show_legend=True, elem_id="specviz-served-answer")
    told = gr.Textbox(show_label=False, interactive=False, lines=4, elem_id="specviz-served-told")
    page.show([ask.click], partial(_seen, session), [prompt, tokens], [answer, told], _painted)


def _labelled(key: str) -> Any:
    return lambda language: {"label": word(key, language)}


def _seen(session: ServedSession, prompt: object, tokens: object) -> Iterator[Seen]:
    """What is known so far, a few times a second. Told: the server cannot be asked, or refuses."""
    if not isinstance(tokens, int) or not 1 <= tokens <= MOST_TOKENS:
        name = message("served.tokens")
        told = {"name": name, "low": 1, "high": MOST_TOKENS, "value": shown(tokens)}
        raise Refusal(message("refusal.whole_number", **told))
    request = Request(str(prompt), (LaneSpec(PLAIN_DRAFTER),), max_new_tokens=tokens)
    start: ServedStart | None = None
    steps, painted = list[ServedStep](), monotonic()
    for event in session.events(request):
        if isinstance(event, Failure):
            raise Told(message("engine.says", reason=event.message))
        if isinstance(event, ServedStart):
            start = event
        elif isinstance(event, ServedStep):
            steps.append(event)
        if start is None:
            continue
        if isinstance(event, ServedEnd):
            yield Seen(start, tuple(steps), event)
        elif monotonic() - painted > PAINT_SECONDS:
            painted = monotonic()
            yield Seen(start, tuple(steps))


def _painted(language: Language, seen: Seen) -> list[Any]:
    """The pieces, each marked with how many tokens it holds; then the report."""
    pieces = [(step.text, str(step.num_tokens or "?")) for step in seen.steps]
    sentences = report(seen.start, seen.steps, seen.end) if seen.end else []
    return [pieces, "\n".join(tell(sentence, language) for sentence in sentences)]
