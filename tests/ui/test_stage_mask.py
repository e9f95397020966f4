"""The mask of the stage: pointing at its cells, and going through them by keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.ui.stage_harness import ITEMS, lane, round_of, seek, send, settle, stage_page

pytestmark = pytest.mark.browser


@pytest.fixture
def stage(chromium: Any) -> Iterator[Any]:
    with stage_page(chromium) as page:
        send(page, ITEMS)
        seek(page, 0)
        yield page


def test_arrow_keys_walk_the_mask_and_enter_keeps_a_cell(stage: Any) -> None:
    seek(stage, round_of(2, 1)["at"][3])
    lane(stage, 2).locator(".sv-explain").click()
    stage.locator(".sv-mask").focus()
    text = round_of(2, 1)["tree"]["text"]
    for key in ("ArrowDown",) * 9 + ("ArrowRight",) * 8:
        stage.keyboard.press(key)  # the first lands on row 0
    settle(stage)
    said = f"Row 8 “{text[8]}” may read row 7 “{text[7]}”."
    assert stage.locator(".sv-maskwords").text_content() == said
    assert stage.locator(".sv-spoken").text_content() == said
    stage.keyboard.press("Enter")
    stage.locator(".sv").focus()
    settle(stage)
    tree = lane(stage, 2).locator(".sv-tree")
    assert tree.locator('[data-lit="self"]').get_attribute("data-row") == "8"
    assert tree.locator('[data-row="7"]').get_attribute("data-lit") == "above"


def test_tokens_of_the_unfolded_prefix_are_told_by_keys_and_by_pointing(stage: Any) -> None:
    seek(stage, round_of(2, 1)["at"][3])
    lane(stage, 2).locator(".sv-explain").click()
    stage.locator(".sv-maskpanel input").check()
    settle(stage)
    text, words = round_of(2, 1)["tree"]["text"], stage.locator(".sv-maskwords")
    stage.locator(".sv-mask").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowLeft"):
        stage.keyboard.press(key)
    settle(stage)
    prefix, prompt = round_of(2, 1)["prefix"], ITEMS[0]["prompt_tokens"]
    last = round_of(2, 0)["new"]["text"][prefix - 1 - len(prompt)]
    assert words.text_content() == (
        f"Row 1 “{text[1]}” reads “{last}”, position {prefix - 1} of the prefix, as every row does."
    )
    stage.locator(".sv-mask").hover(position={"x": 84 + 4 * 2 + 1, "y": 34 + 3})
    settle(stage)
    assert words.text_content() == (
        f"Row 0 “{text[0]}” reads “{prompt[2]}”, position 2 of the prefix, as every row does."
    )


def test_pointing_at_a_cell_of_the_mask_lights_both_its_nodes(stage: Any) -> None:
    seek(stage, round_of(2, 1)["at"][3])
    lane(stage, 2).locator(".sv-explain").click()
    settle(stage)
    at = stage.evaluate(
        """() => {
          const box = document.querySelector(".sv-mask").getBoundingClientRect();
          return [box.width, box.height];
        }"""
    )
    cell = (at[1] - 38) / 13  # 13 rows, a head of 34 px and 4 px below
    left = at[0] - 6 - 13 * cell
    position = {"x": left + 7.4 * cell, "y": 34 + 8.4 * cell}
    stage.locator(".sv-mask").hover(position=position)
    settle(stage)
    tree = lane(stage, 2).locator(".sv-tree")
    assert tree.locator('[data-lit="self"]').get_attribute("data-row") == "8"
    text = round_of(2, 1)["tree"]["text"]
    assert stage.locator(".sv-maskwords").text_content() == (
        f"Row 8 “{text[8]}” may read row 7 “{text[7]}”."
    )
    assert tree.locator('[data-row="7"]').get_attribute("data-lit") == "above"
