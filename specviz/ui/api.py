"""The same runs for programs: through gradio_client, as plain HTTP, and as tools over MCP.

Names and ranges are checked exactly as for the page. What a program reads is English.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import gradio as gr

from specviz.config import Catalog
from specviz.session import Session
from specviz.ui import playback
from specviz.ui.kept import KeptTraces
from specviz.ui.offers import first_lanes
from specviz.ui.open_runs import OpenRuns
from specviz.ui.reading import read_request
from specviz.words import said, tell

SETTINGS = (
    "settings may hold any of: lanes (a list of drafter names, or of objects with drafter and "
    "knobs; the page's first choice by default), knobs (a drafter's name to its settings), target, "
    "is_chat, temperature, top_k, top_p, min_p, repetition_penalty, verification (rejection or "
    "coupled), precision (auto, bfloat16, float32, int8, nf4 or fp4), max_new_tokens, seed, "
    "stop_strings (a list), is_adaptive (true: budgets nobody set follow from this machine)."
)
RUN_WORDS = (
    "Run a prompt by speculative decoding and stream what the page's stage receives: JSON envelopes "
    f"numbered by seq, each with the items that are new; the one with last true ends the run. {SETTINGS} "
    "A value out of range gives one envelope whose failure item says what was expected."
)
TRACE_WORDS = (
    "Run a prompt by speculative decoding and return its whole trace as JSON Lines, the format the "
    f"app records and replays; until it is complete the answer is empty. {SETTINGS}"
)


def add_api(session: Session, concurrency_limit: int) -> None:
    async def run(prompt: str, settings: dict[str, Any] | None = None) -> AsyncGenerator[str, None]:
        fields = api_fields(prompt, settings, session.catalog())
        async with aclosing(envelopes(session, fields, secrets.token_hex(8), say=tell)) as made:
            async for envelope in made:
                yield envelope

    async def trace(
        prompt: str, settings: dict[str, Any] | None = None
    ) -> AsyncGenerator[str, None]:
        try:
            catalog = session.catalog()
            request = read_request(api_fields(prompt, settings, catalog), catalog)
            async with aclosing(playback.traced(session, request)) as texts:
                async for text in texts:
                    yield text
        except ValueError as error:  # a program reads it as it stands: the page never calls this
            raise gr.Error(str(error), print_exception=False) from error

    for endpoint, words in ((run, RUN_WORDS), (trace, TRACE_WORDS)):
        gr.api(
            endpoint,
            api_name=endpoint.__name__,
            api_description=words,
            concurrency_limit=concurrency_limit,
        )


def api_fields(prompt: object, settings: object, catalog: Catalog) -> dict[str, object]:
    """Settings left out are the page's own: its first lanes, on the first target."""
    more = {} if settings is None else settings
    if not isinstance(more, dict):
        more = {"settings": more}  # refused with the list of what can be set
    return {"lanes": first_lanes(catalog), **more, "prompt": prompt}


async def envelopes(
    session: Session,
    fields: dict[str, object],
    run: str,
    kept: KeptTraces | None = None,
    open_runs: OpenRuns | None = None,
    say: playback.Say = playback.as_it_is,
) -> AsyncGenerator[str, None]:
    """A run's envelopes, or the one that says why there is no run."""
    try:
        request = read_request(fields, session.catalog())
    except ValueError as error:
        yield playback.refusal(run, say(said(error)))
        return
    async with aclosing(playback.live(session, request, run, kept, open_runs, say)) as made:
        async for envelope in made:
            yield envelope
