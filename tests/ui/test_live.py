"""The whole way: a visitor presses Run and the default model's real rounds reach the stage."""

from __future__ import annotations

from typing import Any

import pytest

from specviz.session import LiveSession
from specviz.ui.warm_up import WarmUp
from tests.ui.serving import SECONDS, opened, served, stage_text, wait_for_text
from tests.ui.test_playback import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.default_model]
RUN, STOP = "#specviz-run", "#specviz-stop"
SETTINGS = "#specviz-settings"
BUDGET = "#specviz-budget input[type=number]"
SLIDER = "#specviz-budget input[type=range]"


def set_budget(page: Any, tokens: str) -> None:
    """Until the slider beside the box follows: controls in a fold that has just opened forget what is
    typed into them before they are all there."""
    page.wait_for_selector(BUDGET, state="visible")
    for _ in range(50):
        page.fill(BUDGET, tokens)
        page.wait_for_timeout(200)
        if page.input_value(SLIDER) == page.input_value(BUDGET) == tokens:
            return
    raise AssertionError(f"the page would not take a budget of {tokens}")


def test_the_default_model_runs_and_stops_on_the_page(chromium: Any) -> None:
    session = LiveSession()
    warm_up = WarmUp(session)
    warm_up.start()
    try:
        assert wait_until(lambda: warm_up.state()["state"] != "loading", seconds=300)
        if warm_up.state()["state"] == "failed":
            pytest.skip(str(warm_up.state()["message"]))
        with served(session, None, warm_up) as url, opened(chromium, url) as page:
            page.click(SETTINGS)
            set_budget(page, "8")
            page.click(RUN)
            wait_for_text(page, "SmolLM2 135M Instruct", seconds=60)
            page.wait_for_selector(RUN, state="visible", timeout=120 * SECONDS)
            wait_for_text(page, "for 8 tokens", seconds=60)
            assert "The run ended with" not in stage_text(page)
            page.click(SETTINGS)  # the run folded them up
            set_budget(page, "2000")
            page.click(RUN)
            page.click(STOP)
            page.wait_for_selector(RUN, state="visible", timeout=1 * SECONDS)
    finally:
        session.close()
