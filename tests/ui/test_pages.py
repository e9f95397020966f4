"""The pages beside the stage: each at its own address, in both languages, with one way between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from specviz.ui import benchmark
from specviz.ui.pages import PAGES
from specviz.ui.playback import Recordings
from specviz.words import ASSETS, word
from tests.ui.serving import SECONDS, opened, served, wait_for_text
from tests.ui.sessions import SlowSession

pytestmark = pytest.mark.browser
# What Gradio says in the console of a page that is left while an answer is on its way.
LEFT = "AbortError|Connection errored out"
# Words and bar of Plotly's that stand outside their chart, or on it all the time.
MISPLACED = """() => [...document.querySelectorAll("#lab-alpha .js-plotly-plot, #lab-masks .js-plotly-plot")].flatMap((chart) => {
  const all = chart.getBoundingClientRect();
  const isOut = (box) => box.left < all.left - 1 || box.right > all.right + 1 || box.top < all.top - 1;
  const titles = [...chart.querySelectorAll(":is(.xtitle, .ytitle, .x2title)")].filter((t) => isOut(t.getBoundingClientRect()));
  const bars = [...chart.querySelectorAll(".modebar-container")].filter((bar) => bar.checkVisibility());
  return [...titles.map((t) => t.textContent), ...bars.map(() => "bar")];
})"""
MANY_CHARTS = 60 * SECONDS  # a page of Plotly's, drawn by a browser without a GPU


@pytest.fixture
def url(
    session: SlowSession, recorded: Recordings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """With what the page that measures offers of a model on this machine."""
    monkeypatch.setattr(benchmark, "LiveSession", SlowSession)
    with served(session, recorded) as address:
        yield address


def is_whole_on_a_phone(page: Any, part: str) -> bool:
    before = page.viewport_size
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_selector(part)
    is_whole = page.evaluate(
        "(part) => ((n) => n.scrollWidth <= n.clientWidth)(document.querySelector(part))", part
    )
    page.set_viewport_size(before)
    return bool(is_whole)


def test_every_page_is_linked_from_every_page_and_follows_the_language(
    chromium: Any, url: str
) -> None:
    with opened(chromium, url, query="?lang=zh&__theme=dark", expected=LEFT) as page:
        for name in PAGES:
            page.click(f".specviz-nav a:has-text('{word(f'nav.{name}', 'zh')}')")
            page.wait_for_function("(name) => globalThis.specviz?.page === name", arg=name)
            assert page.inner_text(".specviz-nav [aria-current]") == word(f"nav.{name}", "zh")
            assert "__theme=dark" in page.url
            if name == "benchmark":
                assert is_whole_on_a_phone(page, "#specviz-bench-peers label")
            assert page.locator("nav:visible").count() == 1  # ours, and not Gradio's English one
        page.click(".specviz-language")
        page.wait_for_selector(f"h1 + p:has-text('{word(f'nav.{PAGES[-1]}.purpose')}')")
        assert "lang=" not in page.url  # it would bring Chinese back after a reload
        page.click(f".specviz-nav a:has-text('{word('nav.watch')}')")
        page.wait_for_selector(".specviz-stage")


def test_an_embedded_page_has_no_head(chromium: Any, url: str) -> None:
    with opened(chromium, url, query="labs?embed=1") as page:
        page.wait_for_selector("#specviz-labs")
        assert not page.is_visible(".specviz-head")


def test_a_lab_can_be_broken_and_says_so_in_either_language(chromium: Any, url: str) -> None:
    """On a phone, where titles were cut and Plotly's bar lay on the chart."""
    phone = {"width": 390, "height": 844, "touch": True}
    with opened(chromium, url, query="labs?lang=en", **phone) as page:
        page.set_default_timeout(MANY_CHARTS)
        page.wait_for_selector("#lab-masks .js-plotly-plot svg")
        page.wait_for_selector("#lab-alpha .js-plotly-plot .xtitle")
        page.wait_for_function(f"() => !({MISPLACED})().length")
        assert page.locator("#lab-masks .xtitle, #lab-masks .ytitle").count() >= 2
        assert "One pass over 13 rows" in page.inner_text("#lab-masks")
        page.click(f"#lab-masks label:has-text('{word('labs.masks.break.everything')}')")
        page.wait_for_selector("#lab-masks:has-text('Wrong: 13 of 13 rows')")
        page.click(".specviz-language")  # what was found is told again, not computed anew
        page.wait_for_selector("#lab-masks:has-text('13 行中有 13 行')")
        page.click(".specviz-language")
        page.wait_for_selector("#lab-masks:has-text('Wrong: 13 of 13 rows')")
        masks = "#lab-masks .specviz-lab-controls"
        cells = f"{masks} label:has-text('{word('labs.masks.cells')}') input"
        page.fill(cells, "99-3")
        page.wait_for_selector(f"{masks} .specviz-trouble:has-text('got 99-3')")  # at its field
        page.wait_for_function(  # what was found before is not of this input
            "!document.querySelector('#lab-masks').innerText.includes('Wrong: 13 of 13 rows')"
            " && !document.querySelector('#lab-masks .js-plotly-plot')"
        )
        page.fill(cells, "")
        page.wait_for_selector("#lab-masks:has-text('Wrong: 13 of 13 rows')")
        assert page.locator(f"{masks} .specviz-trouble:visible").count() == 0
        exact = "#lab-exact .specviz-lab-controls"
        page.fill(f"{exact} label:has-text('{word('labs.exact.p')}') textarea", "x")
        page.click(f"#lab-exact button:has-text('{word('labs.exact.run')}')")
        page.wait_for_selector(f"{exact} .specviz-trouble:has-text('p needs numbers of 0 or more')")


