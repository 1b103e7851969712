"""Record what clients and servers in the field send, taken by hand from their code.

Clients: Search-R1's trainer and its inference script, verl's search tool, slime's example, NeMo Gym's
offline search, and a client that leaves the optional fields out. Servers: Search-R1's retriever with
and without scores (its BM25 documents have a title and a text, too), its web search and its reranker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ClientForm:
    """A request's body on the wire, and how the client reads the texts for one query."""

    name: str
    body: bytes
    queries: list[str]
    k: int
    texts: Callable[[list[Any]], list[str]]
    headers: dict[str, str]


@dataclass(frozen=True)
class ServerForm:
    """A reply's body to one query, and the expected ids, contents and scores."""

    name: str
    body: bytes
    hits: list[tuple[str, str, float]]


def _with_score(items: list[Any]) -> list[str]:
    return [item["document"]["contents"] for item in items]


def _bare(items: list[Any]) -> list[str]:
    return [item["contents"] for item in items]


_JSON = {"content-type": "application/json"}

CLIENTS = [
    ClientForm(
        "search-r1 trainer",
        b'{"queries": ["who wrote Moby Dick", "Caf\\u00e9 de Flore"], "topk": 3, "return_scores": true}',
        ["who wrote Moby Dick", "Café de Flore"],
        3,
        _with_score,
        {**_JSON, "user-agent": "python-requests/2.32.3", "accept-encoding": "gzip, deflate"},
    ),
    ClientForm(
        "search-r1 inference",
        b'{"queries": ["capital of France"], "topk": 3, "return_scores": true}',
        ["capital of France"],
        3,
        _with_score,
        _JSON,
    ),
    ClientForm(
        "verl search tool",
        b'{"queries": ["who wrote Moby Dick"], "topk": 5, "return_scores": true}',
        ["who wrote Moby Dick"],
        5,
        _with_score,
        {**_JSON, "accept": "application/json"},
    ),
    ClientForm(
        "slime local search",
        b'{"queries": ["capital of France"], "topk": 3, "return_scores": false}',
        ["capital of France"],
        3,
        _bare,
        {**_JSON, "accept": "*/*"},
    ),
    ClientForm(
        "nemo gym offline search",
        b'{"queries":["test query"],"topk":5,"return_scores":false}',
        ["test query"],
        5,
        _bare,
        _JSON,
    ),
    ClientForm(
        "topk null",
        b'{"queries": ["capital of France"], "topk": null, "return_scores": true}',
        ["capital of France"],
        3,
        _with_score,
        _JSON,
    ),
    ClientForm(
        "only queries, as form data (curl without a header)",
        b'{"queries": ["capital of France"]}',
        ["capital of France"],
        3,
        _bare,
        {"content-type": "application/x-www-form-urlencoded"},
    ),
]

SERVERS = [
    ServerForm(
        "search-r1 with scores",
        b'{"result": [[{"document": {"id": "7", "contents": "\\"Paris\\"\\nA city."}, "score": 0.83},'
        b' {"document": {"id": "9", "contents": "\\"Lyon\\"\\nA city."}, "score": 0.81}]]}',
        [("7", '"Paris"\nA city.', 0.83), ("9", '"Lyon"\nA city.', 0.81)],
    ),
    ServerForm(
        "search-r1 bare documents",
        b'{"result": [[{"id": "7", "contents": "\\"Paris\\"\\nA city."}]]}',
        [("7", '"Paris"\nA city.', 0.0)],
    ),
    ServerForm(
        "ids that are numbers",
        b'{"result": [[{"document": {"id": 7, "contents": "\\"Paris\\"\\nA city."}, "score": 1}]]}',
        [("7", '"Paris"\nA city.', 1.0)],
    ),
    ServerForm(
        "search-r1 bm25 over an index that holds the texts",
        b'{"result": [[{"document": {"title": "Paris", "text": "A city.", '
        b'"contents": "\\"Paris\\"\\nA city."}, "score": 12.5}]]}',
        [("", '"Paris"\nA city.', 12.5)],
    ),
    ServerForm(
        "title and text alone",
        b'{"result": [[{"document": {"id": "7", "title": "Paris", "text": "A city."}, "score": 2}]]}',
        [("7", '"Paris"\nA city.', 2.0)],
    ),
    ServerForm(
        "search-r1 web search",
        b'{"result": [[{"document": {"contents": "\\"Paris\\"\\nA city."}}]]}',
        [("", '"Paris"\nA city.', 0.0)],
    ),
    ServerForm(
        "search-r1 reranker",
        b'{"result": [[{"document": "\\"Paris\\"\\nA city.", "score": -1.5}]]}',
        [("", '"Paris"\nA city.', -1.5)],
    ),
    ServerForm(
        "search-r1 reranker, bare",
        b'{"result": [["\\"Paris\\"\\nA city."]]}',
        [("", '"Paris"\nA city.', 0.0)],
    ),
    ServerForm("nothing found", b'{"result": [[]]}', []),
]
