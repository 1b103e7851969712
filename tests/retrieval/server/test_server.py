"""Check the server: batching, limits, and a one-sentence answer to everything that goes wrong."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from helpers.retrieval_server import EchoRetriever, RaisingBatcher, echo, serving
from helpers.wire_forms import CLIENTS, ClientForm
from prompt_coevo.errors import HostError, SettingsError
from prompt_coevo.retrieval.batcher import DeadlineExceeded, QueueFull
from prompt_coevo.retrieval.errors import QueryError, RetrieverUnavailable
from prompt_coevo.retrieval.retriever import Hit, Limits
from prompt_coevo.retrieval.server.server import RetrievalServer
from prompt_coevo.retrieval.server.settings import ServerSettings
from prompt_coevo.retrieval.worker import Worker


class Reply:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        assert self.headers["content-type"] == "application/json"
        (sentence,) = self.json.values()
        return str(sentence)


def ask(
    address: str,
    body: bytes | dict[str, Any] | None = None,
    path: str = "/retrieve",
    headers: dict[str, str] | None = None,
    method: str = "POST",
) -> Reply:
    """Send one request on a separate connection, with the standard library."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=3600)
    content = json.dumps(body).encode() if isinstance(body, dict) else body
    try:
        connection.request(method, path, content, headers or {})
        return Reply(connection.getresponse())
    finally:
        connection.close()


def get(address: str, path: str) -> Reply:
    return ask(address, None, path, method="GET")


def warmed_up(address: str) -> None:
    while get(address, "/health").status != 200:
        pass


@pytest.mark.parametrize("form", CLIENTS, ids=lambda form: form.name)
def test_clients_of_the_field_are_served(form: ClientForm) -> None:
    with serving(EchoRetriever()) as address:
        warmed_up(address)
        reply = ask(address, form.body, headers=form.headers)
    assert reply.status == 200
    for items, query in zip(reply.json["result"], form.queries, strict=True):
        assert form.texts(items) == [hit.contents for hit in echo(query, form.k)]


def test_health_says_what_is_searched_once_a_first_search_worked() -> None:
    retriever = EchoRetriever()
    retriever.gate.clear()
    with serving(retriever) as address:
        early = get(address, "/health")
        assert (early.status, early.headers["retry-after"]) == (503, "1")
        assert "warming up" in early.error
        assert ask(address, {"queries": ["a"]}).status == 503
        retriever.gate.set()
        warmed_up(address)
        health = get(address, "/health").json
    assert health["index"] == {
        "kind": "echo",
        "passages": 1000,
        "fingerprint": "echo-1",
        "details": {"words": 7},
    }


@pytest.mark.parametrize("fingerprint", ["abc", "索引 2"])
def test_a_reply_says_which_index_it_is_from(fingerprint: str) -> None:
    with serving(EchoRetriever(fingerprint)) as address:
        warmed_up(address)
        sent = ask(address, {"queries": ["a"]}).headers["index-fingerprint"]
    assert sent.encode("latin-1").decode() == fingerprint


def test_blank_queries_find_nothing_and_leave_the_others_alone() -> None:
    with serving(EchoRetriever()) as address:
        warmed_up(address)
        result = ask(address, {"queries": [" ", "a", ""], "return_scores": True}).json["result"]
    assert [len(items) for items in result] == [0, 3, 0]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "not valid JSON"),
        (b'{"queries": [', 400, "not valid JSON"),
        ({"queries": "a"}, 422, "a list of texts"),
        ({"queries": ["a"], "topk": 6}, 422, "from 1 to 5"),
        ({"queries": ["a"] * 9}, 422, "9 queries at once"),
        ({"queries": ["boom"]}, 500, "ValueError: the index broke"),
        ({"queries": ["outage"]}, 503, "the disk is gone"),
    ],
)
def test_errors_are_one_sentence(body: Any, status: int, message: str) -> None:
    limits = Limits(max_k=5, max_query_chars=100, max_queries=8)
    with serving(EchoRetriever(), ServerSettings(limits=limits)) as address:
        warmed_up(address)
        reply = ask(address, body)
        assert (reply.status, message in reply.error) == (status, True), reply.body
        assert ask(address, {"queries": ["a"]}).status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/retrieve", 405), ("POST", "/search", 404)]
)
def test_wrong_addresses_are_told_the_right_one(method: str, path: str, status: int) -> None:
    with serving(EchoRetriever()) as address:
        reply = ask(address, b"{}", path, method=method)
        assert reply.status == status
        assert "POST /retrieve" in reply.error


