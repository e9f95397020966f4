"""Chapters and method panel: what they say, and that a chapter ends when its thing was done.

The browser's part has stage and panel alone, without a server, on the hand-made run of four lanes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from specviz.config import Catalog
from specviz.drafters import DRAFTERS, drafter_info
from specviz.train.recipes import RECIPES
from specviz.ui.learn import SCRIPTS, learn_code, learn_style, method_facts
from specviz.ui.playback import Recordings
from specviz.words import ASSETS, LANGUAGES, Language, table, word
from tests import races, recorded
from tests.ui.stage_harness import ITEMS, ROUNDS, envelope, settle, source, styles

CHAPTERS = ("plain", "draft", "pass", "accept", "tree", "cost", "compare")
FACTS = method_facts(Catalog((), tuple(map(drafter_info, DRAFTERS))))
MOST = {"en": 60, "zh": 120}  # words; Chinese characters, a Latin word or number counting as one
PAGE = """<!doctype html><meta charset="utf-8"><style>#host {{ {css} }}</style><body><div id="host">
<div class="specviz-offers svl"></div><div class="specviz-desk"><div class="specviz-learn svl"></div><div class="specviz-stage"></div>
</div></div>"""
# On a phone: the tokens a chapter asks about, below its card and on the screen.
TOKENS_ARE_SEEN = """() => {
  const top = document.querySelector(".svl").getBoundingClientRect().bottom;
  const nodes = [...document.querySelectorAll("[data-spot=true] .sv-node[data-row]")].filter((n) => n.checkVisibility());
  const boxes = nodes.map((n) => n.getBoundingClientRect());
  return boxes.length > 2 && boxes.every((box) => box.top >= top && box.bottom <= innerHeight);
}"""
MOUNT = """([code, runs, methods]) => {
  const made = new Function(code + "; return { SpecVizWords, SpecVizStage, SpecVizLearn };")();
  Object.assign(globalThis, { opened: [], stage: made.SpecVizStage.mount(document.querySelector(".specviz-stage")) });
  const open = (name) => {
    opened.push(name);
    stage.receive(runs[name].replace('"RUN"', '"run' + opened.length + '"'));
  };
  made.SpecVizLearn.mount(document.querySelector(".specviz-learn"), { offers: document.querySelector(".specviz-offers"), stage, open, methods,
    memory: localStorage, recorded: Object.keys(runs), isBack: false, isBusy: () => false,
    load: async (name) => runs[name] });
  open(Object.keys(runs)[0]);
}"""
DEMO = envelope(ITEMS, run="RUN")


def told(name: str, language: Language) -> str:
    keys = [f"learn.{name}.{part}" for part in ("text", "ask", "do")]
    return " ".join(table(language)[key] for key in keys if key in table(language))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_is_short(name: str, language: Language) -> None:
    pattern = r"\S+" if language == "en" else r"[\u4e00-\u9fff]|[A-Za-z0-9./{}]+"
    assert 20 < len(re.findall(pattern, told(name, language))) <= MOST[language]


def test_every_registered_drafter_has_its_panel_and_no_other_has() -> None:
    facts = {"idea", "training", "exact", "cost", "when"}
    code = (ASSETS / "learn_code.js").read_text("utf-8")
    boxes = (ASSETS / "learn_drawing.js").read_text("utf-8").split("const BOXES")[1].split("};")[0]
    drawn = re.findall(r"^    (\w+): ", boxes, re.MULTILINE)
    coded = re.findall(r"^    (\w+): \[$", code, re.MULTILINE)
    said = {k.split(".")[1] for k in table("en") if re.fullmatch(r"method\.(?!fact\.)\w+\.idea", k)}
    assert set(drawn) == set(coded) == said == set(DRAFTERS) == set(FACTS)
    assert all(f"method.{name}.{fact}" in table("zh") for name in DRAFTERS for fact in facts)


def test_a_panel_names_the_training_that_its_drafter_has() -> None:
    code = (ASSETS / "learn_code.js").read_text("utf-8").split("const RECIPES = {")[1]
    named = dict(re.findall(r'(\w+): "(\w+)"', code.split("}")[0]))
    assert named == {drafter: m for m, recipe in RECIPES.items() for drafter in recipe.drafters}


def test_scripts_and_style_can_stand_where_they_stand() -> None:
    code, css = learn_code(), learn_style()
    for forbidden in ("Math.random", "fetch(", "innerHTML", "eval(", "import ", "http"):
        assert forbidden not in code
    for live in ("\\", "`", "${", "{{", "}}", "@keyframes", "@import", "url("):
        assert live not in css
    assert {path.name for path in ASSETS.glob("learn*.js")} == set(SCRIPTS)


@contextmanager
def learning(
    browser: Any, query: str = "", runs: dict[str, str] | None = None, memory: str = ""
) -> Iterator[Any]:
    """Stage and panel at an address; what goes wrong in them raises when they are left."""
    troubles: list[str] = []
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.on("pageerror", lambda error: troubles.append(str(error)))
    body = PAGE.format(css=f"{styles()}\n{learn_style()}")
    page.route("**/*", lambda route: route.fulfill(body=body, content_type="text/html"))
    page.goto(f"http://learn.test/{query}")
    if memory:
        page.evaluate("(kept) => localStorage.setItem('specviz.learn', kept)", memory)
    page.evaluate(MOUNT, [f"{source()}\n{learn_code()}", runs or {"demo": DEMO}, FACTS])
    settle(page)
    try:
        yield page
    finally:
        context.close()
    assert not troubles, troubles


def is_done(page: Any) -> bool:
    settle(page)
    return bool(page.get_attribute(".svl-task", "data-done") == "true")


def place(page: Any) -> dict[str, Any]:
    return dict(page.evaluate("stage.place()"))


def here(page: Any) -> dict[str, Any]:
    """The round under the playhead."""
    at = place(page)
    return next(r for r in ROUNDS if (r["lane"], r["round"]) == (at["lane"], at["round"]))


def move(page: Any, name: str) -> None:
    page.click(f".sv-moves [aria-label='{word('stage.move.' + name)}']")
    settle(page)


def pin(page: Any, row: int) -> None:
    page.click(f".sv-lane[data-lead=true] .sv-node[data-row='{row}']")


def onward(page: Any) -> None:
    page.click(".svl-next")
    page.wait_for_timeout(200)
    settle(page)
    assert not is_done(page)


def first_half(page: Any) -> None:
    """Plain decoding, drafting, one pass checks all."""
    move(page, "round_forward")
    move(page, "round_forward")
    assert not is_done(page)
    page.click(".svl-press")  # the same step, from beside the stage
    assert is_done(page)
    onward(page)
    assert place(page)["phase"] == "draft"  # not the round before it, which is decided
    drafted = here(page)["num_drafted"]
    assert drafted > 1
    move(page, "forward")
    pin(page, 1)
    assert is_done(page)
    onward(page)
    asked = here(page)
    assert place(page)["phase"] in ("draft", "verify")
    assert asked["num_accepted"] > 0
    page.click(f".svl-option:text-is('{asked['num_drafted']}')")
    assert page.inner_text(".svl-verdict").startswith(f"You say {asked['num_drafted']}.")
    move(page, "forward")
    assert is_done(page)
    assert "it was 1" in page.inner_text(".svl-verdict")
    assert f"all {len(asked['tree']['text'])} rows" in page.inner_text(".svl-outcome")


def refusal(page: Any) -> None:
    asked = here(page)
    kept = asked["num_accepted"]
    assert 0 < kept < asked["num_drafted"]
    options = page.locator(".svl-option").all_inner_texts()
    assert options == [str(n) for n in range(asked["num_drafted"] + 1)]
    assert page.locator(".svl-option[data-truth=true]").count() == 0
    page.click(f".svl-option:text-is('{kept}')")
    move(page, "forward")
    assert page.inner_text(".svl-option[data-truth=true]").startswith(str(kept))
    assert not is_done(page)
    page.click(".svl-press")
    before = place(page)["round"]
    page.keyboard.press("r")  # a hand on the pointer has the keys too
    settle(page)
    assert place(page)["round"] > before
    for _ in range(40):
        if here(page)["outcome"] == "none":
            break
        move(page, "rejection")
    assert not is_done(page)
    pin(page, -1)
    assert is_done(page)
    assert here(page)["next"]["text"] in page.inner_text(".svl-outcome")


def tree_and_mask(page: Any) -> None:
    tree = here(page)["tree"]
    branches = sum(row not in tree["parent"] for row in range(1, len(tree["parent"])))
    page.click(f".svl-option:text-is('{branches}')")
    deep = next(row for row, depth in enumerate(tree["depth"]) if depth >= 2)
    pin(page, deep)
    assert not is_done(page)  # nothing is decided yet
    pin(page, tree["depth"].index(1))
    move(page, "forward")
    assert "it was 1" in page.inner_text(".svl-verdict")
    assert not is_done(page)
    pin(page, deep)
    assert is_done(page)
    seen, rows = len(tree["sees"][deep]), len(tree["text"])
    assert f"That row sees {seen} of {rows} rows" in page.inner_text(".svl-outcome")
    assert page.locator(".sv-maskpanel[data-spot=true]").count() == 1


def cost_and_comparison(page: Any) -> None:
    lane = place(page)["lane"]
    page.locator(".svl-option").first.click()
    assert not is_done(page)
    move(page, "end")
    assert is_done(page)
    speedup = page.inner_text(".sv-lane[data-lead=true] .sv-figure[data-name=speedup] dd")
    assert page.inner_text(".svl-option[data-truth=true]").startswith(speedup)
    frame = "getComputedStyle(document.querySelector('.sv-figurerow[data-spot=true]')).outlineStyle"
    assert page.evaluate(frame) == "none"  # it cut through the words above and below
    onward(page)
    assert place(page)["lane"] != 0
    page.click(f".sv-racename >> nth={1 if lane != 1 else 2}")
    if not is_done(page):
        page.click(f".sv-racename >> nth={2 if lane != 1 else 1}")
    assert is_done(page)
    assert page.inner_text(".svl-outcome").count("identical to plain") == 2
    assert page.is_disabled(".svl-next")


@pytest.mark.browser
def test_a_visitor_goes_through_all_chapters_by_doing_what_they_ask(chromium: Any) -> None:
    with learning(chromium, "?chapter=1") as page:
        assert page.inner_text(".svl-title") == "1. " + word("learn.plain.title")
        first_half(page)
        onward(page)
        refusal(page)
        onward(page)
        tree_and_mask(page)
        onward(page)
        cost_and_comparison(page)
        assert page.locator(".svl-step[data-done]").count() == len(CHAPTERS)
        assert page.evaluate("opened.length") == 1
        kept = json.loads(page.evaluate("localStorage.getItem('specviz.learn')"))
        assert list(kept["done"]) == list(CHAPTERS)
        page.click(f".svl-head [aria-label='{word('learn.close')}']")
        assert page.inner_text(".svl-offer[data-name=chapters]") == word("learn.open")


@pytest.mark.browser
def test_the_chapter_on_refusals_looks_for_a_run_whose_tokens_were_drawn(chromium: Any) -> None:
    """At temperature 0 there is no p over q to see; without a drawn run a greedy one will do."""
    drawn = json.loads(DEMO)
    for item in drawn["items"]:
        if item["kind"] == "lane":
            assert item["rule"] == "greedy"
            item["rule"] = "rejection"
    runs = {"greedy": DEMO, "drawn": json.dumps(drawn)}
    with learning(chromium, "?chapter=4", runs) as page:
        page.wait_for_function("opened.length == 2")
        assert page.evaluate("opened") == ["greedy", "drawn"]
    with learning(chromium, "?chapter=4", {"greedy": DEMO}) as page:
        page.wait_for_timeout(300)
        assert page.evaluate("opened") == ["greedy"]
        assert page.locator(".svl-option").count() > 1
        page.set_viewport_size({"width": 390, "height": 844})
        page.click(f".svl-moves >> text={word('learn.again')}")
        page.wait_for_function(TOKENS_ARE_SEEN)


@pytest.mark.browser
def test_a_chapter_has_a_link_is_remembered_and_can_be_left(chromium: Any) -> None:
    kept = '{"chapter": 99, "done": {"plain": {"n": 4}, "none": 3}, "guesses": 7}'
    with learning(chromium, "?chapter=3&lang=en", memory=kept) as page:
        assert page.inner_text(".svl-title") == "3. " + word("learn.pass.title")
        assert page.locator(".svl-step[data-done]").count() == 1
        page.click(".svl-steps a >> nth=3")
        settle(page)
        assert page.evaluate("location.search") == "?lang=en&chapter=4"
        page.keyboard.press("Escape")
        page.click(f"[aria-label='{word('learn.close')}']")
        assert page.evaluate("location.search") == "?lang=en"
        assert page.locator("[data-spot]").count() == 0
        offer = word("learn.resume", n=4, total=7)
        assert page.inner_text(".svl-offer[data-name=chapters]") == offer


@pytest.mark.browser
@pytest.mark.parametrize("folder", [recorded.FOLDER, races.FOLDER], ids=["tests", "shipped"])
def test_every_chapter_finds_a_round_in_the_recordings(chromium: Any, folder: Path) -> None:
    """By its rules, in whichever recordings lie there; in those that ship, one of drawn tokens too."""
    runs = Recordings(sorted(folder.glob("*.jsonl.gz")))
    page = chromium.new_page()
    try:
        page.set_content("<p></p>")
        code = f"{source()}\n{learn_code()}; return [SpecVizRun, SpecVizChapters];"
        page.evaluate(
            "(code) => { [globalThis.run, globalThis.learn] = new Function(code)(); }", code
        )
        found: set[tuple[str, bool]] = set()
        for name in runs.files:
            found |= set(map(tuple, page.evaluate(
                "(text) => { const lanes = run.playedLanes(JSON.parse(text).items);"
                " return learn.CHAPTERS.map((one) => [one.name, one.pick({ lanes })])"
                " .filter(([, here]) => here).map(([name, here]) => [name, !here.isSecondBest]); }",
                runs.envelope(name, "r"),
            )))  # fmt: skip
        assert {name for name, _ in found} == set(CHAPTERS)
        if folder == races.FOLDER:
            assert {name for name, is_best in found if is_best} == set(CHAPTERS)
    finally:
        page.close()


@pytest.mark.browser
def test_the_panel_goes_with_the_lane_and_its_code_with_the_round(chromium: Any) -> None:
    with learning(chromium, "?method=draft_model") as page:
        assert page.inner_text(".svm .svl-title") == FACTS["draft_model"]["title"]
        page.evaluate("stage.go({ lane: 1, round: 2, axis: 'time' })")
        settle(page)
        lit = ".svm-code li[data-lit=true]"
        assert "cache.keep" in page.locator(lit).first.inner_text()
        move(page, "forward")
        assert "small" in " ".join(page.locator(lit).all_inner_texts())
        move(page, "forward")
        assert page.locator(lit).all_inner_texts() == ["  p = target([token, *x], cache)"]
        round_ = here(page)
        said = page.get_attribute(".svd", "aria-label")
        assert said == word("method.flow.said", title="Draft model", round=round_["round"],
                            n=round_["num_drafted"], rows=len(round_["tree"]["text"]),
                            kept=round_["num_accepted"])  # fmt: skip
        for name, facts in FACTS.items():
            page.select_option(".svm select", name)
            settle(page)
            text = page.inner_text(".svm")
            assert facts["title"] in text
            assert facts["paper"] in text
            links = page.locator(".svm-fact a").evaluate_all("all => all.map((a) => a.href)")
            numbers = re.findall(r"arXiv:([\d.]+\d)", facts["paper"])
            assert links == [f"https://arxiv.org/abs/{number}" for number in numbers]
            assert 5 < page.locator(".svm-code li").count() <= 12
            assert page.locator(".svm .svd").count() == 1
