"""Served targets against a small server of each kind: what is seen, what is counted, what goes wrong."""

from __future__ import annotations

import io
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from specviz.__main__ import main
from specviz.config import LaneSpec, Request, SamplingParams
from specviz.metrics import Tally
from specviz.served import ServedSession
from specviz.served.counts import totals
from specviz.served.events import (
    ServedEnd,
    ServedEvent,
    ServedStart,
    ServedStep,
    ServerCounts,
)
from specviz.served.report import report
from specviz.trace import Failure, Progress
from specviz.ui import served
from specviz.words import Refusal, Told, tell
from tests.served.server import (
    NUM_ACCEPTED,
    NUM_DRAFTED,
    NUM_ROUNDS,
    NUM_TOKENS,
    PASSES,
    TEXT,
    FakeServer,
    serving,
)
from tests.ui.serving import free_port

REQUEST = Request("Why is the sky blue?", (LaneSpec("autoregressive"),), max_new_tokens=32)
SPECULATING = ("vllm", "sglang", "llamacpp")


def run(
    fake: FakeServer, request: Request = REQUEST, model: str = ""
) -> tuple[list[ServedStep], ServedEvent]:
    """The steps, and what the run ended with."""
    with serving(fake) as url:
        events = list(ServedSession(url, model).events(request))
    assert isinstance(events[0], Progress)
    return [event for event in events if isinstance(event, ServedStep)], events[-1]


def ended(fake: FakeServer) -> ServedEnd:
    _, end = run(fake)
    assert isinstance(end, ServedEnd)
    return end


def failed(fake: FakeServer, **more: Any) -> Failure:
    _, end = run(fake, **more)
    assert isinstance(end, Failure)
    return end


@pytest.mark.parametrize("kind", SPECULATING)
@pytest.mark.parametrize("is_chat", [True, False])
def test_steps_are_the_passes_of_the_server(kind: str, is_chat: bool) -> None:
    """Whether it sends a pass in one piece or a piece for each token, and whatever is in a token:
    U+2028 is no end of a line here, though it is one for Python."""
    steps, end = run(FakeServer(kind), replace(REQUEST, is_chat=is_chat))
    assert [step.text for step in steps] == ["".join(texts) for texts, _ in PASSES]
    assert [step.num_tokens for step in steps] == [len(texts) for texts, _ in PASSES]
    assert [step.index for step in steps] == [0, 1, 2, 3]
    assert isinstance(end, ServedEnd)
    assert (end.reason, end.num_tokens) == ("length", NUM_TOKENS)


def test_steps_arrive_while_the_server_still_writes() -> None:
    """The first is told long before the last pass is made."""
    fake, made = FakeServer(pause=0.3), []
    seconds = []
    with serving(fake) as url:
        for event in ServedSession(url).events(REQUEST):
            if isinstance(event, ServedStep):
                made.append(fake.counters["generation_tokens"])
                seconds.append(event.seconds)
    assert made[0] < NUM_TOKENS
    assert seconds == sorted(seconds)
    end = event
    assert isinstance(end, ServedEnd)
    assert (end.first_seconds, end.seconds) == (seconds[0], pytest.approx(seconds[-1], abs=0.05))


def test_vllm_counts_are_what_its_counters_grew_by() -> None:
    fake = FakeServer("vllm", counters={"spec_decode_num_drafts": 1000, "generation_tokens": 9})
    counts = ended(fake).counts
    expected = Tally(NUM_ROUNDS, NUM_ROUNDS + NUM_ACCEPTED, NUM_DRAFTED, NUM_ACCEPTED)
    assert counts == ServerCounts(expected, is_shared=False, by_position=(2, 2))


def test_vllm_counts_that_hold_the_tokens_of_others_are_called_so() -> None:
    assert ended(FakeServer("vllm", for_others=5)).counts.is_shared


def test_llamacpp_counts_come_with_its_answer() -> None:
    counts = ended(FakeServer("llamacpp")).counts
    assert counts.tally == Tally(NUM_TOKENS - NUM_ACCEPTED, NUM_TOKENS, NUM_DRAFTED, NUM_ACCEPTED)
    assert not counts.is_shared


def test_sglang_tells_averages_over_all_it_serves() -> None:
    counts = ended(FakeServer("sglang")).counts
    assert counts == ServerCounts(is_shared=True, mean_length=2.5, mean_rate=0.375)


