"""Lab 3 in words: draws through the engine's own rule, and through three that are broken."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import gradio as gr

from specviz.labs import draws, exact, recordings
from specviz.labs.draws import Experiment
from specviz.labs.exact import Odds
from specviz.theory import acceptance_probability
from specviz.ui import charts
from specviz.ui.lab_parts import Runs, chart, columns, offer_of, slider
from specviz.ui.side_page import SidePage
from specviz.ui.speaker import labelled
from specviz.words import Language, Refusal, message, word

NUM_DRAWS = 100_000
SEED = 7
P, Q = "0.50 0.20 0.15 0.10 0.05", "0.10 0.35 0.30 0.05 0.20"
MAX_LINK = 4000  # characters of a row in an address
LEAST_SHOWN = 1e-7  # a logarithmic axis has no 0
HEAD = ("rule", "draws", "kl")


def add(page: SidePage, runs: Runs) -> str:
    def compute(*values: Any) -> Iterator[Experiment]:
        yield from draws.experiment(read_odds(*values), NUM_DRAWS, SEED)

    def rows_there_are() -> Iterator[list[tuple[str, str, str]]]:
        yield [
            (run, row.label, json.dumps(asdict(row.odds)))
            for run, events in runs().items()
            for row in recordings.real_rows(events)
        ]

    make = page.speaker.make
    controls, shown = columns()
    with controls:
        rows = offer_of(page, "labs.exact.row", rows_there_are)
        p = make(gr.Textbox, labelled("labs.exact.p"), value=P, max_lines=2)
        q = make(gr.Textbox, labelled("labs.exact.q"), value=Q, max_lines=2)
        siblings = slider(page, "labs.exact.siblings", 1, exact.MAX_SIBLINGS, 2, 1)
        is_sampled = make(gr.Checkbox, labelled("labs.exact.sampled"), value=True)
        labels = gr.State(())
        run = page.button("labs.exact.run", variant="primary")
        page.trouble_here()
        save = page.button("labs.save", size="sm")
    with shown:
        outputs = [gr.Markdown(), chart(), chart(), gr.Markdown()]
        inputs = [p, q, siblings, is_sampled, labels]
        page.show([run.click], compute, inputs, outputs, paint)
    page.save(save, file, page.kept())
    fields = [p, q, siblings, is_sampled, labels]
    page.linked("row", fields_of_link, fields)
    rows.input(
        fields_of,
        inputs=rows,
        outputs=fields,
        preprocess=False,
        show_progress="hidden",
        api_visibility="private",
    )
    return "\n\n".join((exact.code(), draws.code()))


def read_odds(p: str, q: str, num_siblings: float, is_sampled: bool, labels: Any) -> Odds:
    """What was typed. Refusal: it is no pair of distributions."""
    sides = [_numbers(name, text) for name, text in (("p", p), ("q", q))]
    names = tuple(labels) if len(labels or ()) == len(sides[0]) else ()
    letters = tuple(chr(ord("a") + i % 26) for i in range(len(sides[0])))
    return exact.checked(
        Odds(sides[0], sides[1], names or letters, int(num_siblings), bool(is_sampled))
    )


def _numbers(name: str, text: str) -> tuple[float, ...]:
    words = [word for word in re.split(r"[\s,;]+", str(text)[:400].strip()) if word]
    try:
        return tuple(float(word) for word in words)
    except ValueError as error:
        raise Refusal(message("labs.refusal.probs", name=name)) from error


def fields_of(chosen: object) -> list[Any]:
    """What the controls show for a real row, as `rows_there_are` offered it."""
    try:
        return fields_with(Odds(**json.loads(str(chosen))))
    except (ValueError, KeyError, TypeError):
        return [gr.skip()] * 5


def fields_of_link(text: str) -> list[Any]:
    """The same for a row of the stage: `{"guesses": n, "tokens": [[text, p, q or null], ...]}`, the
    guesses first. Refusal: it is no row."""
    try:
        asked = json.loads(text[:MAX_LINK])
        tokens = [
            (str(token), float(p), None if q is None else float(q))
            for token, p, q in asked["tokens"]
        ]
        return fields_with(exact.checked(recordings.odds_of(tokens, int(asked["guesses"]))))
    except (ValueError, KeyError, TypeError, ZeroDivisionError, RecursionError) as error:
        raise Refusal(message("labs.refusal.row")) from error


def fields_with(odds: Odds) -> list[Any]:
    sides = [" ".join(f"{v:.4f}" for v in side) for side in (odds.p, odds.q)]
    return [*sides, odds.num_siblings, odds.is_sampled, odds.labels]


def file(_: Language, made: object) -> tuple[str, str, str] | None:
    if not isinstance(made, Experiment):  # nothing was asked for yet, or it was refused
        return None
    rows = [
        (curve.rule, n, kl)
        for curve in made.curves
        for n, kl in zip(curve.num_draws, curve.divergences, strict=True)
    ]
    return "lab-exact.csv", "text/csv", charts.csv_text(HEAD, rows)


def paint(language: Language, made: Experiment) -> list[Any]:
    num_draws = made.curves[0].num_draws[-1]
    wrong = [c.rule for c in made.curves if not _is_p(made, c)]
    names = word("page.comma", language).join(word(f"labs.rule.{rule}", language) for rule in wrong)
    key = "labs.exact.fail" if wrong else "labs.exact.pass"
    if made.curves[0].rule in wrong:
        key = "labs.exact.unlucky"
    said = word(key, language, draws=f"{num_draws:,}", names=names)
    said = said if made.is_over else f"{word('labs.exact.running', language, draws=num_draws)}"
    if made.odds.is_sampled:
        chance = acceptance_probability(made.odds.p, made.odds.q)
        said += " " + word("labs.exact.kept", language, chance=f"{chance:.2f}")
    return [said, _falling(language, made), _outputs(language, made), _table(language, made)]


def _is_p(made: Experiment, curve: draws.Curve) -> bool:
    return curve.chi_square(made.odds) <= exact.chi_square_limit(made.odds.p)


def _falling(language: Language, made: Experiment) -> Any:
    picture = charts.figure(
        word("labs.exact.axis.draws", language), word("labs.exact.axis.kl", language)
    )
    marks = made.curves[0].num_draws
    wanted = [exact.expected_divergence(made.odds.p, n) for n in marks]
    charts.line(picture, word("labs.exact.direct", language), marks, wanted, 5)
    for number, curve in enumerate(made.curves):
        heights = [max(kl, LEAST_SHOWN) if math.isfinite(kl) else None for kl in curve.divergences]
        name = word(f"labs.rule.{curve.rule}", language)
        charts.line(picture, name, curve.num_draws, heights, number)
    picture.update_xaxes(type="log")
    picture.update_yaxes(type="log", exponentformat="power")
    return picture


def _outputs(language: Language, made: Experiment) -> Any:
    picture = charts.figure(
        word("labs.exact.axis.token", language), word("labs.exact.axis.share", language)
    )
    labels = [f"{i}: {label}" for i, label in enumerate(made.odds.labels)]
    charts.bars(picture, "p", labels, made.odds.p, 5)
    for number, curve in enumerate(made.curves):
        total = sum(curve.counts)
        name = word(f"labs.rule.{curve.rule}", language)
        charts.bars(picture, name, labels, [c / total for c in curve.counts], number)
    return picture


def _table(language: Language, made: Experiment) -> str:
    limit = exact.chi_square_limit(made.odds.p)
    head = [word(f"labs.exact.column.{name}", language) for name in COLUMNS]
    rows = []
    for curve in made.curves:
        ends_at = exact.divergence(tuple(exact.output_of(curve.rule, made.odds)), made.odds.p)
        key = "labs.exact.is_p" if _is_p(made, curve) else "labs.exact.is_not_p"
        rows.append(
            (
                word(f"labs.rule.{curve.rule}", language),
                _short(curve.divergences[-1]),
                _short(ends_at),
                f"{curve.chi_square(made.odds):,.1f}",
                f"{limit:.1f}",
                word(key, language),
            )
        )
    return charts.table(head, rows)


COLUMNS = ("rule", "kl", "ends_at", "chi", "limit", "verdict")


def _short(value: float) -> str:
    return f"{value:.2g}" if value > 1e-12 else "0"