def test_a_large_body_is_refused_by_its_declared_and_by_its_real_size() -> None:
    with serving(EchoRetriever(), ServerSettings(max_body_bytes=1000)) as address:
        warmed_up(address)
        assert ask(address, b"x" * 1001).status == 413
        chunks = (b"x" * 100 for _ in range(11))
        connection = http.client.HTTPConnection(urlsplit(address).netloc)
        connection.request("POST", "/retrieve", chunks, encode_chunked=True)
        reply = Reply(connection.getresponse())
        connection.close()
        assert (reply.status, "larger than 1000 bytes" in reply.error) == (413, True)
        assert ask(address, {"queries": ["a"]}).status == 200


def test_requests_during_a_search_become_one_batch() -> None:
    retriever = EchoRetriever()
    with serving(retriever) as address, ThreadPoolExecutor(20) as threads:
        warmed_up(address)
        retriever.entered.acquire()
        retriever.gate.clear()
        first = threads.submit(ask, address, {"queries": ["first"]})
        retriever.entered.acquire()
        rest = [threads.submit(ask, address, {"queries": [f"q{n}"]}) for n in range(12)]
        while waiting(address) < 12:
            pass
        retriever.gate.set()
        assert {future.result().status for future in [first, *rest]} == {200}
    assert [len(batch) for batch in retriever.batches] == [1, 1, 12]


def test_a_bad_query_fails_alone() -> None:
    retriever = EchoRetriever()
    with serving(retriever) as address, ThreadPoolExecutor(20) as threads:
        warmed_up(address)
        retriever.entered.acquire()
        retriever.gate.clear()
        first = threads.submit(ask, address, {"queries": ["first"]})
        retriever.entered.acquire()
        bad = threads.submit(ask, address, {"queries": ["fine", "boom"]})
        alone = threads.submit(ask, address, {"queries": ["boom"]})
        good = [threads.submit(ask, address, {"queries": [f"q{n}"]}) for n in range(3)]
        while waiting(address) < 6:
            pass
        retriever.gate.set()
        assert {future.result().status for future in [first, *good]} == {200}
        assert bad.result().json["errors"] == [
            None,
            "the search failed: ValueError: the index broke",
        ]
        assert alone.result().status == 500


def test_a_full_queue_is_told_at_once() -> None:
    retriever = EchoRetriever()
    settings = ServerSettings(max_waiting=2, limits=Limits(max_queries=2))
    with serving(retriever, settings) as address, ThreadPoolExecutor(5) as threads:
        warmed_up(address)
        retriever.entered.acquire()
        retriever.gate.clear()
        served = [threads.submit(ask, address, {"queries": ["first"]})]
        retriever.entered.acquire()
        served.append(threads.submit(ask, address, {"queries": ["a", "b"]}))
        while waiting(address) < 2:
            pass
        refused = ask(address, {"queries": ["c"]})
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert "2 queries are waiting, at most 2 may" in refused.error
        retriever.gate.set()
        assert {future.result().status for future in served} == {200}


