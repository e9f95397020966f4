"""A few questions that end in a recommendation, its reasons, a link that runs it, and a checklist."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

import gradio as gr

from specviz.config import PLAIN_DRAFTER, Catalog
from specviz.ui.lab_parts import Runs, columns, radio
from specviz.ui.offers import DEFAULT_PROMPT, runnable
from specviz.ui.side_page import SidePage
from specviz.words import Language, word

QUESTIONS = {  # the first answer is the one that stands there at the beginning
    "size": ("large", "small"),
    "work": ("single", "batch", "prefill"),
    "text": ("mixed", "copying"),
    "train": ("published", "train", "scratch", "nothing"),
    "draft": ("none", "matching"),
}
CHECKLIST = (
    "size",
    "bottleneck",
    "batch",
    "alpha",
    "cost",
    "template",
    "exact",
    "measure",
    "rerun",
)


@dataclass(frozen=True, slots=True)
class Advice:
    method: str  # a drafter's name; plain decoding if speculation would not pay
    reasons: tuple[str, ...]  # keys
    answers: tuple[str, ...]
    address: str  # "" if nothing can be run here


def add(page: SidePage, catalog: Catalog, runs: Runs) -> None:
    del runs

    def compute(*answers: str) -> Iterator[Advice]:
        yield advice(answers, catalog)

    controls, shown = columns()
    with controls:
        inputs = [
            radio(page, f"choose.guide.{name}", f"choose.guide.{name}.", answers)
            for name, answers in QUESTIONS.items()
        ]
    with shown:
        outputs = [gr.Markdown(), gr.HTML(elem_id="specviz-advice")]
        page.show([c.change for c in inputs], compute, inputs, outputs, paint, is_quick=True)
        save = page.button("choose.guide.save", size="sm")

    def file(language: Language, *answers: str) -> tuple[str, str, str]:
        text = checklist(language, advice(answers, catalog))
        return "speculative-decoding-checklist.md", "text/markdown", text

    page.save(save, file, *inputs)


def advice(answers: tuple[str, ...], catalog: Catalog) -> Advice:
    """What to take, and why. The first reason that decides ends the questions."""
    method, reasons = recommended(dict(zip(QUESTIONS, answers, strict=True)))
    return Advice(method, reasons, answers, link_to(method, catalog))


def recommended(answers: dict[str, str]) -> tuple[str, tuple[str, ...]]:
    """(drafter, keys of the reasons). What rules speculation out is asked first. Copied drafts
    cost so little that they pay for a small target too."""
    if answers["work"] != "single":
        return PLAIN_DRAFTER, (f"choose.why.{answers['work']}",)
    if answers["text"] == "copying":
        return "prompt_lookup", ("choose.why.copying", "choose.why.no_training")
    if answers["size"] == "small":
        return PLAIN_DRAFTER, ("choose.why.small",)
    if answers["train"] == "scratch":
        return "mtp", ("choose.why.scratch",)
    if answers["draft"] == "matching":
        return "draft_model", ("choose.why.matching", "choose.why.smallest")
    if answers["train"] == "nothing":
        return "lookahead", ("choose.why.no_training", "choose.why.modest")
    return "eagle3", tuple(
        f"choose.why.{reason}" for reason in (answers["train"], "features", "next_best")
    )


def link_to(method: str, catalog: Catalog) -> str:
    """The main page with that method beside plain decoding, as `assets/page_share.js` reads it."""
    if not catalog.targets:
        return ""
    target = catalog.targets[0].name
    if method not in runnable(catalog, target):
        return ""
    lanes = list(dict.fromkeys((PLAIN_DRAFTER, method)))
    state = {"v": 1, "recipe": {"prompt": DEFAULT_PROMPT, "target": target, "lanes": lanes}}
    text = base64.urlsafe_b64encode(json.dumps(state).encode()).decode().rstrip("=")
    return f"./#run={text}"


def paint(language: Language, made: Advice) -> list[Any]:
    title = word(f"drafter.{made.method}.title", language)
    said = [word("choose.guide.take", language, method=title)]
    said += [f"- {word(key, language)}" for key in made.reasons]
    if not made.address:
        return ["\n".join([*said, "", word("choose.guide.not_here", language)]), ""]
    key = "choose.guide.run_plain" if made.method == PLAIN_DRAFTER else "choose.guide.run"
    link = escape(word(key, language, method=title))
    html = f"<a class='specviz-go' href='{escape(made.address)}'>{link}</a>"
    return ["\n".join(said), html]


def checklist(language: Language, made: Advice) -> str:
    """Markdown to take along: the answers, the advice, and what to check before and after."""
    title = word(f"drafter.{made.method}.title", language)
    lines = [f"# {word('choose.check.title', language)}", ""]
    for name, answer in zip(QUESTIONS, made.answers, strict=True):
        question = word(f"choose.guide.{name}", language)
        lines.append(f"- {question} {word(f'choose.guide.{name}.{answer}', language)}")
    lines += ["", word("choose.guide.take", language, method=title), ""]
    lines += [f"- {word(key, language)}" for key in made.reasons]
    lines += ["", f"## {word('choose.check.before', language)}", ""]
    lines += [f"- [ ] {word(f'choose.check.{name}', language)}" for name in CHECKLIST]
    return "\n".join([*lines, ""])
