"""Search-R1's wire format, with both of its reply forms, for server and client.

A request is `{"queries": [text], "topk": number or null, "return_scores": bool}`. The reply is
`{"result": [[hit]]}`, one list per query, the best hit first. With `return_scores` a hit is
`{"document": {"id", "contents", ...}, "score"}`; without, it is the bare document. A document is the
whole row of the corpus, with all its fields.

A query that could not be searched for has no hits. The reply then has the additional field `errors`: a list
with a sentence for each such query, and null for the others. `failed` lists the positions of those that
were not the query's fault. `partial` lists the positions of those that do have hits, but only of some
shards. Search-R1's clients read `result` alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, TypedDict

from prompt_coevo.errors import CoevoError
from prompt_coevo.extras import require
from prompt_coevo.retrieval.errors import QueryError, RetrieverUnavailable, SearchFailed
from prompt_coevo.retrieval.outcomes import Attempt, PartialHits
from prompt_coevo.retrieval.retriever import (
    Hit,
    IndexInfo,
    Limits,
    check_size,
    query_problem,
    shortened,
    shown,
)

# Hash of the searched index, in a header of every reply: clients must not mix up two indexes.
FINGERPRINT_HEADER = "index-fingerprint"
# How long the client will wait for this reply; nobody needs it later.
TIMEOUT_HEADER = "request-timeout"

_OWN = ("id", "contents")
_LONGEST_ERROR = 300
_MAYBE_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")


class Reply(TypedDict, total=False):
    """A reply; the lists after `result` only if they have something to say."""

    result: list[list[dict[str, Any]]]
    errors: list[str | None]
    failed: list[int]
    partial: list[int]


class MalformedRequest(CoevoError, ValueError):
    """A request's body is not JSON."""


