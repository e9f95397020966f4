"""Links and files: what leaves the page and comes back to it. In Chromium."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from specviz.trace import RunStart
from specviz.trace_io import dump_events, load_events
from specviz.ui import playback
from tests.traces import demo_run
from tests.ui.serving import opened, served, stage_text, wait_for_text
from tests.ui.sessions import SlowSession, hostile_run
from tests.ui.visiting import (
    PROMPT,
    RUN,
    import_file,
    link_of,
    run_to_the_end,
    saved,
    saying,
)

pytestmark = pytest.mark.browser
WHOLE = dump_events([e for e in demo_run() if e.kind not in ("progress", "failure")])
BROKEN = "".join(line[: 40 if i == 2 else None] + "\n" * (i == 2)
                 for i, line in enumerate(WHOLE.splitlines(keepends=True)))  # fmt: skip


def test_a_link_brings_the_recipe_to_another_visitor(
    chromium: Any, page: Any, url: str, session: SlowSession
) -> None:
    """It stands in the address alone, so it survives a restart of the server."""
    page.click("#specviz-settings")
    page.fill("label:has-text('Seed') input", "41")
    page.click("#specviz-lanes label:has-text('Lookahead')")
    run_to_the_end(page, "Why is the sky <b>blue</b>? ☂ \U0001f327")
    page.focus(".specviz-stage [tabindex='0']")
    for key in ("Home", *9 * ["ArrowRight"]):
        page.keyboard.press(key)
    link = link_of(page)
    assert link.startswith(url)
    assert "#run=" in link
    gone = "AbortError|Connection errored out"  # of the page that a second link leaves
    with opened(chromium, url, query=link.removeprefix(url), expected=gone) as other:
        saying(other, "Press Run")
        other.wait_for_function(
            "document.querySelector('#specviz-prompt textarea').value.startsWith('Why')"
        )
        assert len(session.requests) == 1  # nobody runs a model by opening a link
        run_to_the_end(other, other.input_value(PROMPT))
        wait_for_place(other, link)
        follow_in_the_same_tab(other, link)
        saying(
            other, "Press Run"
        )  # the tab's own run was shown instead, or a recorded one at the place
        other.wait_for_selector(".specviz-recorded [aria-pressed=true]")
        assert place_in(link_of(other)) != place_in(link)
        run_to_the_end(other, other.input_value(PROMPT))
        wait_for_place(other, link)
    assert session.requests[1] == session.requests[0] == session.requests[2]
    assert session.requests[1].seed == 41
    assert [lane.drafter for lane in session.requests[1].lanes] == [
        "autoregressive", "draft_model", "prompt_lookup",
    ]  # fmt: skip


def test_a_link_to_a_recorded_run_opens_it(chromium: Any, page: Any, url: str) -> None:
    page.click(".specviz-recorded button:has-text('second')")
    page.wait_for_selector(".specviz-recorded [data-name=second][aria-pressed=true]")
    with opened(chromium, url, query=link_of(page).removeprefix(url)) as other:
        other.wait_for_selector(".specviz-recorded [data-name=second][aria-pressed=true]")


def link_state(**state: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps({"v": 1, **state}).encode()).decode().rstrip("=")


GONE = "there is no recorded run “gone”"
PARTS = f"{GONE}; there is no chapter “99”, only 1 to 7; there is no method “foo”. The rest"
DAMAGED = "could not be read in full: its run and settings are damaged."


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("#run=!!", DAMAGED),
        ("#run=bnVsbA", DAMAGED),
        (f"#run={'A' * 100_000}", DAMAGED),
        (f"?chapter=99&method=foo#run={link_state(recorded='gone')}", PARTS),
    ],
    ids=["letters", "null", "long", "parts"],
)
def test_a_link_that_is_none_is_an_ordinary_visit_that_says_so(
    chromium: Any, url: str, query: str, sentence: str
) -> None:
    with opened(chromium, url, query=query) as page:
        wait_for_text(page, "Recorded")
        saying(page, sentence)
        run_to_the_end(page, "hello")
        assert page.inner_text(".specviz-saying") == ""


def follow_in_the_same_tab(page: Any, link: str) -> None:
    """From another place: an address that is there already leads nowhere."""
    own = link.partition("#")[2]
    page.focus(".specviz-stage [tabindex='0']")
    page.keyboard.press("Home")
    page.wait_for_function("(own) => location.hash.slice(1) !== own", arg=own)
    page.evaluate("(own) => { window.isOld = true; location.hash = own; }", own)
    page.wait_for_function("!window.isOld && globalThis.specviz !== undefined")


def wait_for_place(page: Any, link: str) -> None:
    """Until the stage is where `link` leads."""
    ends = time.monotonic() + 20
    while place_in(link_of(page)) != place_in(link):
        assert time.monotonic() < ends
        page.wait_for_timeout(200)


def place_in(link: str) -> Any:
    text = link.partition("#run=")[2]
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))["place"]


def test_a_recipe_that_cannot_run_is_refused_in_words(chromium: Any, url: str) -> None:
    recipe = {"prompt": "hi", "lanes": ["<img src=x onerror=window.pwned=1>"]}
    with opened(chromium, url, query=f"#run={link_state(recipe=recipe)}") as page:
        saying(page, "cannot be run here. A lane's drafter is one of autoregressive")
        assert page.evaluate("window.pwned") is None
        run_to_the_end(page, "hello")


def test_a_saved_trace_can_be_opened_again(page: Any) -> None:
    run_to_the_end(page, "Round trip")
    name, content = saved(page, "trace")
    assert name == "specviz-run.jsonl"
    events = list(load_events(content.decode()))
    assert isinstance(events[0], RunStart)
    assert events[0].request.prompt == "Round trip"
    assert [e.kind for e in events] == [e.kind for e in demo_run()]
    import_file(page, "mine.jsonl", content)
    wait_for_text(page, "From mine.jsonl, recorded 2026-01-02 on a test bench")
    import_file(page, "packed.jsonl.gz", gzip.compress(content))
    wait_for_text(page, "From packed.jsonl.gz")
    import_file(page, "mine.jsonl", content)  # it stands once, however often it is opened
    chips = page.locator(".specviz-mine .specviz-chip:not(.specviz-pin)")
    page.wait_for_function("document.querySelector('.sv').innerText.includes('From mine.jsonl')")
    assert chips.all_inner_texts() == ["1. Round trip", "2. packed.jsonl.gz", "3. mine.jsonl"]
    chips.nth(1).click()
    wait_for_text(page, "From packed.jsonl.gz, recorded 2026-01-02")
    assert chips.nth(1).get_attribute("aria-pressed") == "true"


def test_an_opened_trace_is_there_after_a_reload_or_says_why_not(page: Any) -> None:
    """Another run appeared in its place, without a word."""
    content = dump_events([e for e in demo_run() if e.kind not in ("progress", "failure")]).encode()
    import_file(page, "mine\u202egnp.jsonl", content)
    wait_for_text(page, "From mine")
    assert "\u202e" not in stage_text(page)
    page.reload()
    page.wait_for_function("globalThis.specviz !== undefined")
    wait_for_text(page, "From mine")
    page.click(".specviz-recorded button >> nth=0")  # another run once lost it for good
    page.click(".specviz-mine .specviz-chip")
    wait_for_text(page, "From mine")
    page.evaluate("sessionStorage.removeItem('specviz.runs')")
    page.reload()
    page.wait_for_function("globalThis.specviz !== undefined")
    saying(page, "was too large to be kept over a reload")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("x.txt", b"hello", "x.txt cannot be shown. This is not a trace"),
        (
            "run.html",
            b"<!doctype html>",
            "line 1 is not JSON. What opens is the trace of a run, saved as",
        ),
        ("broken.jsonl", BROKEN.encode(), "The trace is damaged: its line 3 is not whole."),
        ("empty.jsonl", b"", "the file is empty"),
        ("bad.gz", b"\x1f\x8bnot really", "bad.gz could not be read"),
        ("<img src=x onerror=window.pwned=1>.jsonl", b"{}", "onerror=window.pwned=1>.jsonl cannot"),
        ("schema.jsonl", b'{"kind": "run_start", "schema": 99}', "this version reads schema"),
    ],
    ids=lambda v: str(v)[:12],
)
def test_what_is_no_trace_is_refused_in_words(
    page: Any, name: str, content: bytes, sentence: str
) -> None:
    import_file(page, name, content)
    saying(page, sentence)
    assert "Recorded" in stage_text(page)  # what was there stays
    assert page.evaluate("window.pwned") is None


def test_a_trace_that_is_too_big_is_refused_before_it_is_sent(
    chromium: Any, session: SlowSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(playback, "MAX_IMPORT_CHARACTERS", 1000)
    with served(session) as url, opened(chromium, url) as page:
        import_file(page, "big.jsonl", b" " * 1001)
        saying(page, "big.jsonl is too big")
        import_file(page, "bomb.gz", gzip.compress(b" " * 10_000_000))
        saying(page, "bomb.gz is too big")


def test_hostile_tokens_of_an_imported_trace_never_run(page: Any) -> None:
    events = [e for e in hostile_run() if e.kind not in ("progress", "failure")]
    import_file(page, "evil.jsonl", dump_events(events).encode())  # type: ignore[arg-type]
    wait_for_text(page, "From evil.jsonl")
    page.focus(".specviz-stage [tabindex='0']")
    page.keyboard.press("End")
    wait_for_text(page, "<img")
    assert page.evaluate("window.pwned") is None
    assert page.locator(".specviz-stage img").count() == 0


def test_the_replay_page_plays_from_disk_with_no_network(
    chromium: Any, session: SlowSession, tmp_path: Path
) -> None:
    session.is_hostile = True
    with served(session) as url, opened(chromium, url) as page:
        page.fill(PROMPT, "</script><script>window.pwned=1</script>")
        page.click(RUN)
        page.wait_for_selector(RUN, state="visible")
        name, content = saved(page, "html")
    path = tmp_path / name
    path.write_bytes(content)
    troubles: list[str] = []
    context = chromium.new_context(offline=True)
    replay = context.new_page()
    replay.on("pageerror", lambda error: troubles.append(str(error)))
    replay.on(
        "request", lambda r: troubles.append(r.url) if not r.url.startswith("file:") else None
    )
    replay.goto(path.as_uri())
    wait_for_text(replay, "Saved run of")
    replay.focus(".specviz-stage [tabindex='0']")
    replay.keyboard.press("End")
    wait_for_text(replay, "<img")
    assert replay.evaluate("window.pwned") is None
    context.close()
    assert troubles == []


def test_rounds_are_saved_as_csv_without_formulas(page: Any) -> None:
    run_to_the_end(page, "hello")
    _, content = saved(page, "csv")
    rows = list(csv.reader(io.StringIO(content.decode())))
    rounds = [e for e in demo_run() if e.kind == "round"]
    assert rows[0][:3] == ["lane", "round", "start_seconds"]
    assert len(rows) == 1 + len(rounds)
    assert sum(int(row[8]) for row in rows[1:]) == sum(len(r.new_tokens) for r in rounds)  # type: ignore[union-attr]
    code = "return roundsAsCsv([{kind:'round',lane:0,round:1,at:[0],time:{draft:{},verify:{},commit:{}},new:{text:['=1+1']}}])"
    source = (Path(__file__).parents[2] / "assets" / "page_offline.js").read_text("utf-8")
    assert ",'=1+1" in page.evaluate(f"() => {{ {source}\n{code} }}")


@pytest.mark.parametrize("form", ["svg", "png"])
def test_the_picture_can_be_saved(page: Any, form: str) -> None:
    page.focus(".specviz-stage [tabindex='0']")
    page.keyboard.press("End")
    page.wait_for_function("document.querySelector('.specviz-stage svg [data-row]') !== null")
    _, content = saved(page, form)
    assert content.startswith({"svg": b"<svg", "png": b"\x89PNG"}[form])
    assert b"<script" not in content
