"""The page that measures: lanes alone, prompt by prompt, by the code of `bench run`; and that
compares two saved reports. What it shows of a report is made in `benchmark_tables`."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr

from specviz.bench.compare import Comparison, read_report
from specviz.bench.prompts import OWN_PROMPTS, balanced, read_prompts
from specviz.bench.run import PLAIN, WARM_UP_PROMPT, WARM_UP_TOKENS, Plan, planned_lanes
from specviz.bench.sitting import MakePeers, kept_folder, peers_in_turn
from specviz.config import PLAIN_DRAFTER, Catalog, LaneSpec, Request, shown
from specviz.session import LiveSession, Session
from specviz.ui.bench_runs import Benches, Seen
from specviz.ui.benchmark_tables import comparison_html, progress_html, report_html
from specviz.ui.controls import drafter_title
from specviz.ui.offers import first_lanes
from specviz.ui.reading import has_chat_template
from specviz.ui.side_page import SidePage
from specviz.ui.speaker import labelled
from specviz.words import Language, Message, Refusal, message, said, word

MOST_PROMPTS = 28  # four of each kind: a page is for small sets, the command for whole ones
MOST_TOKENS = 128
FORMS = {"markdown": "text/markdown", "csv": "text/csv", "document": "application/json"}
NAMES = {"markdown": "benchmark.md", "csv": "benchmark.csv", "document": "benchmark.json"}


def benchmark_page(session: Session, page: SidePage) -> None:
    """Fill `page`. A page without a model only compares."""
    catalog = session.catalog()
    if catalog.targets:
        _measuring(session, catalog, page)
    else:
        page.text("bench.no_model")
    with page.fold("bench.compare"):
        _comparing(page)
    with page.fold("bench.from_a_terminal"):
        page.text("nav.benchmark.command")


def _measuring(session: Session, catalog: Catalog, page: SidePage) -> None:
    visitor = gr.BrowserState("", storage_key="specviz.benchmark", secret="specviz")
    gr.on(None, _named, inputs=visitor, outputs=visitor, show_progress="hidden", api_visibility="private")  # fmt: skip
    choice = _controls(session, catalog, page)
    with gr.Row(elem_classes="specviz-buttons"):
        start = page.button("bench.start", variant="primary", elem_id="specviz-bench-start")
        stop = page.button("bench.stop", variant="stop", elem_id="specviz-bench-stop")
    progress = gr.HTML(elem_id="specviz-bench-progress", apply_default_css=False)
    tables = gr.HTML(elem_id="specviz-bench-report", apply_default_css=False)
    benches = Benches(kept_folder)
    page.show(
        [start.click],
        partial(_measured, session, catalog, benches),
        [visitor, *choice],
        [progress, tables],
        lambda language, seen: [progress_html(seen, language), report_html(seen.report, language)],
    )
    stop.click(
        lambda held: benches.stop(str(held)),
        inputs=visitor,
        show_progress="hidden",
        queue=False,
        api_visibility="private",
    )
    with gr.Row(elem_classes="specviz-buttons"):
        for form in FORMS:
            saved = page.button(f"bench.save.{form}", size="sm", elem_id=f"specviz-bench-{form}")
            page.save(saved, partial(_file, form), page.kept())


def _controls(session: Session, catalog: Catalog, page: SidePage) -> list[Any]:
    """Whether to begin anew; then what `_plan` takes, in its order."""
    make = page.speaker.make

    def lanes_spoken(language: Language) -> dict[str, Any]:
        offered = [d for d in catalog.drafters if d.name != PLAIN_DRAFTER]
        titles = [(drafter_title(d)(language), d.name) for d in offered]
        return {"label": word("bench.lanes", language), "choices": titles, "info": word("bench.lanes.help", language)}  # fmt: skip

    kinds = list(dict.fromkeys(p.category for p in read_prompts(OWN_PROMPTS)))
    choices = [(f"bench.kind.{kind}", kind) for kind in kinds]
    with gr.Row():
        target = make(
            gr.Dropdown,
            labelled("page.target"),
            choices=[(t.title, t.name) for t in catalog.targets],
            value=catalog.targets[0].name,
            scale=1,
            min_width=240,
        )
        picked = [name for name in first_lanes(catalog) if name != PLAIN_DRAFTER]
        lanes = make(gr.CheckboxGroup, lanes_spoken, value=picked, scale=3, min_width=300)
    kind = make(gr.CheckboxGroup, labelled("bench.kinds", choices=choices), value=kinds)
    with gr.Row():
        count = make(
            gr.Slider,
            labelled("bench.count"),
            minimum=1,
            maximum=MOST_PROMPTS,
            step=1,
            value=len(kinds),
            min_width=240,
        )
        budget = make(
            gr.Slider,
            labelled("bench.budget"),
            minimum=8,
            maximum=MOST_TOKENS,
            step=8,
            value=48,
            min_width=240,
        )
        peers = make(
            gr.Checkbox,
            labelled("bench.peers"),
            value=False,
            visible=isinstance(session, LiveSession),
            elem_id="specviz-bench-peers",
        )
    is_anew = make(gr.Checkbox, labelled("bench.anew"), value=False)
    return [is_anew, target, kind, count, lanes, budget, peers]


def _named(visitor: object) -> str:
    """Under which a visitor's measurements are found again, from this browser alone."""
    return str(visitor) if visitor else secrets.token_hex(16)


