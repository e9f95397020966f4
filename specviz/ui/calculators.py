"""The calculators in words: what alpha and K give, and what is left of it when it is paid for.

Formulas are `specviz.theory`'s. Three common wrong ideas are put right here by what the visitor
does: that a low acceptance rate is bad, that a bigger draft is better, and that tokens per pass are
the speed-up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from specviz.config import Catalog
from specviz.theory import (
    Choice,
    Costs,
    another_row_pays,
    best_length,
    break_even_alpha,
    expected_tokens,
    most_tokens,
    predicted,
)
from specviz.ui import charts
from specviz.ui.lab_parts import Runs, chart, columns, radio, slider
from specviz.ui.side_page import SidePage
from specviz.words import Language, word

ALPHAS = (0.5, 0.7, 0.8, 0.85, 0.9, 0.95)
MAX_LENGTH = 12
# Leviathan et al. 2023, table 2: T5-XXL, English to German, temperature 0, K = 7: (alpha, speed-up)
PUBLISHED_DRAFTS = {"small": (0.75, 3.4), "base": (0.80, 2.8), "large": (0.82, 1.7)}
PUBLISHED_LENGTH = 7


@dataclass(frozen=True, slots=True)
class Prices:
    """What the visitor set of a round."""

    alpha: float
    length: int
    costs: Costs

    @property
    def choice(self) -> Choice:
        return predicted(self.alpha, self.length, self.costs)


def add_alpha(page: SidePage, catalog: Catalog, runs: Runs) -> None:
    """alpha and K: the formula, and what becomes of the acceptance rate meanwhile."""
    del catalog, runs

    def compute(alpha: float, length: float, guess: str | None) -> Iterator[Any]:
        yield float(alpha), int(length), guess

    controls, shown = columns()
    with controls:
        alpha = slider(page, "choose.alpha", 0.0, 1.0, 0.8, 0.01)
        length = slider(page, "labs.k", 1, MAX_LENGTH, 4, 1)
        guess = radio(page, "choose.alpha.guess", "choose.guess.", ("wait", "falls", "rises"))
    with shown:
        outputs = [gr.Markdown(), chart(), gr.Markdown()]
        inputs = [alpha, length, guess]
        page.show([c.change for c in inputs], compute, inputs, outputs, paint_alpha, is_quick=True)


def paint_alpha(language: Language, made: tuple[float, int, str | None]) -> list[Any]:
    alpha, length, guess = made
    tokens = expected_tokens(alpha, length)
    most = most_tokens(alpha)
    said = word(
        "choose.alpha.said",
        language,
        alpha=f"{alpha:.2f}",
        k=length,
        tokens=f"{tokens:.2f}",
        rate=f"{100 * _rate(alpha, length):.0f}",
        most="∞" if most == float("inf") else f"{most:.2f}",
    )
    picture = charts.figure(word("labs.axis.k", language), word("labs.axis.tokens", language))
    lengths = list(range(1, MAX_LENGTH + 1))
    for number, each in enumerate(ALPHAS):
        heights = [expected_tokens(each, k) for k in lengths]
        charts.line(picture, f"α = {each}", lengths, heights, number)
    charts.points(picture, word("choose.yours", language), [(length, tokens)], 4)
    return [said, picture, _low_rate(language, alpha, guess)]


def _rate(alpha: float, length: int) -> float:
    """accepted / drafted, expected."""
    return (expected_tokens(alpha, length) - 1) / length


def _low_rate(language: Language, alpha: float, guess: str | None) -> str:
    """Wrong idea 2, after the visitor has guessed."""
    if guess not in ("falls", "rises"):
        return ""
    key = "choose.guess.right" if guess == "rises" else "choose.guess.wrong"
    told = word(
        "choose.alpha.revealed",
        language,
        alpha=f"{alpha:.2f}",
        low=f"{100 * _rate(alpha, 2):.0f}",
        high=f"{100 * _rate(alpha, 8):.0f}",
        before=f"{expected_tokens(alpha, 2):.2f}",
        after=f"{expected_tokens(alpha, 8):.2f}",
    )
    return f"{word(key, language)} {told}"


def add_cost(page: SidePage, catalog: Catalog, runs: Runs) -> None:
    """tau over rho: the speed-up, and which draft and length to take."""
    del catalog, runs

    def compute(*values: Any) -> Iterator[tuple[Prices, str | None]]:
        alpha, length, step, row, host, guess = values
        reads = ((1, 1.0), (MAX_LENGTH + 1, 1.0 + MAX_LENGTH * float(row)))
        yield Prices(float(alpha), int(length), Costs(float(step), float(host), reads)), guess

    controls, shown = columns()
    with controls:
        inputs = [
            slider(page, "choose.alpha", 0.0, 1.0, 0.8, 0.01),
            slider(page, "labs.k", 1, MAX_LENGTH, 4, 1),
            slider(page, "choose.cost.step", 0.0, 1.0, 0.1, 0.01),
            slider(page, "choose.cost.row", 0.0, 0.5, 0.03, 0.01),
            slider(page, "choose.cost.host", 0.0, 1.0, 0.05, 0.01),
            radio(page, "choose.cost.guess", "choose.cost.draft.", ("wait", *PUBLISHED_DRAFTS)),
        ]
    with shown:
        outputs = [gr.Markdown(), chart(), gr.Markdown()]
        page.show([c.change for c in inputs], compute, inputs, outputs, paint_cost, is_quick=True)


def paint_cost(language: Language, made: tuple[Prices, str | None]) -> list[Any]:
    prices, guess = made
    lengths = list(range(MAX_LENGTH + 1))
    choices = [predicted(prices.alpha, k, prices.costs) for k in lengths]
    picture = charts.figure(word("labs.axis.k", language), word("choose.cost.axis", language))
    tokens = word("labs.axis.tokens", language)
    charts.line(picture, tokens, lengths, [c.tau for c in choices], 1)
    charts.line(
        picture, word("choose.cost.speedup", language), lengths, [c.speedup for c in choices], 0
    )
    charts.line(picture, word("choose.cost.even", language), lengths, [1.0] * len(lengths), 5)
    return [_cost_said(language, prices), picture, _published(language, guess)]


def _cost_said(language: Language, prices: Prices) -> str:
    """Wrong idea 7: many tokens per pass and slower all the same."""
    choice = prices.choice
    best = best_length(prices.alpha, prices.costs, MAX_LENGTH)
    longer = predicted(prices.alpha, prices.length + 1, prices.costs)
    pays = another_row_pays(longer.tau - choice.tau, choice.tau, choice.rho, longer.rho)
    needed = break_even_alpha(choice.rho, prices.length)
    is_slower = choice.speedup < 1
    parts = [
        word(
            "choose.cost.slower" if is_slower else "choose.cost.faster",
            language,
            tau=f"{choice.tau:.2f}",
            rho=f"{choice.rho:.2f}",
            speedup=f"{choice.speedup:.2f}",
        ),
        word("choose.cost.best", language, k=best.num_draft_tokens, speedup=f"{best.speedup:.2f}"),
        word("choose.cost.pays" if pays else "choose.cost.pays_not", language),
    ]
    if needed is None:
        parts.append(word("choose.cost.never", language))
    else:
        parts.append(word("choose.cost.needed", language, alpha=f"{needed:.2f}"))
    return " ".join(parts)


def _published(language: Language, guess: str | None) -> str:
    """Wrong idea 4: the bigger draft is kept more often, and is slower."""
    if guess not in PUBLISHED_DRAFTS:
        return ""
    key = "choose.guess.right" if guess == "small" else "choose.guess.wrong"
    head = [word(f"choose.cost.column.{n}", language) for n in ("draft", "alpha", "tau", "s", "c")]
    rows = []
    for name, (alpha, speedup) in PUBLISHED_DRAFTS.items():
        tau = expected_tokens(alpha, PUBLISHED_LENGTH)
        cost = max(0.0, (tau / speedup - 1) / PUBLISHED_LENGTH)  # theorem 3.8, solved for c
        title = word(f"choose.cost.draft.{name}", language)
        rows.append((title, f"{alpha:.2f}", f"{tau:.2f}", f"{speedup}×", f"{cost:.2f}"))
    table = charts.table(head, rows)
    return f"{word(key, language)} {word('choose.cost.bigger', language)}\n\n{table}"