@pytest.mark.parametrize(
    ("fake", "sentence"),
    [
        *((FakeServer(kind, speculates=False), "reports no drafts") for kind in SPECULATING),
        (FakeServer("vllm", has_metrics=False), "no counters at /metrics"),
        (FakeServer("sglang", has_metrics=False), "no counters at /metrics"),
        (FakeServer("somebody"), "tells nothing of drafts"),
    ],
)
def test_what_a_server_does_not_tell_is_said(fake: FakeServer, sentence: str) -> None:
    counts = ended(fake).counts
    assert (counts.tally, counts.mean_length) == (None, None)
    assert sentence in tell(counts.missing)


def test_an_unknown_server_streams_without_numbers_that_nobody_gave() -> None:
    steps, end = run(FakeServer("somebody"))
    assert "".join(step.text for step in steps) == TEXT
    assert {step.num_tokens for step in steps} == {None}
    assert isinstance(end, ServedEnd)
    assert end.num_tokens == NUM_TOKENS  # which it does say, at its end
    told = report(ServedStart("http://x", "other", "big"), steps, end)
    assert "4 pieces" in tell(told[1])


def test_only_what_was_set_is_asked_for_in_the_words_of_each_server() -> None:
    sampling = SamplingParams(temperature=0.5, top_k=7, min_p=0.1, repetition_penalty=1.5)
    request = replace(REQUEST, sampling=sampling, stop_strings=("END",), seed=3)
    for kind, penalty in (("vllm", "repetition_penalty"), ("llamacpp", "repeat_penalty")):
        fake = FakeServer(kind)
        run(fake, request, model="small")
        (asked,) = fake.asked
        assert asked["path"] == "/v1/chat/completions"
        assert asked["messages"] == [{"role": "user", "content": REQUEST.prompt}]
        wanted = {"model": "small", "temperature": 0.5, "top_k": 7, "min_p": 0.1, "seed": 3}
        wanted |= {penalty: 1.5, "stop": ["END"], "max_tokens": 32}
        assert asked.items() >= wanted.items()
    fake = FakeServer("vllm")
    run(fake, replace(REQUEST, is_chat=False))
    assert fake.asked[0]["prompt"] == REQUEST.prompt
    assert not {"top_k", "min_p", "repetition_penalty", "stop", "messages"} & fake.asked[0].keys()


def test_the_key_goes_to_the_server_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_SERVER_KEY", "sesame")
    fake = FakeServer()
    with serving(fake) as url:
        events = list(ServedSession(url).events(REQUEST))
        events += ServedSession(url.replace("://", "://me:open@")).events(REQUEST)
    assert fake.keys[0] == "Bearer sesame"
    assert "sesame" not in repr(events)
    assert "open" not in repr(events)


@pytest.mark.parametrize("ending", ["/", "/v1", "/v1/"])
def test_an_address_may_end_as_people_write_it(ending: str) -> None:
    with serving(FakeServer()) as url:
        *_, end = ServedSession(url + ending).events(REQUEST)
    assert isinstance(end, ServedEnd)


@pytest.mark.parametrize(
    "address", ["localhost:8000", "", "http://", "ftp://127.0.0.1/", "http://127.0.0.1:nine"]
)
def test_what_is_no_address_is_refused_at_once(address: str) -> None:
    with pytest.raises(ValueError, match="takes the address of a server"):
        ServedSession(address)


def test_an_address_where_nothing_answers_is_told_of() -> None:
    (*_, last) = ServedSession(f"http://127.0.0.1:{free_port()}").events(REQUEST)
    assert isinstance(last, Failure)
    assert "Nothing answers" in tell(last.message)


@pytest.mark.parametrize("models", ["hello", {"data": "none"}, {"data": [{}]}, [], {}])
def test_something_else_that_answers_is_no_server(models: object) -> None:
    failure = failed(FakeServer(models=models))
    assert failure.is_refusal
    assert "no OpenAI-compatible server" in tell(failure.message)


def test_a_server_without_the_model_is_told_of() -> None:
    assert "serves no model" in tell(failed(FakeServer(models={"data": []})).message)
    assert "serves big, small; got huge" in tell(failed(FakeServer(), model="huge").message)


def test_a_question_that_the_server_refuses_ends_in_its_own_words() -> None:
    assert "too long by 3 tokens" in tell(failed(FakeServer(status=400)).message)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [({"dies_after": 2}, "broke off"), ({"complains_after": 2}, "out of memory")],
)
def test_what_came_before_a_server_died_is_kept(changes: dict[str, Any], sentence: str) -> None:
    steps, end = run(FakeServer(**changes))
    assert [step.num_tokens for step in steps] == [1, 3]
    assert isinstance(end, ServedEnd)
    assert end.reason == "error"
    assert sentence in tell(end.counts.missing)
    assert "broke off" in tell(failed(FakeServer(dies_after=0)).message)