def _measured(
    session: Session, catalog: Catalog, benches: Benches, visitor: object, is_anew: object, *choice: Any
) -> Iterator[Seen]:  # fmt: skip
    try:
        plan = _plan(catalog, _Choice(*choice))
    except Refusal:
        raise
    except ValueError as error:
        raise Refusal(said(error)) from error
    yield from benches.measured(
        str(visitor)[:64], session, plan, _peers(session, plan), is_anew=bool(is_anew)
    )


@dataclass(frozen=True, slots=True)
class _Choice:
    """What the controls hold, in their order. Unchecked."""

    target: str
    kinds: Sequence[str]
    count: float
    lanes: Sequence[str]
    budget: float
    is_with_peers: bool


def _plan(catalog: Catalog, choice: _Choice) -> Plan:
    """Refusal, ValueError: what cannot be measured as chosen."""
    prompts = [p for p in read_prompts(OWN_PROMPTS) if p.category in choice.kinds]
    if not prompts:
        raise Refusal(message("bench.no_kind"))
    _check_count(message("bench.count"), choice.count, MOST_PROMPTS)
    _check_count(message("bench.budget"), choice.budget, MOST_TOKENS)
    request = Request(
        prompt=WARM_UP_PROMPT,
        lanes=(PLAIN,),
        target=choice.target,
        is_chat=has_chat_template(catalog, choice.target),
        max_new_tokens=int(choice.budget),
    )
    return Plan(
        request=request,
        lanes=planned_lanes([LaneSpec(name) for name in choice.lanes], request, catalog),
        is_every_drafter=False,
        prompts=balanced(prompts, int(choice.count)),
        is_with_peers=bool(choice.is_with_peers),
    )


def _check_count(name: Message, value: float, most: int) -> None:
    if not 1 <= value <= most:
        raise Refusal(message("bench.wrong_count", name=name, most=most, value=shown(value)))


def _peers(session: Session, plan: Plan) -> MakePeers | None:
    if not plan.is_with_peers or not isinstance(session, LiveSession):
        return None
    num_tokens = min(WARM_UP_TOKENS, plan.request.max_new_tokens)
    return peers_in_turn(session, plan.request.target, num_tokens, lambda _: None)


def _file(form: str, language: Language, seen: Seen | None) -> tuple[str, str, str] | None:
    del language  # a report is the same in every language
    text = getattr(seen.report, form) if isinstance(seen, Seen) else ""
    return (NAMES[form], FORMS[form], text) if text else None


def _comparing(page: SidePage) -> None:
    page.text("bench.compare.help")
    make = page.speaker.make
    with gr.Row():
        files = [
            make(gr.File, labelled(key), file_types=[".json"], height=120)
            for key in ("bench.report_a", "bench.report_b")
        ]
    compare = page.button("bench.compare_now", elem_id="specviz-bench-compare")
    table = gr.HTML(elem_id="specviz-bench-comparison", apply_default_css=False)
    page.show(
        [compare.click],
        _compared,
        files,
        [table],
        lambda language, found: [comparison_html(found, language)],
    )


def _compared(a: object, b: object) -> Iterator[Comparison]:
    if not isinstance(a, str) or not isinstance(b, str):
        raise Refusal(message("bench.two_reports"))
    try:
        yield Comparison(read_report(Path(a)), read_report(Path(b)))
    except (ValueError, OSError) as error:
        raise Refusal(said(error)) from error
