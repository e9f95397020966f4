"""What the stage tells at a lane's end: the cost account, what other settings would give, and the
round that is lit in the race."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ui.stage_harness import ENDS, ITEMS, lane, seek, send, settle, stage_page

pytestmark = pytest.mark.browser
JUDGED = ITEMS[-1]["judged"]
LEAD = 1  # whom a first look explains


def widths(page: Any, selector: str) -> list[float]:
    read = "(nodes) => nodes.map((n) => n.getBoundingClientRect().width)"
    return list(page.locator(selector).evaluate_all(read))


def test_the_account_is_a_bar_to_scale_and_comes_with_the_end(chromium: Any) -> None:
    account = JUDGED[str(LEAD)]["account"]
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, ENDS[0])
        box = lane(page, LEAD).locator(".sv-account")
        assert box.is_hidden()
        seek(page, ENDS[-1])
        assert box.is_visible()
        round_ = widths(page, f".sv-lane:nth-child({LEAD + 1}) .sv-accountrow:nth-child(2) b")
        unit = sum(widths(page, f".sv-lane:nth-child({LEAD + 1}) .sv-accountrow:nth-child(1) b"))
        shares = [w / unit for w in round_]
        assert shares == pytest.approx(list(account["parts"].values()), abs=0.02)
        line = box.locator(".sv-breakeven").bounding_box()
        track = box.locator(".sv-accounttrack").nth(1).bounding_box()
        assert line["x"] - track["x"] == pytest.approx(account["rho"] * unit, abs=3)
        box.locator("summary").click()
        assert f"{account['rho_of_medians']:.3f}" in box.inner_text()


@pytest.mark.parametrize(("source", "said"), [("live", "measured"), ("recorded", "recorded")])
def test_every_home_of_numbers_says_where_they_come_from(
    chromium: Any, source: str, said: str
) -> None:
    """Race and cost account said nothing, and the curve's heading called a recording measured."""
    with stage_page(chromium, width=390) as page:
        send(page, ITEMS, source=source)
        seek(page, ENDS[-1])
        for home in (".sv-raceaxis", ".sv-numbers .sv-panelhead", ".sv-account .sv-panelhead"):
            badge = page.locator(f"{home} .sv-badge:visible").first
            assert badge.text_content() == said
            assert badge.get_attribute("title") == "2026-01-02 03:04 UTC · cpu · float32"
        headings = page.locator(".sv-numbers h5:visible").all_text_contents()
        assert "Speed-up over plain so far" in headings


def test_a_what_if_shows_its_estimate_and_asks_for_what_would_measure_it(chromium: Any) -> None:
    found = JUDGED[str(LEAD)]["what_if"]
    with stage_page(chromium, width=390) as page:
        send(page, ITEMS)
        seek(page, ENDS[-1])
        box = page.locator(".sv-whatif")
        says = box.locator(".sv-whatifsays")
        measured = found["measured"]["speedup"]
        assert f"{measured:.2f}x" in says.inner_text()
        first = found["choices"]["length"][0]
        box.locator(".sv-column").first.click()
        assert says.inner_text().startswith("Estimated")
        assert f"{first['speedup']:.2f}x" in says.inner_text()
        assert box.locator(".sv-measure").count() == 0  # nothing runs here
        box.locator("select").select_option("costs")
        sliders = box.locator("input[type=range]")
        sliders.last.evaluate("(n) => { n.value = n.max; n.dispatchEvent(new Event('input')); }")
        i, _ = found["costs"]["now"]
        assert f"{found['costs']['speedup'][i][-1]:.2f}x" in says.inner_text()
        page.evaluate("words.choose('zh')")
        settle(page)
        assert "倍" in says.inner_text()


def test_a_chosen_round_is_lit_in_the_race(chromium: Any) -> None:
    """Pointing at a round's column lit tree, text and table, and left the race as it was."""
    ink = "() => document.querySelector('.sv-racecanvas').toDataURL()"
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, ENDS[-1])
        before = page.evaluate(ink)
        page.locator(".sv-numbers canvas").first.hover(position={"x": 8, "y": 60})
        settle(page)
        assert page.evaluate(ink) != before
        page.mouse.move(0, 0)
        settle(page)
        assert page.evaluate(ink) == before