def test_a_server_that_falls_silent_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specviz.served.client.SILENCE_SECONDS", 0.2)
    steps, end = run(FakeServer(passes=PASSES[:1], pause=1.0))
    assert not steps
    assert isinstance(end, Failure)
    assert "did not answer in time" in tell(end.message)


def test_leaving_a_run_ends_the_work_of_the_server() -> None:
    fake = FakeServer(passes=PASSES[1:2] * 500, pause=0.01)
    with serving(fake) as url:
        session = ServedSession(url)
        with closing(session.events(REQUEST)) as events:  # type: ignore[type-var]
            next(event for event in events if isinstance(event, ServedStep))
        assert fake.has_been_left.wait(5)
        fake.has_been_left.clear()
        seen = []
        for event in session.events(REQUEST):
            seen.append(event)
            session.cancel()
        assert isinstance(seen[-1], ServedEnd)
        assert seen[-1].reason == "cancelled"
        assert fake.has_been_left.wait(5)


def test_metrics_are_summed_over_engines() -> None:
    text = (
        'a_total{engine="0"} 1\na_total{engine="1"} 2.5 1700000000\n# a_total 9\nb{x="}"} +Inf\n??'
    )
    assert totals(text) == {"a": 3.5}


def test_the_report_says_what_was_seen_and_what_was_not() -> None:
    steps = [ServedStep(n, 1.0 + n, "x", size) for n, size in enumerate((1, 3, 1, 3))]
    counts = ServerCounts(Tally(3, 7, 10, 4), is_shared=True, by_position=(2, 2))
    end = ServedEnd("length", 8, 4.0, 1.0, counts)
    told = [tell(line) for line in report(ServedStart("http://x", "vllm", "big"), steps, end)]
    assert told[0] == "big, served by vLLM at http://x"
    assert told[1] == "8 tokens came in 4 pieces, 2.00 at a time: 1 x 2, 3 x 2."
    assert told[2].startswith("2.3 tokens/s after the first, which came after 1.00 s")
    assert "4 of 10 drafted tokens accepted (40%) in 3 passes: 2.33 tokens per pass" in told[3]
    assert told[4] == "Accepted by place in the draft: 2, 2."
    assert "others" in told[5]
    assert "no tree to draw" in told[6]


def command(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", out)
        patch.setattr("sys.stderr", err)
        code = main(["run", "Why?", *words])
    return code, out.getvalue(), err.getvalue()


def test_the_command_line_streams_the_text_and_reports() -> None:
    with serving(FakeServer("llamacpp")) as url:
        code, out, err = command("--server", url)
    assert code == 0
    assert out.startswith(f"{TEXT}\n\nbig, served by llama.cpp at ")
    assert "4 of 10 drafted tokens accepted" in out
    assert "Asking" in err
    with serving(FakeServer(dies_after=2)) as url:
        code, out, _ = command("--server", url)
    assert code == 1
    assert "broke off" in out


def test_an_option_that_a_server_would_not_heed_is_refused() -> None:
    for words, sentence in (
        (("--server", "http://x", "--lanes", "lookahead"), "--lanes has no effect"),
        (("--server", "http://x", "--out", "x.jsonl"), "--out has no effect"),
        (("--model", "big"), "use it with --server"),
        (("--server", "nowhere"), "takes the address"),
    ):
        code, _, err = command(*words)
        assert (code, sentence in err) == (2, True), err


def test_a_page_shows_what_came_and_then_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "PAINT_SECONDS", 0.0)
    with serving(FakeServer("sglang")) as url:
        seen = list(served._seen(ServedSession(url), "Why?", 8))
    assert [len(each.steps) for each in seen][-2:] == [4, 4]
    assert seen[0].end is None
    pieces, told = served._painted("en", seen[-1])
    assert pieces == [("".join(texts), str(len(texts))) for texts, _ in PASSES]
    assert "big, served by SGLang" in told
    assert "2.50 tokens per pass, 38% of the drafted" in told
    with serving(FakeServer(dies_after=0)) as url, pytest.raises(Told, match="broke off"):
        list(served._seen(ServedSession(url), "Why?", 8))
    with pytest.raises(Refusal, match="whole number from 1 to 256"):
        next(served._seen(ServedSession(url), "Why?", 9999))
