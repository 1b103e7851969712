"""Check that a request fails only for its bad queries: with Search-R1's client none ends training."""

from __future__ import annotations

import http.client
import json
import logging
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest

from helpers.retrieval_server import PATIENT, EchoRetriever, echo, serving
from prompt_coevo.retrieval.client.client import RemoteRetriever
from prompt_coevo.retrieval.retriever import Hit, Limits
from prompt_coevo.retrieval.server.settings import ServerSettings


class SearchR1Client:
    """Make the client's calls and read replies as it does, by hand, with the standard library for
    `requests`."""

    def __init__(self, address: str, topk: int = 3) -> None:
        self.address, self.topk = address, topk
        warm = RemoteRetriever(address, total_timeout_s=3600.0)
        warm.info()
        warm.close()

    def batch_search(self, queries: list[Any]) -> list[str]:
        results = self._batch_search(queries)["result"]
        return [self._passages2string(result) for result in results]

    def _batch_search(self, queries: list[Any]) -> Any:
        payload = {"queries": queries, "topk": self.topk, "return_scores": True}
        # As `requests` does it: json.dumps, then UTF-8.
        return self.post(json.dumps(payload, allow_nan=False).encode())

    def _passages2string(self, retrieval_result: list[Any]) -> str:
        format_reference = ""
        for idx, doc_item in enumerate(retrieval_result):
            content = doc_item["document"]["contents"]
            title = content.split("\n")[0]
            text = "\n".join(content.split("\n")[1:])
            format_reference += f"Doc {idx + 1}(Title: {title}) {text}\n"
        return format_reference

    def post(self, body: bytes, headers: dict[str, str] | None = None) -> Any:
        connection = http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=3600)
        sent = {"content-type": "application/json", **(headers or {})}
        connection.request("POST", "/retrieve", body, sent)
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer


def told(query: str) -> str:
    return "".join(
        f'Doc {hit.rank}(Title: "{query}") Passage {hit.rank}.\n' for hit in echo(query, 3)
    )


BROKEN = ["", " \n", "\ud800", None, 7, ["a"], {"q": "a"}, "boom", "picky"]


class Picky(EchoRetriever):
    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        if "picky" in queries:
            raise KeyError("picky")
        return super().search(queries, k)


@pytest.mark.parametrize(("count", "broken"), [(256, None), (256, "picky"), (10_240, "boom")])
def test_one_broken_query_of_a_step_and_the_step_goes_on(count: int, broken: Any) -> None:
    queries: list[Any] = [f"question {number}" for number in range(count)]
    queries[count // 2] = broken
    retriever = Picky()
    with serving(retriever) as address:
        found = SearchR1Client(address).batch_search(queries)
    assert found == ["" if query is broken else told(query) for query in queries]
    assert max(map(len, retriever.batches)) <= 256


def test_all_broken_ones_together() -> None:
    with serving(Picky()) as address:
        client = SearchR1Client(address)
        assert client.batch_search([*BROKEN, "a"]) == [""] * len(BROKEN) + [told("a")]
        assert client.batch_search(BROKEN[:7]) == [""] * 7
        assert client.batch_search([]) == []


def test_a_server_before_a_server_tells_the_same() -> None:
    """A server in front of a server, with the retriever `remote`, reports the same errors."""
    queries = ["a", "boom", "b", ""]
    with serving(EchoRetriever()) as behind:
        remote = RemoteRetriever(behind, total_timeout_s=3600.0)
        with serving(remote) as address:
            client = SearchR1Client(address)
            assert client.batch_search(queries) == [told("a"), "", told("b"), ""]
            reply = client.post(b'{"queries": ["boom"]}')
            assert list(reply) == ["error"]
            assert "the index broke" in reply["error"]
        remote.close()


def test_a_long_query_is_searched_for_by_its_beginning(caplog: pytest.LogCaptureFixture) -> None:
    """As on Search-R1's server, whose encoder reads 256 tokens of it."""
    retriever = EchoRetriever()
    with serving(retriever) as address, caplog.at_level(logging.WARNING):
        client = SearchR1Client(address)
        long = "word " * 200_000
        short = ("word " * 2000).strip()
        assert client.batch_search(["a", long]) == [told("a"), told(short)]
        assert client.batch_search([long, "x" * 10_001]) == [told(short), told("x" * 10_000)]
        lines = metrics(address)
    logged = [record.getMessage() for record in caplog.records if "was cut" in record.getMessage()]
    assert len(logged) == 1
    assert "a query of 1000000 characters was cut to 10000 (max_query_chars)" in logged[0]
    assert lines["prompt_coevo_retrieval_cut_queries_total"] == 3


def test_metrics_say_what_became_of_queries() -> None:
    with serving(EchoRetriever()) as address:
        SearchR1Client(address).batch_search(["a", "b", "", "boom", None])
        lines = metrics(address)
    counted = {kind: lines[f"prompt_coevo_retrieval_{kind}queries_total"] for kind in KINDS}
    assert counted == {"": 2, "refused_": 2, "failed_": 1, "cut_": 0}


KINDS = ["", "refused_", "failed_", "cut_"]


def metrics(address: str) -> dict[str, float]:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=3600)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    samples = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in samples}


def test_errors_stand_beside_the_result_and_only_if_there_are_some() -> None:
    with serving(EchoRetriever()) as address:
        client = SearchR1Client(address)
        reply = client.post(b'{"queries": ["a", "", "boom"]}')
        assert reply["errors"] == [
            None,
            "the query is empty",
            "the search failed: ValueError: the index broke",
        ]
        assert reply["failed"] == [2]
        assert list(client.post(b'{"queries": ["a"]}')) == ["result"]


def test_an_outage_is_not_passed_off_as_nothing_found() -> None:
    with serving(EchoRetriever()) as address:
        assert SearchR1Client(address).post(b'{"queries": ["a", "outage", ""]}') == {
            "error": "the disk is gone"
        }


@pytest.mark.parametrize(
    ("headers", "seconds"), [({}, "0.2"), ({"request-timeout": "0.05"}, "0.05")]
)
def test_a_long_request_has_time_for_each_of_its_batches(
    headers: dict[str, str], seconds: str
) -> None:
    """Except when the client says how long it will wait."""
    retriever = EchoRetriever()
    settings = ServerSettings(max_batch=2, deadline_s=0.01, read_timeout_s=3600)
    with serving(retriever, settings) as address:
        client = SearchR1Client(address)
        retriever.gate.clear()
        body = json.dumps({"queries": [f"q{number}" for number in range(40)]}).encode()
        assert f"did not finish within {seconds} s" in client.post(body, headers)["error"]
        retriever.gate.set()


def test_what_is_too_much_for_the_memory_is_refused_as_a_whole() -> None:
    settings = ServerSettings(
        max_body_bytes=1000,
        limits=Limits(max_queries=3),
        deadline_s=PATIENT.deadline_s,
        read_timeout_s=PATIENT.read_timeout_s,
    )
    with serving(EchoRetriever(), settings) as address:
        client = SearchR1Client(address)
        assert (
            "4 queries at once, at most 3"
            in client.post(b'{"queries": ["a","b","c","d"]}')["error"]
        )
        assert (
            "larger than 1000 bytes" in client.post(b'{"queries": ["%b"]}' % (b"a" * 1000))["error"]
        )
