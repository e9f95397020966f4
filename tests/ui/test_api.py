"""The endpoints as a program uses them, through gradio_client."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextContent, Tool

from specviz.trace import RunStart
from specviz.trace_io import load_events
from tests.traces import demo_run
from tests.ui.serving import served
from tests.ui.sessions import SlowSession
from tests.ui.test_playback import folded, wait_until


@pytest.fixture(scope="module")
def session() -> SlowSession:
    return SlowSession(seconds=0.002)


@pytest.fixture(scope="module")
def client(session: SlowSession) -> Iterator[Client]:
    with served(session) as url:
        yield Client(url, verbose=False)


def all_items(client: Client, prompt: object, settings: object = None) -> list[dict[str, Any]]:
    """Of all envelopes: the last may be empty, where a run's end was sent the moment before."""
    envelopes = client.submit(prompt, settings, api_name="/run")
    return [item for envelope in envelopes for item in json.loads(envelope)["items"]]


def test_only_the_two_documented_endpoints_are_offered(client: Client) -> None:
    endpoints = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    assert sorted(endpoints) == ["/run", "/trace"]
    for endpoint in endpoints.values():
        assert [p["parameter_name"] for p in endpoint["parameters"]] == ["prompt", "settings"]
        assert "max_new_tokens" in endpoint["description"]


def test_the_same_two_are_tools_over_mcp(session: SlowSession) -> None:
    """Asked by the protocol's own client, as an assistant asks."""

    async def asked(address: str) -> tuple[list[Tool], str]:
        async with (
            streamable_http_client(address) as (read, write, _),
            ClientSession(read, write) as mcp,
        ):
            await mcp.initialize()
            tools = (await mcp.list_tools()).tools
            name = next(tool.name for tool in tools if tool.name.endswith("trace"))
            answer = await mcp.call_tool(name, {"prompt": "hello", "settings": {"seed": 7}})
            assert not answer.isError
            (content,) = answer.content
            assert isinstance(content, TextContent)
            return tools, content.text

    with served(session) as url:
        tools, text = asyncio.run(asked(f"{url}gradio_api/mcp/"))
    assert sorted(tool.name.rpartition("_")[2] for tool in tools) == ["run", "trace"]
    for tool in tools:
        assert set(tool.inputSchema["properties"]) == {"prompt", "settings"}
        assert "max_new_tokens" in str(tool.description)
    assert [event.kind for event in load_events(text)] == [e.kind for e in demo_run()]
    assert (session.requests[-1].prompt, session.requests[-1].seed) == ("hello", 7)


def test_a_run_streams_envelopes_that_add_up_to_the_run(
    client: Client, session: SlowSession
) -> None:
    settings = {"lanes": ["lookahead"], "temperature": 0.5, "seed": 3}
    envelopes = [json.loads(e) for e in client.submit("hello", settings, api_name="/run")]
    by_number = {e["seq"]: e for e in envelopes}
    assert sorted(by_number) == list(range(len(by_number)))
    items = [item for number in sorted(by_number) for item in by_number[number]["items"]]
    assert [i["kind"] for i in items] == [i["kind"] for i in folded(demo_run())]
    assert by_number[len(by_number) - 1]["last"]
    request = session.requests[-1]
    assert (request.prompt, request.seed, request.sampling.temperature) == ("hello", 3, 0.5)
    assert [lane.drafter for lane in request.lanes] == ["lookahead"]


def test_a_trace_comes_back_whole(client: Client) -> None:
    events = list(load_events(client.predict("hello", api_name="/trace")))
    assert [e.kind for e in events] == [e.kind for e in demo_run()]
    assert isinstance(events[0], RunStart)
    assert events[0].request.prompt == "hello"


@pytest.mark.parametrize(
    ("prompt", "settings", "sentence"),
    [
        ("", None, "The prompt is empty"),
        (None, None, "The prompt is empty"),
        (8, None, "The prompt is empty"),
        ("hi", {"max_new_tokens": -1}, "max_new_tokens is a whole number from 1 to 2048; got -1."),
        ("hi", {"max_new_tokens": 1e9}, "max_new_tokens is a whole number"),
        (
            "hi",
            {"max_new_tokens": "8"},
            "max_new_tokens is a whole number from 1 to 2048; got '8'.",
        ),
        ("hi", {"seed": 3.7}, "seed is a whole number"),
        ("hi", {"seed": 10**400}, "seed is a whole number"),
        ("hi", {"temperature": None}, "temperature is a number from 0 to 100; got nothing."),
        ("hi", {"lanes": ["medusa9"]}, "A lane's drafter is one of autoregressive"),
        (
            "hi",
            {"knobs": {"draft_model": {"num_draft_tokens": 10000}}},
            "num_draft_tokens is a whole",
        ),
        ("hi", {"target": "../../etc"}, "target is one of smollm2-135m-instruct, other"),
        ("hi", {"max_tokens": 8}, "There is no setting 'max_tokens'"),
        ("hi", "fast", "There is no setting 'settings'"),
    ],
    ids=lambda v: str(v)[:30],
)
def test_bad_input_is_one_sentence(
    client: Client, session: SlowSession, prompt: object, settings: object, sentence: str
) -> None:
    before = len(session.requests)
    (item,) = all_items(client, prompt, settings)
    assert item["kind"] == "failure"
    assert item["message"].startswith(sentence)
    assert "Traceback" not in item["message"]
    assert len(session.requests) == before  # nothing ran
    with pytest.raises(AppError) as raised:
        client.predict(prompt, settings, api_name="/trace")
    assert sentence[:20] in str(raised.value)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none_are_refused(client: Client, number: str) -> None:
    """Python's JSON reader takes NaN; gradio_client would not send it, but a script may."""
    call = f"{client.src}gradio_api/call/run"
    body = f'{{"data": ["hi", {{"temperature": {number}}}]}}'.encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(call, body, headers)) as answer:
        event = json.load(answer)["event_id"]
    with urllib.request.urlopen(f"{call}/{event}") as answer:
        assert "temperature is a number from 0 to 100" in answer.read().decode()


def test_the_server_is_well_after_bad_input(client: Client) -> None:
    assert all_items(client, "hi")[-1]["kind"] == "end"


def test_a_program_can_cancel(client: Client, session: SlowSession) -> None:
    session.seconds = 0.05
    closed = session.num_closed
    job = client.submit("hello", None, api_name="/run")
    assert wait_until(lambda: len(job.outputs()) > 2)
    job.cancel()
    assert wait_until(lambda: session.num_closed == closed + 1, seconds=4)
    session.seconds = 0.002