@pytest.mark.parametrize(
    ("settings", "headers"),
    [
        (ServerSettings(deadline_s=0.05), {}),
        (ServerSettings(), {"request-timeout": "0.05"}),
    ],
)
def test_a_search_that_takes_too_long_is_given_up(
    settings: ServerSettings, headers: dict[str, str]
) -> None:
    retriever = EchoRetriever()
    with serving(retriever, settings) as address:
        warmed_up(address)
        retriever.gate.clear()
        late = ask(address, {"queries": ["running"]}, headers=headers)
        assert (late.status, "did not finish within 0.05 s" in late.error) == (504, True)
        assert ask(address, {"queries": ["waiting"]}, headers=headers).status == 504
        retriever.gate.set()
        statuses = (ask(address, {"queries": ["a"]}).status for _ in range(1000))
        assert next(status for status in statuses if status != 504) == 200  # or it is just busy
    assert "waiting" not in retriever.asked  # no client would have read the answer


@pytest.mark.parametrize("value", ["soon", "-1", "0", "nan"])
def test_a_senseless_timeout_header_is_passed_over(value: str) -> None:
    with serving(EchoRetriever()) as address:
        warmed_up(address)
        assert ask(address, {"queries": ["a"]}, headers={"request-timeout": value}).status == 200


def test_metrics_are_prometheus_text() -> None:
    with serving(EchoRetriever()) as address:
        warmed_up(address)
        ask(address, {"queries": ["a", "b"]})
        ask(address, b"no json")
        reply = get(address, "/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = reply.body.decode().splitlines()
    samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    prefix = "prompt_coevo_retrieval"
    assert samples[f'{prefix}_requests_total{{status="200"}}'] == "1"
    assert samples[f'{prefix}_requests_total{{status="400"}}'] == "1"
    assert samples[f"{prefix}_queries_total"] == "2"
    assert samples[f'{prefix}_batch_queries_bucket{{le="1"}}'] == "0"
    assert samples[f'{prefix}_batch_queries_bucket{{le="+Inf"}}'] == "1"
    assert samples[f"{prefix}_request_seconds_count"] == "2"
    assert float(samples["process_cpu_seconds_total"]) > 0


def waiting(address: str) -> int:
    name = "prompt_coevo_retrieval_waiting_queries "
    lines = get(address, "/metrics").body.decode().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])


def test_an_index_that_cannot_be_searched_ends_the_server() -> None:
    class Broken(EchoRetriever):
        def search(self, queries: Any, k: int) -> list[list[Hit]]:
            raise RetrieverUnavailable("the file is gone")

    server = RetrievalServer(Broken(), ServerSettings(port=0))
    with pytest.raises(RetrieverUnavailable, match="the file is gone"):
        server.run()


def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(HostError, match=f"port {port} of 127.0.0.1 is not available"):
            RetrievalServer(EchoRetriever(), ServerSettings(port=port))


@pytest.mark.parametrize(
    "values",
    [
        {"port": 70_000},
        {"max_batch": 0},
        {"deadline_s": -1.0},
        {"default_k": 101},
        {"max_waiting": 100},
    ],
)
def test_settings_that_cannot_work_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        ServerSettings(**values)


def batcher(retriever: EchoRetriever, **options: Any) -> RaisingBatcher:
    return RaisingBatcher(retriever.search, Worker("test"), **options)


def test_a_long_request_is_searched_in_parts() -> None:
    retriever = EchoRetriever()
    queries = [f"q{n}" for n in range(10)]
    found = asyncio.run(batcher(retriever, max_batch=4).search(queries, 2))
    assert found == [echo(query, 2) for query in queries]
    assert [len(batch) for batch in retriever.batches] == [4, 4, 2]


def test_a_batch_has_one_k_and_each_query_once() -> None:
    retriever = EchoRetriever()

    async def both() -> list[list[list[Hit]]]:
        joined = batcher(retriever)
        wanted = [(["a", "b"], 1), (["b"], 3), (["b", "c"], 1), (["c"], 3)]
        return await asyncio.gather(*(joined.search(queries, k) for queries, k in wanted))

    found = asyncio.run(both())
    assert found[2] == [echo("b", 1), echo("c", 1)]
    assert found[3] == [echo("c", 3)]
    assert retriever.batches == [["a", "b", "c"], ["b", "c"]]


