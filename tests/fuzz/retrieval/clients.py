"""Fuzz the retrieval client with any server answer and any form of address."""

from __future__ import annotations

import json
from typing import Final

from fuzz.source import Source, as_json, as_text
from fuzz.target import Target
from prompt_coevo.errors import SettingsError
from prompt_coevo.retrieval.access import request_headers
from prompt_coevo.retrieval.client.asking import _retry_after
from prompt_coevo.retrieval.client.urls import health_url, retrieve_url
from prompt_coevo.retrieval.errors import QueryError, RetrieverUnavailable
from prompt_coevo.retrieval.retriever import Hit
from prompt_coevo.retrieval.wire import (
    read_error,
    read_health,
    read_reply,
    write_health,
    write_request,
)


def reply(data: bytes) -> None:
    """Read hits from a retriever, or no answer."""
    source = Source(data)
    count, k = source.below(3), 1 + source.below(3)
    _read_reply(source.rest(), count, k)


def reply_tree(data: bytes) -> None:
    """Read a JSON reply with one wrong field."""
    source = Source(data)
    whole = {
        "result": [
            [{"document": {"id": "1", "contents": '"T"\nx'}, "score": 0.5}],
            [{"id": 2, "title": "T", "text": "x"}, "a text"],
            [],
        ],
        "errors": [None, None, "the query is empty"],
        "failed": [2],
    }
    _read_reply(as_json(source.wrong(whole)), 3, 3)


def health(data: bytes) -> None:
    """Read a server's description of its index; it survives a round trip."""
    try:
        info = read_health(data)
    except RetrieverUnavailable:
        return
    assert read_health(write_health(info)).fingerprint == info.fingerprint


def health_tree(data: bytes) -> None:
    """Read the same description with one wrong field."""
    health(as_json(Source(data).wrong(json.loads(_HEALTH))))


def error(data: bytes) -> None:
    """Return an error sentence of limited length."""
    assert len(read_error(data)) <= 300


def error_tree(data: bytes) -> None:
    """Return the same for an error object."""
    error(as_json(Source(data).wrong({"error": "it broke", "detail": [{"msg": "x"}]})))


def address(data: bytes) -> None:
    """Read a server address from a user."""
    source = Source(data)
    token = source.pick((None, "0123456789abcdef"))
    text = as_text(source.rest())
    try:
        health_url(retrieve_url(text))
        request_headers(token, [text])
    except SettingsError:
        return


def query(data: bytes) -> None:
    """Send any query unchanged, or refuse it."""
    source = Source(data)
    queries = [source.text(), as_text(source.rest())]
    try:
        body = write_request(queries, 3)
    except QueryError:
        return
    assert json.loads(body)["queries"] == queries


def retry(data: bytes) -> None:
    """Read a header that says when to retry."""
    assert 0 <= _retry_after({"retry-after": data.decode("latin-1")}) < float("inf")


def _read_reply(body: bytes, count: int, k: int) -> None:
    try:
        found = read_reply(body, count=count, k=k)
    except RetrieverUnavailable:
        return
    assert len(found) == count
    for hits in found:
        if isinstance(hits, QueryError | RetrieverUnavailable):
            assert len(str(hits)) <= 300
            continue
        assert isinstance(hits, list)
        assert len(hits) <= k
        for hit in hits:
            assert isinstance(hit, Hit)
            assert isinstance(hit.id, str)
            assert isinstance(hit.contents, str)


_REPLY: Final = b'\1\2{"result": [[{"document": {"id": "1", "contents": "x"}, "score": 0.5}]]}'
_HEALTH: Final = as_json(
    {
        "status": "ok",
        "index": {"kind": "bm25", "passages": 3, "fingerprint": "f", "details": {"k": 1}},
    }
)
_DEEP: Final = b"[" * 1015 + b"]" * 1015

TARGETS = {
    "clients.replies": Target(
        reply,
        (_REPLY, b'\1\2{"result": [["text"]]}', b'\1\1{"result": [[{"id": ' + _DEEP + b"}]]}"),
        4.0,
    ),
    "clients.reply_trees": Target(reply_tree, (bytes(range(40)), b"\0\1", b"\1\2\2" * 9), 1.0),
    "clients.health": Target(health, (_HEALTH, b"{}", b"[]"), 8.0),
    "clients.health_trees": Target(health_tree, (bytes(range(40)), b"\0\1", b"\1\2\2" * 9), 1.0),
    "clients.errors": Target(
        error, (b'{"error": "x"}', b'{"detail": []}', b'{"error": ' + _DEEP + b"}", b"<html>"), 8.0
    ),
    "clients.error_trees": Target(error_tree, (bytes(range(40)), b"\0\1", b"\1\2\2" * 9), 1.0),
    "clients.addresses": Target(
        address, (b"\0http://127.0.0.1:8000", b"\1http://me@[::1]:1/retrieve", b"\0http://["), 2.0
    ),
    "clients.queries": Target(query, (b"\0\4abcdwho", bytes(range(60))), 4.0),
    "clients.retries": Target(retry, (b"7", b"nan", b"1e999", b"Wed, 21 Oct"), 8.0),
}
