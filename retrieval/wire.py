"""Search-R1's wire format, both of its reply forms, for the server and for the client.

A request is `{"queries": [text], "topk": number or null, "return_scores": bool}`. The reply is
`{"result": [[hit]]}`, one list per query, the best hit first. With `return_scores` a hit is
`{"document": {"id", "contents"}, "score"}`; without, it is the bare document `{"id", "contents"}`. Other
fields of a corpus's rows, which Search-R1's server sends along, are left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from prompt_coevo.errors import CoevoError
from prompt_coevo.extras import require
from prompt_coevo.retrieval.errors import QueryError, RetrieverUnavailable
from prompt_coevo.retrieval.retriever import Hit, IndexInfo, Limits, check_search, shown

# The hash of what is searched, in the header of every reply: clients must not mix up two indexes.
FINGERPRINT_HEADER = "index-fingerprint"
# How long the client will wait for this reply: nobody needs it later.
TIMEOUT_HEADER = "request-timeout"

_LONGEST_ERROR = 300


class MalformedRequest(CoevoError, ValueError):
    """The body of a request is no JSON."""


@dataclass(frozen=True, slots=True)
class WireRequest:
    """What a client asks for."""

    queries: list[str]
    k: int
    return_scores: bool


def read_request(body: bytes, *, default_k: int, limits: Limits) -> WireRequest:
    """Read a request; `topk` null, 0 or left out means `default_k`, as with Search-R1's server.

    Unknown fields are passed over. Blank queries are let through: Search-R1's server answers them, and
    its clients send all queries of a step at once. Raises MalformedRequest for what is no JSON and
    QueryError for what does not fit the format or the limits.
    """
    try:
        request = _orjson().loads(body)
    except ValueError as error:
        raise MalformedRequest(f"the request is not valid JSON: {error}") from None
    if not isinstance(request, dict):
        raise QueryError('the request must be an object such as {"queries": ["text"], "topk": 3}')
    queries = request.get("queries")
    if not isinstance(queries, list):
        raise QueryError('the request needs the field "queries", a list of texts')
    scores = request.get("return_scores")
    if scores is not None and not isinstance(scores, bool):
        raise QueryError(f"return_scores must be true or false, but is {shown(scores)}")
    topk = request.get("topk")
    k = default_k if topk is None or (topk == 0 and topk is not False) else topk
    check_search(
        [query if not isinstance(query, str) or query.strip() else "blank" for query in queries],
        k,
        limits,
    )
    return WireRequest(queries, k, bool(scores))


def write_request(queries: Sequence[str], k: int) -> bytes:
    """The body of a request, with scores: that form is understood by every server.

    Raises QueryError for a text that UTF-8 cannot hold, as with half of a surrogate pair.
    """
    try:
        return _dumps({"queries": list(queries), "topk": k, "return_scores": True})
    except TypeError:
        raise QueryError("a query holds characters that cannot be sent as UTF-8") from None


def write_reply(found: Sequence[Sequence[Hit]], return_scores: bool) -> bytes:
    """The body of a reply."""
    form = _with_score if return_scores else _document
    reply = {"result": [[form(hit) for hit in hits] for hits in found]}
    try:
        return _dumps(reply)
    except TypeError:  # a passage has half of a surrogate pair; the others must not suffer from it
        return json.dumps(reply, ensure_ascii=False).encode("utf-8", "replace")


def read_reply(body: bytes, *, count: int, k: int) -> list[list[Hit]]:
    """The hits for `count` queries, at most `k` each.

    Understands both forms, documents without id or score (Search-R1's web search servers) and
    documents that are texts (its reranking server). Raises RetrieverUnavailable for anything else.
    """
    try:
        result = _orjson().loads(body)["result"]
        if not isinstance(result, list) or len(result) != count:
            raise ValueError("wrong number of results")
        return [
            [_read_hit(item, rank) for rank, item in enumerate(items[:k], 1)] for items in result
        ]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        start = body[:80].decode("utf-8", "replace")
        raise RetrieverUnavailable(
            f"the server's answer is not in Search-R1's format for {count} queries, it begins with "
            f"{start!r}; is this the address of a retrieval server?"
        ) from None


def write_health(info: IndexInfo) -> bytes:
    """The body of a healthy server's `/health`."""
    index = {
        "kind": info.kind,
        "passages": info.passages,
        "fingerprint": info.fingerprint,
        "details": dict(info.details),
    }
    try:
        return _dumps({"status": "ok", "index": index})
    except TypeError:  # a stranger's details, too deep or too large to be sent
        return _dumps({"status": "ok", "index": {**index, "details": {}}})


def read_health(body: bytes) -> IndexInfo:
    """Raises RetrieverUnavailable for anything else than such a body."""
    try:
        index = _orjson().loads(body)["index"]
        kind, passages, fingerprint = index["kind"], index["passages"], index["fingerprint"]
        if not isinstance(passages, int):
            raise TypeError("no number of passages")
        return IndexInfo(str(kind), passages, str(fingerprint), dict(index["details"]))
    except (KeyError, RecursionError, TypeError, ValueError):
        raise RetrieverUnavailable(
            "the server's /health does not say what is searched; is this a retrieval server?"
        ) from None


def write_error(message: str) -> bytes:
    """The body of an error."""
    return _dumps({"error": message})


def read_error(body: bytes) -> str:
    """The sentence in an error's body; FastAPI calls it "detail"."""
    try:
        content = _orjson().loads(body)
        return str(content.get("error") or content["detail"])[:_LONGEST_ERROR]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return body[:_LONGEST_ERROR].decode("utf-8", "replace").strip()


def _document(hit: Hit) -> dict[str, Any]:
    return {"id": hit.id, "contents": hit.contents}


def _with_score(hit: Hit) -> dict[str, Any]:
    return {"document": {"id": hit.id, "contents": hit.contents}, "score": hit.score}


def _read_hit(item: Any, rank: int) -> Hit:
    document, score = item, 0.0
    if isinstance(item, dict) and "document" in item:
        document, score = item["document"], float(item.get("score") or 0.0)
    if isinstance(document, str):
        return Hit("", document, score, rank)
    identity = document.get("id")
    return Hit("" if identity is None else str(identity), _contents(document), score, rank)


def _contents(document: dict[str, Any]) -> str:
    if (contents := document.get("contents")) is not None:
        return str(contents)
    title, text = document.get("title"), str(document["text"])
    return f'"{title}"\n{text}' if title else text


def _dumps(content: Any) -> bytes:
    encoded: bytes = _orjson().dumps(content, default=str)
    return encoded


@cache
def _orjson() -> Any:
    require("orjson", extra="retrieval", purpose="talking to a retrieval server")
    import orjson

    return orjson