@pytest.mark.parametrize(("took_s", "pauses"), [(0.001, []), (0.1, [0.01]), (60.0, [0.02])])
def test_only_after_a_long_search_is_there_a_pause(
    monkeypatch: pytest.MonkeyPatch, took_s: float, pauses: list[float]
) -> None:
    made: list[float] = []

    def timeout(seconds: float | None) -> asyncio.Timeout:
        made.extend([] if seconds is None else [seconds])
        return asyncio.timeout(None if seconds is None else 0)

    module = "prompt_coevo.retrieval.batcher"
    clock = itertools.count(0.0, took_s)
    monkeypatch.setattr(f"{module}.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    loops = SimpleNamespace(**{**vars(asyncio), "timeout": timeout})
    monkeypatch.setattr(f"{module}.asyncio", loops)

    async def search() -> None:
        joined = batcher(EchoRetriever())
        await joined.search(["a"], 1)
        assert joined._running is not None
        await joined._running

    asyncio.run(search())
    assert made == pytest.approx(pauses)


def test_the_pause_ends_when_all_have_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "prompt_coevo.retrieval.batcher"
    monkeypatch.setattr(f"{module}._LONG_SEARCH_S", 0.0)
    monkeypatch.setattr(f"{module}._LONGEST_PAUSE_S", float("inf"))
    clock = itertools.count(0.0, 1e6)
    monkeypatch.setattr(f"{module}.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    retriever = EchoRetriever()

    async def search() -> None:
        joined = batcher(retriever)
        await joined.search(["a"], 1)
        await joined.search(["b"], 1)
        await asyncio.gather(joined.search(["c"], 1), joined.search(["d"], 1))
        late = asyncio.ensure_future(joined.search(["e"], 1))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not late.done(), "one of two has asked again"
        await asyncio.gather(late, joined.search(["f"], 1))

    asyncio.run(search())
    assert retriever.batches == [["a"], ["b"], ["c", "d"], ["e", "f"]]


def test_a_retriever_that_loses_an_answer_is_noticed() -> None:
    lost = RaisingBatcher(lambda queries, k: [], Worker("test"))
    with pytest.raises(ValueError, match="shorter"):
        asyncio.run(lost.search(["a"], 1))


def test_the_batchers_errors_are_known_ones() -> None:
    retriever = EchoRetriever()
    retriever.gate.clear()

    async def errors() -> None:
        joined = batcher(retriever, max_waiting=1)
        with pytest.raises(QueueFull):
            await joined.search(["a", "b"], 1)
        with pytest.raises(DeadlineExceeded):
            await joined.search(["a"], 1, deadline_s=0.01)
        retriever.gate.set()
        assert await joined.search([], 1) == []
        assert await joined.search(["b"], 1) == [echo("b", 1)]

    asyncio.run(errors())


def test_refused_queries_of_a_retriever_are_a_refusal() -> None:
    class Picky(EchoRetriever):
        def search(self, queries: Any, k: int) -> list[list[Hit]]:
            if "picky" in queries:
                raise QueryError("query 0 is not to my taste")
            return super().search(queries, k)

    with serving(Picky()) as address:
        warmed_up(address)
        reply = ask(address, {"queries": ["a", "picky"]}).json
    assert [len(hits) for hits in reply["result"]] == [3, 0]
    assert reply["errors"] == [None, "the query is not to my taste"]
    assert "failed" not in reply


def test_worker_does_things_in_order_and_survives_errors() -> None:
    worker = Worker("test")
    done: list[int] = []
    futures = [worker.submit(lambda number=number: done.append(number)) for number in range(50)]
    broken = worker.submit(lambda: 1 / 0)
    name = worker.submit(lambda: threading.current_thread().name)
    assert name.result() == "test"
    assert done == list(range(50))
    assert isinstance(broken.exception(), ZeroDivisionError)
    assert all(future.done() for future in futures)
    worker.close()
