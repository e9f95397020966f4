"""An OpenAI-compatible server over HTTP: what it is, and its answer in pieces as they come.

Addresses and keys stay here. What a piece means for counting tokens is `pieces`, what the server
says of its drafts `counts`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from specviz.config import Request
from specviz.served.events import ServedStart, ServerKind
from specviz.words import Refusal, Told, message

CONNECT_SECONDS = 5.0
LOOK_SECONDS = 10.0  # for a page of facts
SILENCE_SECONDS = 120.0  # within an answer: a long prompt is read before the first token
KEY_VARIABLE = "SPECVIZ_SERVER_KEY"  # of the environment; sent to the server, and nowhere else
KINDS: tuple[ServerKind, ...] = ("vllm", "sglang", "llamacpp")  # as they call themselves
MAX_SAID = 200  # characters of a server's own words


class ServerLost(Told):
    """The server stopped answering, or said that it cannot."""


class Client:
    """One server, at the root of its address."""

    def __init__(self, root: httpx.URL) -> None:
        self._root = root
        key = os.environ.get(KEY_VARIABLE)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        patience = httpx.Timeout(LOOK_SECONDS, connect=CONNECT_SECONDS)
        self._http = httpx.Client(headers=headers, timeout=patience)

    def close(self) -> None:
        self._http.close()

    @property
    def address(self) -> str:
        """For people: nobody's password."""
        return str(self._root.copy_with(username=None, password=None)).rstrip("/")

    def look(self, model: str = "") -> ServedStart:
        """What answers, and the model that is asked: `model`, or the first it names. Refusal: it is
        no such server, or has no such model; ServerLost: nothing answers."""
        answer = self._get("/v1/models")
        try:
            models = [(str(m["id"]), str(m.get("owned_by"))) for m in answer.json()["data"]]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            told = {"address": self.address, "status": answer.status_code}
            raise Refusal(message("served.no_server", **told)) from error
        if not models:
            raise Refusal(message("served.no_model", address=self.address))
        names = dict(models)
        if model and model not in names:
            raise Refusal(message("served.other_model", names=", ".join(names), name=model))
        name, owner = (model, names[model]) if model else models[0]
        kind: ServerKind = next((known for known in KINDS if known == owner), "other")
        return ServedStart(self.address, kind, name)

    def page(self, path: str) -> httpx.Response | None:
        """A page of facts; None if there is none."""
        try:
            answer = self._get(path)
        except ServerLost:
            return None
        return answer if answer.is_success else None

    @contextmanager
    def answer(self, start: ServedStart, request: Request) -> Iterator[Iterator[dict[str, Any]]]:
        """The pieces of the answer, as JSON. Leaving early ends the server's work. ServerLost: it
        broke off, fell silent or refused."""
        path = "/v1/chat/completions" if request.is_chat else "/v1/completions"
        patience = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
        asked = self._http.stream(
            "POST", self._url(path), json=_asked(start, request), timeout=patience
        )
        try:
            with asked as answer:
                if not answer.is_success:
                    answer.read()
                    raise ServerLost(message("served.refused", reason=_reason(answer)))
                yield _pieces(answer)
        except httpx.HTTPError as error:
            raise self._lost(error) from error

    def _get(self, path: str) -> httpx.Response:
        try:
            return self._http.get(self._url(path))
        except httpx.HTTPError as error:
            raise self._lost(error) from error

    def _url(self, path: str) -> httpx.URL:
        return self._root.copy_with(path=self._root.path.rstrip("/") + path)

    def _lost(self, error: httpx.HTTPError) -> ServerLost:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return ServerLost(message("served.unreachable", address=self.address))
        if isinstance(error, httpx.TimeoutException):
            return ServerLost(message("served.silent", address=self.address))
        return ServerLost(message("served.broke_off", reason=type(error).__name__))


def root_of(address: str) -> httpx.URL:
    """The server's address without the API's own path. Refusal: it is none."""
    try:
        url = httpx.URL(address.strip())
    except httpx.InvalidURL as error:
        raise Refusal(message("served.bad_address", address=address[:MAX_SAID])) from error
    if url.scheme not in ("http", "https") or not url.host:
        raise Refusal(message("served.bad_address", address=address[:MAX_SAID]))
    path = url.path.rstrip("/").removesuffix("/v1")
    return url.copy_with(path=path or "/", query=None, fragment=None)


def _asked(start: ServedStart, request: Request) -> dict[str, Any]:
    """The body of the question. Only what was set: a server has its own defaults for the rest."""
    sampling, body = request.sampling, dict[str, Any]()
    if request.is_chat:
        body["messages"] = [{"role": "user", "content": request.prompt}]
    else:
        body["prompt"] = request.prompt
    penalty = "repeat_penalty" if start.kind == "llamacpp" else "repetition_penalty"
    extras: tuple[tuple[str, object, object], ...] = (
        ("top_k", sampling.top_k, 0),
        ("min_p", sampling.min_p, 0.0),
        (penalty, sampling.repetition_penalty, 1.0),
        ("stop", list(request.stop_strings), []),
    )
    body |= {name: value for name, value, default in extras if value != default}
    body |= {
        "model": start.model,
        "max_tokens": request.max_new_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": request.seed,
        "stream": True,
    }
    if start.kind == "llamacpp":
        body["timings_per_token"] = True
    else:
        body["stream_options"] = {"include_usage": True}
    if start.kind in ("vllm", "sglang"):
        body["stream_options"] |= {"continuous_usage_stats": True}
    return body


def _pieces(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    """The server-sent events of an answer. ServerLost: it ended before its end."""
    for line in _lines(answer):
        if not line.startswith("data:"):
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            return
        try:
            piece = json.loads(data)
        except ValueError as error:
            raise ServerLost(message("served.broke_off", reason=data[:MAX_SAID])) from error
        if not isinstance(piece, dict) or piece.get("error"):
            raise ServerLost(message("served.refused", reason=_error_text(piece)))
        yield piece
    raise ServerLost(message("served.broke_off", reason="[DONE]"))


def _lines(answer: httpx.Response) -> Iterator[str]:
    """Lines as server-sent events have them. httpx's own also end at U+2028 and the like, which may
    stand in a token."""
    rest = ""
    for text in answer.iter_text():
        *lines, rest = (rest + text).split("\n")
        yield from lines
    yield rest


def _reason(answer: httpx.Response) -> str:
    try:
        return _error_text(answer.json())
    except ValueError:
        return f"{answer.status_code} {answer.reason_phrase}"


def _error_text(told: object) -> str:
    """What a server says went wrong, in the places where the three of them say it."""
    error = told.get("error", told) if isinstance(told, dict) else told
    text = error.get("message", error) if isinstance(error, dict) else error
    return str(text)[:MAX_SAID]
