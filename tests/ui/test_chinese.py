"""The page in Chinese from the first sentence to the last: no English sentence of ours is seen.

What the session tells is of the kinds that the engine tells. Values stay as they are: token
texts, prompts, names of models, papers and machines.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from specviz.config import Catalog, Request
from specviz.presets import TARGETS
from specviz.session import LiveSession
from specviz.trace import Failure, LaneStart, Progress, RoundTrace, RunStart, SessionEvent
from specviz.ui.warm_up import WarmUp
from specviz.words import Message, message, table, tell, word
from tests.chinese import english_in, sample
from tests.traces import demo_run
from tests.ui.serving import opened, served, wait_for_text
from tests.ui.sessions import SlowSession
from tests.ui.visiting import PROMPT, RUN

pytestmark = pytest.mark.browser
PROGRESS = [key for key in table("en") if key.startswith("progress.") and key != "progress.size"]
DESCRIPTIONS = [word("drafts.plain"), word("drafts.copied"), word("drafts.four_bit")]
TEXTS = """() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.parentElement.closest("script, style, noscript")) found.push(node.textContent);
  }
  for (const node of document.body.querySelectorAll("[title], [aria-label], [placeholder], [alt]")) {
    for (const name of ["title", "aria-label", "placeholder", "alt"]) {
      found.push(node.getAttribute(name) || "");
    }
  }
  return found;
}"""


@dataclass
class Telling(SlowSession):
    """Tells all that can be told before a run, one at a time, plays it, and fails at its end."""

    read: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def catalog(self) -> Catalog:
        session = LiveSession()
        session.close()
        return session.catalog()

    def _run(self, request: Request) -> Iterator[SessionEvent]:
        if request.max_new_tokens == 1:  # the warm-up
            yield Failure(message("refusal.weights_offline", title=TARGETS[0].title, tried="-"))
            return
        for key in PROGRESS:
            yield Progress("load", told(key))
            assert self.read.acquire(timeout=60)
        for event in demo_run():
            time.sleep(self.seconds)
            if isinstance(event, RunStart):
                source = word("source.cache", source="x")
                target = replace(event.target, source=source, path=word("path.packed"))
                event = replace(event, request=request, target=target, machine="x")
            if isinstance(event, LaneStart):
                own = DESCRIPTIONS[event.lane % len(DESCRIPTIONS)]
                event = replace(event, description=own, title="EAGLE-3")
            self.num_rounds += isinstance(event, RoundTrace)
            yield event
        yield Failure(message("failure.memory"))


def told(key: str) -> Message:
    return message(key, n=2) if key == "progress.queued" else sample(key)


def english_on(page: Any) -> set[str]:
    return {found for text in page.evaluate(TEXTS) if (found := english_in(text))}


def test_no_english_sentence_is_left_on_a_chinese_page(chromium: Any) -> None:
    """What the engine told travelled as English text, whatever language the page spoke."""
    session = Telling(seconds=0)
    warm_up = WarmUp(session)
    warm_up.start()
    with served(session, warm_up=warm_up) as url, opened(chromium, url, query="?lang=zh") as page:
        page.wait_for_function(
            "document.querySelector('#specviz-run')?.textContent.includes('运行')"
        )
        seen = english_on(page)
        page.fill(PROMPT, "你好")
        page.click(RUN)
        for key in PROGRESS:
            wait_for_text(page, tell(told(key), "zh"))
            seen |= english_on(page)
            session.read.release()
        wait_for_text(page, word("failure.memory", "zh"))
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        seen |= english_on(page)
    assert seen == set()