@dataclass(frozen=True, slots=True)
class WireRequest:
    """A parsed request.

    `queries` are those that can be searched for. `refused` says what is wrong with the others, by their
    position among all. `cut` lists the original lengths, in characters, of queries that were too long.
    """

    queries: list[str]
    k: int
    return_scores: bool
    refused: Mapping[int, str] = field(default_factory=dict)
    cut: Sequence[int] = ()

    def placed(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """Merge the attempts for `queries` with the refusals of the others, in the order of the request."""
        if not self.refused:
            return list(attempts)
        rest = iter(attempts)
        count = len(attempts) + len(self.refused)
        refused = self.refused
        return [
            QueryError(refused[place]) if place in refused else next(rest) for place in range(count)
        ]


def read_request(body: bytes, *, default_k: int, limits: Limits) -> WireRequest:
    """Read a request; `topk` null, 0 or missing means `default_k`, as with Search-R1's server.

    Unknown fields are ignored. A query that is too long is cut. One that cannot be searched for is refused,
    without affecting the others. Raises MalformedRequest for invalid JSON and QueryError for a request that
    does not fit the format or the limits.
    """
    request = _parsed(body)
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
    check_size(len(queries), k, limits)
    most = limits.max_query_chars
    kept = [shortened(query, most) if isinstance(query, str) else query for query in queries]
    cut = tuple(
        len(query) for query, short in zip(queries, kept, strict=True) if query is not short
    )
    problems = ((place, query_problem(query, most)) for place, query in enumerate(kept))
    refused = {place: f"the query {problem}" for place, problem in problems if problem is not None}
    if refused:
        kept = [query for place, query in enumerate(kept) if place not in refused]
    return WireRequest(kept, k, bool(scores), refused, cut)


def _parsed(body: bytes) -> Any:
    """Parse JSON. Unlike orjson, accept half surrogate pairs, so that they affect only their own query."""
    try:
        return _orjson().loads(body)
    except ValueError as error:
        try:
            if not _MAYBE_HALF_PAIR.search(body):
                raise
            return json.loads(body.decode("utf-8", "surrogatepass"), parse_constant=_no_number)
        except (RecursionError, ValueError):
            raise MalformedRequest(f"the request is not valid JSON: {error}") from None


def _no_number(name: str) -> None:
    raise ValueError(name)


def write_request(queries: Sequence[str], k: int) -> bytes:
    """Write a request with scores: every server understands that form.

    Raises QueryError for a text that UTF-8 cannot encode, as with half of a surrogate pair.
    """
    try:
        return _dumps({"queries": list(queries), "topk": k, "return_scores": True})
    except TypeError:
        raise QueryError("a query holds characters that cannot be sent as UTF-8") from None


def write_reply(attempts: Sequence[Attempt], return_scores: bool) -> bytes:
    """Write a reply."""
    try:
        return _dumps(_reply(attempts, return_scores))
    except TypeError:  # a passage has half of a surrogate pair; it must not affect the others
        sendable = [_sendable(attempt) for attempt in attempts]
        reply = json.dumps(_reply(sendable, return_scores), ensure_ascii=False)
        return reply.encode("utf-8", "replace")


def _reply(attempts: Sequence[Attempt], return_scores: bool) -> Reply:
    hits = [one if isinstance(one, list) else [] for one in attempts]
    reply = Reply(result=[[_item(hit, return_scores) for hit in one] for one in hits])
    told = {
        place: one for place, one in enumerate(attempts) if isinstance(one, PartialHits | Exception)
    }
    if told:
        sentences = {place: _sentence(one) for place, one in told.items()}
        reply["errors"] = [sentences.get(place) for place in range(len(attempts))]
    if partial := [place for place, one in told.items() if isinstance(one, PartialHits)]:
        reply["partial"] = partial
    faults = (place for place, one in told.items() if not isinstance(one, QueryError | PartialHits))
    if failed := list(faults):
        reply["failed"] = failed
    return reply


def _sendable(attempt: Attempt) -> Attempt:
    """Drop the fields that cannot be serialised, such as too large numbers."""
    if not isinstance(attempt, list):
        return attempt
    hits = [
        replace(hit, fields={name: one for name, one in hit.fields.items() if _fits(name, one)})
        for hit in attempt
    ]
    return PartialHits(hits, attempt.reason) if isinstance(attempt, PartialHits) else hits


def _fits(name: str, value: Any) -> bool:
    try:
        _orjson().dumps({name: value}, default=str)
    except TypeError:
        return False
    return True


def _sentence(error: Exception | PartialHits) -> str:
    if isinstance(error, PartialHits):
        return error.reason[:_LONGEST_ERROR]
    if isinstance(error, CoevoError):
        return str(error)[:_LONGEST_ERROR]
    return f"the search failed: {type(error).__name__}: {error}"[:_LONGEST_ERROR]


def read_reply(body: bytes, *, count: int, k: int) -> list[Attempt]:
    """Return for each of `count` queries its hits, at most `k`, or why it has none.

    Understands both forms, documents without id or score (Search-R1's web search servers) and documents
    that are texts (its reranking server). Raises RetrieverUnavailable for anything else.
    """
    try:
        reply = _orjson().loads(body)
        result = reply["result"]
        if not isinstance(result, list) or len(result) != count:
            raise ValueError("wrong number of results")
        attempts: list[Attempt] = [
            [_read_hit(item, rank) for rank, item in enumerate(items[:k], 1)] for items in result
        ]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        start = body[:80].decode("utf-8", "replace")
        raise RetrieverUnavailable(
            f"the server's answer is not in Search-R1's format for {count} queries, it begins with "
            f"{start!r}; is this the address of a retrieval server?"
        ) from None
    _read_errors(reply, attempts)
    return attempts


def _read_errors(reply: Mapping[str, Any], attempts: list[Attempt]) -> None:
    """Put errors in place of hits, and mark partial hits. Other servers may use these fields for something
    else."""
    errors = reply.get("errors")
    if not isinstance(errors, list) or len(errors) != len(attempts):
        return
    faults, partial = _places(reply.get("failed")), _places(reply.get("partial"))
    for place, error in enumerate(errors):
        if not isinstance(error, str):
            continue
        found, sentence = attempts[place], error[:_LONGEST_ERROR]
        if place in partial and isinstance(found, list):
            attempts[place] = PartialHits(found, sentence)
        else:
            attempts[place] = (SearchFailed if place in faults else QueryError)(sentence)


def _places(given: object) -> set[int]:
    return {one for one in given if isinstance(one, int)} if isinstance(given, list) else set()


def write_health(info: IndexInfo) -> bytes:
    """Write the body of a healthy server's `/health`."""
    index = {
        "kind": info.kind,
        "passages": info.passages,
        "fingerprint": info.fingerprint,
        "details": dict(info.details),
    }
    try:
        return _dumps({"status": "ok", "index": index})
    except TypeError:  # a third-party retriever's details, too deep or too large to be serialised
        return _dumps({"status": "ok", "index": {**index, "details": {}}})


def read_health(body: bytes) -> IndexInfo:
    """Read `/health`. Raises RetrieverUnavailable for any other body."""
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
    """Write the body of an error."""
    return _dumps({"error": message})


def read_error(body: bytes) -> str:
    """Read the sentence in an error's body; FastAPI calls it "detail"."""
    try:
        content = _orjson().loads(body)
        return str(content.get("error") or content["detail"])[:_LONGEST_ERROR]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return body[:_LONGEST_ERROR].decode("utf-8", "replace").strip()


def _item(hit: Hit, scored: bool) -> dict[str, Any]:
    document = {**hit.fields, "id": hit.id, "contents": hit.contents}
    return {"document": document, "score": hit.score} if scored else document


def _read_hit(item: Any, rank: int) -> Hit:
    document, score = item, 0.0
    if isinstance(item, dict) and "document" in item and "contents" not in item:
        document, score = item["document"], float(item.get("score") or 0.0)
    if isinstance(document, str):
        return Hit("", document, score, rank)
    identity = document.get("id")
    fields = {name: value for name, value in document.items() if name not in _OWN}
    return Hit("" if identity is None else str(identity), _contents(document), score, rank, fields)


def _contents(document: dict[str, Any]) -> str:
    if (contents := document.get("contents")) is not None:
        return str(contents)
    title, text = document.get("title"), str(document["text"])
    return f'"{title}"\n{text}' if title else text


def _dumps(content: Any) -> bytes:
    encoded: bytes = _orjson().dumps(content, default=str)
    return encoded


@cache
def _orjson() -> ModuleType:
    require("orjson", extra="retrieval", purpose="talking to a retrieval server")
    return import_module("orjson")
