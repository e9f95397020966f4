"""What can be done with a run on the page: links, files, runs of this visit, languages. In Chromium."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from specviz.config import Catalog
from specviz.trace import RunStart
from specviz.trace_io import dump_events, load_events
from specviz.ui import playback
from specviz.ui.playback import Recordings
from specviz.words import word
from tests.traces import demo_run
from tests.ui.serving import SECONDS, opened, served, stage_text, wait_for_text
from tests.ui.sessions import CATALOG, SlowSession, hostile_run

pytestmark = pytest.mark.browser
PROMPT = "#specviz-prompt textarea"
RUN, STOP = "#specviz-run", "#specviz-stop"
SAYING = ".specviz-saying"
FILE = ".specviz-bar input[type=file]"


@pytest.fixture
def recorded(tmp_path: Path) -> Recordings:
    folder = tmp_path / "recorded"
    folder.mkdir()
    for name in ("first", "second"):
        text = dump_events(demo_run()).encode()
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(text))
    return Recordings(sorted(folder.iterdir()))


@pytest.fixture
def session() -> SlowSession:
    return SlowSession(seconds=0.01)


@pytest.fixture
def url(session: SlowSession, recorded: Recordings) -> Iterator[str]:
    with served(session, recorded) as address:
        yield address


@pytest.fixture
def page(chromium: Any, url: str) -> Iterator[Any]:
    with opened(chromium, url) as visitor:
        wait_for_text(visitor, "Recorded")
        yield visitor


def run_to_the_end(page: Any, prompt: str) -> None:
    page.fill(PROMPT, prompt)
    page.click(RUN)
    wait_for_text(page, "Live")
    page.wait_for_selector(RUN, state="visible")


def link_of(page: Any) -> str:
    """What "Copy link" gives, read from the box that shows when there is no clipboard."""
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.click(f"text={word('page.copy_link')}")
    page.wait_for_selector(".specviz-link", state="visible")
    link: str = page.input_value(".specviz-link")
    return link


def saved(page: Any, form: str) -> tuple[str, bytes]:
    """(file name, content) of what "Save as" gives."""
    page.click(".specviz-menu > summary")
    with page.expect_download() as got:
        page.click(f".specviz-menu-item[data-form={form}]")
    return got.value.suggested_filename, Path(got.value.path()).read_bytes()


def import_file(page: Any, name: str, content: bytes) -> None:
    page.set_input_files(FILE, {"name": name, "mimeType": "text/plain", "buffer": content})


def saying(page: Any, start: str) -> str:
    page.wait_for_function(
        "(start) => document.querySelector('.specviz-saying').textContent.includes(start)",
        arg=start,
    )
    text: str = page.inner_text(SAYING)
    return text


def test_a_link_brings_the_recipe_to_another_visitor(
    chromium: Any, page: Any, url: str, session: SlowSession
) -> None:
    """It stands in the address alone, so it survives a restart of the server."""
    page.click("#specviz-settings > button")
    page.fill("label:has-text('Seed') input", "41")
    page.click("#specviz-lanes label:has-text('Lookahead')")
    run_to_the_end(page, "Why is the sky <b>blue</b>? ☂ \U0001f327")
    link = link_of(page)
    assert link.startswith(url)
    assert "#run=" in link
    with opened(chromium, url, query=link.removeprefix(url)) as other:
        saying(other, "Press Run")
        other.wait_for_function(
            "document.querySelector('#specviz-prompt textarea').value.startsWith('Why')"
        )
        assert len(session.requests) == 1  # nobody runs a model by opening a link
        run_to_the_end(other, other.input_value(PROMPT))
    assert session.requests[1] == session.requests[0]
    assert session.requests[1].seed == 41
    assert [lane.drafter for lane in session.requests[1].lanes] == [
        "autoregressive", "draft_model", "prompt_lookup",
    ]  # fmt: skip


def test_a_link_to_a_recorded_run_opens_it(chromium: Any, page: Any, url: str) -> None:
    page.click(".specviz-recorded button:has-text('second')")
    page.wait_for_selector(".specviz-recorded [data-name=second][aria-pressed=true]")
    with opened(chromium, url, query=link_of(page).removeprefix(url)) as other:
        other.wait_for_selector(".specviz-recorded [data-name=second][aria-pressed=true]")


@pytest.mark.parametrize("text", ["!!", "e30", "bnVsbA", "A" * 100_000])
def test_a_link_that_is_none_is_an_ordinary_visit(chromium: Any, url: str, text: str) -> None:
    with opened(chromium, url, query=f"#run={text}") as page:
        wait_for_text(page, "Recorded")
        run_to_the_end(page, "hello")


def test_a_recipe_that_cannot_run_is_refused_in_words(chromium: Any, url: str) -> None:
    recipe = {"prompt": "hi", "lanes": ["<img src=x onerror=window.pwned=1>"]}
    state = base64.urlsafe_b64encode(json.dumps({"v": 1, "recipe": recipe}).encode()).decode()
    with opened(chromium, url, query=f"#run={state.rstrip('=')}") as page:
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


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("x.txt", b"hello", "x.txt cannot be shown. This is not a trace"),
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


def test_runs_of_this_visit_come_back_from_their_chips(page: Any, session: SlowSession) -> None:
    run_to_the_end(page, "first question")
    run_to_the_end(page, "second question")
    chips = page.locator(".specviz-mine .specviz-chip:not(.specviz-pin)")
    assert chips.all_inner_texts() == ["1. first question", "2. second question"]
    chips.first.click()
    page.wait_for_function(
        "document.querySelector('.specviz-mine .specviz-chip').getAttribute('aria-pressed') === 'true'"
    )
    page.click("text=/^Prompt, \\d+ token/")
    wait_for_text(page, "first question")
    assert len(session.requests) == 2


def test_no_recorded_run_stays_pressed_while_another_runs(page: Any, session: SlowSession) -> None:
    """The button of the recorded run once looked pressed over a live run."""
    session.seconds = 0.05
    page.wait_for_selector(".specviz-recorded [aria-pressed=true]")
    page.click(RUN)
    wait_for_text(page, "Live")
    assert page.locator(".specviz-recorded [aria-pressed=true]").count() == 0
    page.wait_for_selector(RUN, state="visible", timeout=40 * SECONDS)
    assert page.locator(".specviz-recorded [aria-pressed=true]").count() == 0


def test_a_reload_loses_nothing_that_was_received(
    chromium: Any, url: str, session: SlowSession
) -> None:
    session.seconds = 0.1
    gone = "AbortError|Connection errored out"
    with opened(chromium, url, expected=gone) as page:
        page.fill(PROMPT, "before the reload")
        page.click(RUN)
        wait_for_text(page, "identical to plain for")
        page.reload()
        page.wait_for_function("globalThis.specviz !== undefined")
        saying(page, "This run broke off")
        page.click("text=/^Prompt, \\d+ token/")
        wait_for_text(page, "before the reload")
        page.focus(".specviz-stage [tabindex='0']")
        page.keyboard.press("End")
        wait_for_text(page, "identical to plain for")


def test_a_second_tab_has_runs_of_its_own(chromium: Any, page: Any, url: str) -> None:
    run_to_the_end(page, "in the first tab")
    with opened(chromium, url) as other:
        wait_for_text(other, "Recorded")
        assert not other.is_visible(".specviz-mine")
    assert page.is_visible(".specviz-mine")


def test_a_hidden_tab_receives_everything(page: Any) -> None:
    """A browser draws no frames for a hidden tab; what comes meanwhile is there afterwards."""
    page.evaluate(
        "() => { const real = requestAnimationFrame; const held = [];"
        " window.requestAnimationFrame = (f) => held.push(f);"
        " window.showAgain = () => { window.requestAnimationFrame = real; held.forEach(real); }; }"
    )
    page.click(RUN)
    page.wait_for_selector(STOP, state="visible")
    page.wait_for_selector(RUN, state="visible", timeout=40 * SECONDS)
    page.evaluate("showAgain()")
    wait_for_text(page, "50 tokens")
    _, content = saved(page, "csv")
    assert content.count(b"\r\n") == 1 + sum(e.kind == "round" for e in demo_run())


def test_a_killed_server_leaves_everything_but_new_runs(
    chromium: Any, recorded: Recordings
) -> None:
    session = SlowSession(seconds=0.01)
    offline = "ERR_|Failed to fetch|Connection|reconnect|TypeError"
    with served(session, recorded) as url, opened(chromium, url, expected=offline) as page:
        run_to_the_end(page, "kept")
        page.context.set_offline(True)
        page.focus(".specviz-stage [tabindex='0']")
        page.keyboard.press("Home")
        page.keyboard.press("End")
        wait_for_text(page, "identical to plain for 50 tokens")
        name, content = saved(page, "html")
        assert name.endswith(".html")
        assert b"kept" in content


def test_the_page_speaks_chinese_and_remembers_it(chromium: Any, url: str) -> None:
    with opened(chromium, url) as page:
        page.fill(PROMPT, "my own words")
        page.click(".specviz-language")
        page.wait_for_function(
            "document.querySelector('#specviz-run')?.textContent.includes('运行')"
        )
        assert page.evaluate("document.documentElement.lang") == "zh"
        assert word("page.purpose", "zh") in page.inner_text(".specviz-head")
        assert page.input_value(PROMPT) == "my own words"
        assert "草稿模型" in page.inner_text("#specviz-lanes")
        page.reload()
        page.wait_for_function(
            "document.querySelector('#specviz-run')?.textContent.includes('运行')"
        )
    with opened(chromium, url, query="?lang=zh") as other:
        other.wait_for_function(
            "document.querySelector('#specviz-run')?.textContent.includes('运行')"
        )
        english = other.locator(
            "#specviz-form label, #specviz-form button, .specviz-bar"
        ).all_inner_texts()
        left = {t for t in ("Run", "Prompt", "Settings", "Copy link", "Save as…") if t in english}
        assert left == set()


def test_an_embedded_page_is_the_stage_alone(chromium: Any, url: str) -> None:
    with opened(chromium, url, query="?embed=1&run=second") as page:
        wait_for_text(page, "Recorded")
        assert not page.is_visible(RUN)
        assert not page.is_visible(".specviz-head")
        assert not page.is_visible(".specviz-bar")
        page.focus(".specviz-stage [tabindex='0']")
        page.keyboard.press("End")
        wait_for_text(page, "identical to plain for 50 tokens")


@dataclass
class PoorSession(SlowSession):
    """Its second target is a base model for which one drafter has no weights."""

    def catalog(self) -> Catalog:
        base = replace(CATALOG.targets[1], has_chat_template=False)
        return replace(
            CATALOG,
            targets=(CATALOG.targets[0], base),
            untrained=frozenset({("other", "lookahead")}),
        )


def test_what_a_target_lacks_is_greyed_with_the_reason(chromium: Any) -> None:
    session = PoorSession(seconds=0.01)
    lookahead = "#specviz-lanes label:has-text('Lookahead')"
    with served(session) as url, opened(chromium, url) as page:
        assert page.is_enabled(f"{lookahead} input")
        page.click("#specviz-target input")
        page.click("[role=option]:has-text('Another target')")
        page.wait_for_selector(f"{lookahead} input:disabled")
        note = page.inner_text("#specviz-untrained-note")
        assert note.startswith("No trained weights for Another target here: Lookahead.")
        assert "is a base model without a chat template" in page.inner_text("#specviz-base-note")
        run_to_the_end(page, "Once upon a time")
    (request,) = session.requests
    assert (request.target, request.is_chat) == ("other", False)
    assert "lookahead" not in [lane.drafter for lane in request.lanes]


def test_a_preset_changes_settings_and_keeps_the_prompt(page: Any, session: SlowSession) -> None:
    page.fill(PROMPT, "my own words")
    page.click(".specviz-offers [data-name=teaching]")
    page.wait_for_function(
        "[...document.querySelectorAll('#specviz-lanes input')].filter((box) => box.checked).length === 2"
    )
    page.click(RUN)
    wait_for_text(page, "Live")
    page.wait_for_selector(RUN, state="visible")
    (request,) = session.requests
    assert (request.prompt, request.max_new_tokens) == ("my own words", 32)
    assert [lane.drafter for lane in request.lanes] == ["autoregressive", "draft_model"]