def test_a_row_of_the_stage_fills_the_lab(chromium: Any, url: str) -> None:
    """As the decision card's button asks for it: its guesses first, and all other tokens as one."""
    row = {"guesses": 1, "tokens": [["␣one", 0.5, 0.25], ["␣a", 0.125, 0.625]]}
    query = f"labs?lang=en&row={quote(json.dumps(row))}#lab-exact"
    with opened(chromium, url, query=query, expected=LEFT) as page:
        page.set_default_timeout(MANY_CHARTS)
        for name, value in (("p", "0.5000 0.1250 0.3750"), ("q", "0.2500 0.6250 0.1250")):
            label = word(f"labs.exact.{name}")
            page.wait_for_function(
                """([label, value]) => [...document.querySelectorAll("#lab-exact label")]
                  .some((l) => l.innerText.includes(label) && l.querySelector("textarea")?.value === value)""",
                arg=[label, value],
            )


def test_an_address_without_a_row_says_so(chromium: Any, url: str) -> None:
    with opened(chromium, url, query="labs?lang=en&row=%5B%5D#lab-exact", expected=LEFT) as page:
        page.wait_for_selector("#lab-exact:has-text('The address names no row of odds.')")


def test_the_calculators_answer_and_correct_a_wrong_guess(chromium: Any, url: str) -> None:
    with opened(chromium, url, query="choose?lang=en", expected=LEFT) as page:
        page.set_default_timeout(MANY_CHARTS)
        page.wait_for_selector("#choose-alpha:has-text('3.36 tokens per pass')")
        page.click(f"#choose-cost label:has-text('{word('choose.cost.draft.large')}')")
        page.wait_for_selector("#choose-cost:has-text('the smallest draft wins')")
        page.click(f"#choose-guide label:has-text('{word('choose.guide.train.nothing')}')")
        page.wait_for_selector("#specviz-advice a[href^='./#run=']")
        page.click("#specviz-advice a")
        page.wait_for_selector("#specviz-run")
        wait_for_text(page, "Recorded")
        assert "Lookahead" in page.inner_text("#specviz-settings")


def test_the_pages_have_the_addresses_that_the_head_links_to() -> None:
    """Names stand in Python, which serves them, and in the script, which links to them."""
    script = (ASSETS / "page_head.js").read_text("utf-8")
    names = ", ".join(f'"{name}"' for name in ("watch", *PAGES))
    assert f"const SPECVIZ_PAGES = [{names}];" in script
