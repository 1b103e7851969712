"""Fuzz the retrieval server with anything that a client may send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from starlette.datastructures import Headers

from fuzz.source import Source, as_json
from fuzz.target import Target
from prompt_coevo.errors import CoevoError
from prompt_coevo.retrieval.access import read_token
from prompt_coevo.retrieval.retriever import Hit, IndexInfo, Limits
from prompt_coevo.retrieval.server.app import RetrievalApp
from prompt_coevo.retrieval.server.entrance import Entrance
from prompt_coevo.retrieval.server.errors import Refusal
from prompt_coevo.retrieval.server.service import RetrievalService
from prompt_coevo.retrieval.server.settings import ServerSettings
from prompt_coevo.retrieval.wire import (
    MalformedRequest,
    QueryError,
    read_reply,
    read_request,
    write_reply,
)

_LIMITS: Final = Limits(max_k=9, max_query_chars=200, max_queries=5)
_TOKEN: Final = "0123456789abcdef"


def request_body(data: bytes) -> None:
    """Read a request body, or refuse it with one of two errors."""
    try:
        wanted = read_request(data, default_k=3, limits=_LIMITS)
    except (MalformedRequest, QueryError) as error:
        str(error).encode()
        return
    assert 1 <= wanted.k <= _LIMITS.max_k
    found = [[Hit("é", query, 0.5, 1)] for query in wanted.queries]
    back = read_reply(write_reply(found, return_scores=True), count=len(found), k=wanted.k)
    assert back == found


def request_tree(data: bytes) -> None:
    """Read a JSON request with one wrong field."""
    source = Source(data)
    tree = source.wrong({"queries": ["who", "what"], "topk": 3, "return_scores": True})
    request_body(as_json(tree))


def entrance(data: bytes) -> None:
    """Admit or refuse any headers, with a sentence."""
    source = Source(data)
    names = (b"host", b"origin", b"authorization", b"x")
    headers = [(source.pick(names), source.bytes()) for _ in range(source.below(5))]
    if source.flag():
        headers.append((b"authorization", f"Bearer {_TOKEN}".encode()))
    for adapter in _entrances():
        for check in (adapter.check_sender, adapter.check_token):
            try:
                check(Headers(raw=headers))
            except Refusal as error:
                str(error).encode()


def whole_request(data: bytes) -> None:
    """Send a request through the whole application; the answer is JSON and never a server fault."""
    source = Source(data)
    headers = [(b"host", b"127.0.0.1")] if source.below(8) else [(b"host", source.bytes())]
    if source.below(4) == 3:
        headers.append((source.pick((b"content-length", b"request-timeout")), source.bytes(12)))
    path = source.pick(("/retrieve", "/retrieve", "/retrieve", "/health", "/x"))
    parts = [source.bytes(200) for _ in range(source.below(2))] + [source.rest()]
    status, body = asyncio.run(_asked(path, headers, parts))
    assert status in (200, 400, 403, 404, 405, 408, 413, 421, 422), (status, body)
    if path == "/retrieve":
        json.loads(body)


def token(data: bytes) -> None:
    """Read a token from a command line."""
    try:
        found = read_token(data.decode("utf-8", "surrogateescape"))
    except CoevoError as error:
        sentence = str(error)
    else:
        assert found is not None
        assert found.isascii()
        return
    assert len(sentence) < 200


class _Echo:
    """Finds the query itself."""

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        return [[Hit("a", query, 1.0, 1)] for query in queries]

    def info(self) -> IndexInfo:
        return IndexInfo("echo", 1, "f")

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


async def _asked(
    path: str, headers: list[tuple[bytes, bytes]], parts: list[bytes]
) -> tuple[int, bytes]:
    service = RetrievalService(_Echo(), _settings(None))
    service.info = IndexInfo("echo", 1, "f")
    app = RetrievalApp(service, Entrance(service.settings, "127.0.0.1"))
    waiting = [
        {"type": "http.request", "body": part, "more_body": number + 1 < len(parts)}
        for number, part in enumerate(parts)
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST" if path == "/retrieve" else "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 8000),
    }
    try:
        await app(scope, receive, send)
    finally:
        service.close()
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], body


def _settings(own: str | None) -> ServerSettings:
    return ServerSettings(limits=_LIMITS, token=own, max_body_bytes=3000)


@cache
def _entrances() -> tuple[Entrance, ...]:
    named = ServerSettings(token=_TOKEN, allowed_hosts=("gpu1",), allowed_origins=("http://a",))
    return Entrance(_settings(None), "127.0.0.1"), Entrance(named, "0.0.0.0")


_BODY: Final = as_json({"queries": ["who wrote Moby Dick", "é"], "topk": 3, "return_scores": True})
_DEEP: Final = b'{"queries": ["a"], "return_scores": ' + b"[" * 1015 + b"]" * 1015 + b"}"

TARGETS = {
    "servers.bodies": Target(
        request_body, (_BODY, b"{}", b"[]", b'{"queries": ["a"], "topk": 1e999}', _DEEP), 8.0
    ),
    "servers.trees": Target(request_tree, (bytes(range(40)), b"\0\1", b"\1\2\2" * 9), 2.0),
    "servers.entrance": Target(
        entrance, (b"\1\0\x09localhost\1", b"\2\0\x04[::1\1\x08http://a\0", bytes(range(50))), 2.0
    ),
    "servers.requests": Target(
        whole_request, (b"\1\0\0\0" + _BODY, b"\1\0\0\0" + _DEEP, b"\1\3\1\3nan\0\0" + _BODY), 0.1
    ),
    "servers.tokens": Target(token, (_TOKEN.encode(), b"", b"a b"), 8.0),
}
