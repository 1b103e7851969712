"""Check the client: which queries it joins, which it retries, and its errors when there is no answer."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from helpers.global_random import twice_seeded_alike
from helpers.retrieval_server import EchoRetriever, echo, free_port, serving
from helpers.scripted_http import Reply, echoed, scripted
from helpers.waits import waits_take_no_time
from helpers.wire_forms import SERVERS, ServerForm
from prompt_coevo.errors import SettingsError
from prompt_coevo.retrieval.agent.tool import SearchTool
from prompt_coevo.retrieval.client.client import HitCache, RemoteClient, RemoteRetriever
from prompt_coevo.retrieval.client.replicas import Replicas
from prompt_coevo.retrieval.client.urls import health_url, retrieve_url
from prompt_coevo.retrieval.errors import QueryError, RetrieverUnavailable
from prompt_coevo.retrieval.outcomes import Refused
from prompt_coevo.retrieval.retriever import IndexInfo, Limits
from prompt_coevo.retrieval.server.settings import ServerSettings


@contextlib.contextmanager
def client(*urls: str, **options: Any) -> Iterator[RemoteRetriever]:
    retriever = RemoteRetriever(urls, **{"total_timeout_s": 3600.0, **options})
    try:
        yield retriever
    finally:
        retriever.close()


def served(path: str, body: dict[str, Any] | None) -> Reply:
    return Reply(status=404) if body is None else echoed(body)


def test_hits_come_back_as_the_index_gave_them() -> None:
    with serving(EchoRetriever()) as address, client(address) as remote:
        assert remote.search(["a", "é \n\u2028"], 2) == [echo("a", 2), echo("é \n\u2028", 2)]
        assert remote.search([], 2) == []
        assert remote.info() == IndexInfo("echo", 1000, "echo-1", {"words": 7})


@pytest.mark.parametrize("form", SERVERS, ids=lambda form: form.name)
def test_servers_of_the_field_are_understood(form: ServerForm) -> None:
    with scripted(lambda path, body: Reply(form.body)) as server, client(server.address) as remote:
        (hits,) = remote.search(["capital of France"], 3)
    assert [(hit.id, hit.contents, hit.score) for hit in hits] == form.hits
    assert server.requests == [{"queries": ["capital of France"], "topk": 3, "return_scores": True}]


def test_a_server_without_health_page_tells_nothing_about_its_index() -> None:
    with scripted(served) as server, client(server.address) as remote:
        info = remote.info()
    assert (info.kind, info.passages, info.fingerprint) == ("remote", 0, "")


def test_concurrent_queries_share_requests_and_equal_ones_are_sent_once() -> None:
    retriever = EchoRetriever()

    async def ask(address: str) -> None:
        remote = RemoteClient(address)
        await remote.info()
        wanted = [f"q{number % 40}" for number in range(100)]
        found = await asyncio.gather(*(remote.search([query], 3) for query in wanted))
        assert found == [[echo(query, 3)] for query in wanted]
        await remote.aclose()

    with serving(retriever) as address:
        asyncio.run(ask(address))
    assert sorted(retriever.asked) == sorted({f"q{number}" for number in range(40)})
    assert len(retriever.batches) == 2


def test_threads_and_loops_share_requests_too() -> None:
    retriever = EchoRetriever()
    with serving(retriever) as address, client(address, max_in_flight=1) as remote:
        remote.info()
        retriever.entered.acquire()
        retriever.gate.clear()
        with ThreadPoolExecutor(16) as threads:
            first = threads.submit(remote.search, ["first"], 1)
            retriever.entered.acquire()
            inside = threading.Barrier(9)

            def ask(number: int) -> Any:
                inside.wait()
                if number % 2:
                    return remote.search([f"q{number}"], 1)
                return asyncio.run(remote.search_each([f"q{number}"], 1))

            rest = [threads.submit(ask, number) for number in range(8)]
            inside.wait()
            while len(remote._client._in_flight) < 9:
                pass
            retriever.gate.set()
            assert [future.result() for future in rest] == [[echo(f"q{n}", 1)] for n in range(8)]
            first.result()
    assert [len(batch) for batch in retriever.batches] == [1, 1, 8]


def test_long_lists_go_out_in_parts() -> None:
    queries = [f"q{number}" for number in range(10)]
    with scripted(served) as server, client(server.address, max_batch=4) as remote:
        assert remote.search(queries, 1) == [echo(query, 1) for query in queries]
    assert sorted(map(len, server.queries)) == [2, 4, 4]


def test_answers_are_kept_for_as_long_as_the_index_is_the_same() -> None:
    retriever = EchoRetriever()
    with serving(retriever) as address, client(address, cache_size=2) as remote:
        for query in ("a", "b", "a", "c", "a", "b"):
            assert remote.search([query], 1) == [echo(query, 1)]
        remote.search(["a"], 2)
    assert retriever.asked == ["a", "b", "c", "b", "a"]


def test_nothing_is_kept_after_the_index_changed() -> None:
    prints = itertools.chain(["old", "old", "new"], itertools.repeat("old"))

    def script(path: str, body: dict[str, Any] | None) -> Reply:
        assert body is not None
        return echoed(body, index_fingerprint=next(prints))

    with scripted(script) as server, client(server.address) as remote:
        for query in ("a", "b", "a", "c", "a", "b"):
            remote.search([query], 1)
    assert server.queries == [["a"], ["b"], ["c"], ["a"], ["b"]]


def test_nothing_is_kept_of_a_server_without_fingerprint() -> None:
    with scripted(served) as server, client(server.address) as remote:
        remote.search(["a"], 1)
        remote.search(["a"], 1)
    assert len(server.requests) == 2


def test_callers_may_change_their_lists_of_hits() -> None:
    with serving(EchoRetriever()) as address, client(address) as remote:
        first, second = remote.search(["a", "a"], 2)
        first.clear()
        assert second == echo("a", 2)
        assert remote.search(["a"], 2) == [echo("a", 2)]


@pytest.mark.parametrize("status", [0, 408, 429, 502, 503, 504])
def test_passing_failures_are_asked_again(status: int) -> None:
    failures = iter([Reply(b"busy", status)] * 2)

    def script(path: str, body: dict[str, Any] | None) -> Reply:
        assert body is not None
        return next(failures, None) or echoed(body)

    with scripted(script) as server, client(server.address) as remote:
        assert remote.search(["a"], 1) == [echo("a", 1)]
    assert len(server.requests) == 3


def test_ranks_that_are_seeded_alike_wait_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = waits_take_no_time(monkeypatch.setattr)

    def waited(**headers: str) -> list[float]:
        failures = iter([Reply(b"busy", 503, headers)] * 3)
        waits.clear()
        with (
            scripted(lambda _, body: next(failures, None) or echoed(body or {})) as server,
            client(server.address) as remote,
        ):
            remote.search(["a"], 1)
        return list(waits)

    one, other = twice_seeded_alike(waited)
    assert one != other
    one, other = twice_seeded_alike(lambda: waited(**{"retry-after": "40"}))
    assert one != other
    assert all(40 <= seconds <= 60 for seconds in one + other)


def test_retry_after_is_honoured() -> None:
    """A request to wait longer than the time left is not retried."""

    def busy(path: str, body: dict[str, Any] | None) -> Reply:
        return Reply(b'{"error": "too much waits"}', 503, {"retry-after": "3600"})

    with (
        scripted(busy) as server,
        client(server.address) as remote,
        pytest.raises(RetrieverUnavailable, match="503: too much waits"),
    ):
        remote.search(["a"], 1)
    assert len(server.requests) == 1


@pytest.mark.parametrize("value", ["soon", "-3", "nan", "inf", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_an_unusable_retry_after_is_passed_over(value: str) -> None:
    failures = iter([Reply(b"busy", 503, {"retry-after": value})])

    def script(path: str, body: dict[str, Any] | None) -> Reply:
        assert body is not None
        return next(failures, None) or echoed(body)

    with scripted(script) as server, client(server.address) as remote:
        assert remote.search(["a"], 1) == [echo("a", 1)]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(b'{"detail": "Not Found"}', 404), "404: Not Found; is this the address"),
        (Reply(b"<html>sign in</html>"), "not in Search-R1's format"),
        (Reply(b'{"result": []}'), "not in Search-R1's format for 1 queries"),
        (Reply(b"Internal Server Error", 500), "could not search: Internal Server Error"),
    ],
)
def test_lasting_failures_are_not_asked_again(reply: Reply, message: str) -> None:
    with (
        scripted(lambda path, body: reply) as server,
        client(server.address) as remote,
        pytest.raises(RetrieverUnavailable, match=message),
    ):
        remote.search(["a"], 1)
    assert len(server.requests) == 1


def test_no_server_is_one_clear_sentence() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with client(address, total_timeout_s=0.3) as remote:
        with pytest.raises(
            RetrieverUnavailable, match=r"no retrieval server answered within 0.3 s"
        ):
            remote.search(["a"], 1)
        with pytest.raises(RetrieverUnavailable, match=address):
            remote.info()


def test_a_server_that_hangs_is_given_up() -> None:
    retriever = EchoRetriever()
    with serving(retriever) as address, client(address, total_timeout_s=0.3) as remote:
        with client(address) as patient:
            patient.info()
        retriever.gate.clear()
        with pytest.raises(RetrieverUnavailable, match="no retrieval server answered within 0.3 s"):
            remote.search(["a"], 1)
        retriever.gate.set()
        for _ in range(1000):  # a busy machine may take longer than 0.3 s
            (found,) = asyncio.run(remote.search_each(["b"], 1))
            if isinstance(found, list):
                break
        assert found == echo("b", 1)


def test_a_refusal_reaches_only_the_query_that_it_is_about() -> None:
    class Picky(EchoRetriever):
        def search(self, queries: Any, k: int) -> Any:
            if "picky" in queries:
                raise QueryError("query 0 is not to my taste")
            return super().search(queries, k)

    with serving(Picky()) as address, client(address) as remote:
        queries = ["a", "picky", "c", "boom", "d", "", "\ud800"]
        outcomes = asyncio.run(remote.search_each(queries, 1))
        with pytest.raises(QueryError, match="the query is not to my taste"):
            remote.search(queries[:3], 1)
        assert SearchTool(remote, k=1).search(["a", "picky"]) == [
            echo("a", 1),
            Refused("the query is not to my taste"),
        ]
    good = [outcomes[number] for number in (0, 2, 4)]
    assert good == [echo(query, 1) for query in ("a", "c", "d")]
    kinds = [type(outcomes[number]) for number in (1, 5, 6)]
    assert kinds == [QueryError] * 3
    assert isinstance(outcomes[3], RetrieverUnavailable)


def test_a_server_that_refuses_the_whole_request_is_asked_for_its_parts() -> None:
    """Our server used to refuse whole requests, and others still do."""

    def script(path: str, body: dict[str, Any] | None) -> Reply:
        assert body is not None
        if any(len(query) > 50 for query in body["queries"]):
            return Reply(b'{"error": "query 0 has 51 characters"}', 422)
        return echoed(body)

    with scripted(script) as server, client(server.address) as remote:
        a, long, c = asyncio.run(remote.search_each(["a", "b" * 51, "c"], 1))
    assert [a, c] == [echo("a", 1), echo("c", 1)]
    assert isinstance(long, QueryError)
    assert str(long) == "the query has 51 characters"


def test_a_batch_that_is_too_large_for_the_server_is_cut() -> None:
    settings = ServerSettings(limits=Limits(max_queries=3), max_body_bytes=200)
    queries = [f"query number {number}" for number in range(10)]
    with serving(EchoRetriever(), settings) as address, client(address) as remote:
        assert remote.search(queries, 1) == [echo(query, 1) for query in queries]


def test_replicas_take_turns_and_a_dead_one_is_left_out() -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    with scripted(served) as one, scripted(served) as two:
        with client(one.address, dead, two.address) as remote:
            for number in range(12):
                assert remote.search([f"q{number}"], 1) == [echo(f"q{number}", 1)]
        assert one.requests
        assert two.requests
        assert len(one.requests) + len(two.requests) == 12


def test_a_replica_that_hangs_leaves_time_for_another() -> None:
    retriever = EchoRetriever()
    with serving(retriever) as hanging, scripted(served) as well:
        with client(hanging) as remote:
            remote.info()
        retriever.gate.clear()
        # Half of the time goes to the one that hangs; on a busy machine the rest may be too short.
        for total_s in (2.0, 20.0, 200.0):
            with client(hanging, well.address, total_timeout_s=total_s) as remote:
                found = [asyncio.run(remote.search_each([query], 1))[0] for query in "ab"]
            if all(isinstance(outcome, list) for outcome in found):
                break
        assert found == [echo("a", 1), echo("b", 1)]
        retriever.gate.set()


def test_a_cancelled_caller_takes_nobody_along() -> None:
    retriever = EchoRetriever()

    async def ask(address: str) -> None:
        remote = RemoteClient(address)
        await remote.info()
        retriever.gate.clear()
        impatient = asyncio.create_task(remote.search(["a"], 1))
        patient = asyncio.create_task(remote.search(["a"], 1))
        await asyncio.sleep(0)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        retriever.gate.set()
        assert await patient == [echo("a", 1)]
        await remote.aclose()

    with serving(retriever) as address:
        asyncio.run(ask(address))


def test_closing_tells_those_who_wait() -> None:
    retriever = EchoRetriever()
    with serving(retriever) as address, ThreadPoolExecutor(1) as threads:
        remote = RemoteRetriever(address)
        remote.info()
        retriever.entered.acquire()
        retriever.gate.clear()
        waiting = threads.submit(asyncio.run, remote.search_each(["a"], 1))
        retriever.entered.acquire()
        remote.close()
        remote.close()
        (outcome,) = waiting.result()
        assert "the client was closed" in str(outcome)
        with pytest.raises(RetrieverUnavailable, match="was closed"):
            remote.search(["a"], 1)
        assert isinstance(asyncio.run(remote.search_each(["a"], 1))[0], RetrieverUnavailable)
        retriever.gate.set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_is_told_to_open_its_own() -> None:
    with client("http://127.0.0.1:1") as remote:
        child = os.fork()
        if not child:
            outcome = asyncio.run(remote.search_each(["a"], 1))[0]
            os._exit(0 if "forked" in str(outcome) else 1)
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8000",
        "ftp://host",
        "http://",
        "http://host:port",
        "",
        "http://host:70000",
        "http://a..b",
    ],
)
def test_unusable_addresses_are_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="is no address of a retrieval server"):
        RemoteClient(url)


def test_a_password_in_an_unusable_address_is_not_shown() -> None:
    with pytest.raises(SettingsError, match="//host:port' is no address") as wrong:
        RemoteClient("http://me:pa55w0rd@host:port")
    assert "pa55w0rd" not in str(wrong.value)


def test_no_address_at_all_is_refused() -> None:
    with pytest.raises(SettingsError, match="no address"):
        RemoteClient([])


@pytest.mark.parametrize(
    ("given", "retrieve", "health"),
    [
        ("http://h:8000", "http://h:8000/retrieve", "http://h:8000/health"),
        ("http://h:8000/", "http://h:8000/retrieve", "http://h:8000/health"),
        ("http://h:8000/retrieve", "http://h:8000/retrieve", "http://h:8000/health"),
        ("https://h/a/retrieve/", "https://h/a/retrieve", "https://h/a/health"),
        ("http://[::1]:8000", "http://[::1]:8000/retrieve", "http://[::1]:8000/health"),
    ],
)
def test_addresses(given: str, retrieve: str, health: str) -> None:
    assert retrieve_url(given) == retrieve
    assert health_url(retrieve) == health


def test_clients_that_are_seeded_alike_begin_with_different_servers() -> None:
    urls = [f"http://server{number}" for number in range(100)]

    def begun() -> list[str]:
        made = [Replicas(urls) for _ in range(20)]
        first = [replicas.pick(0.0).url for replicas in made]
        for replicas in made:
            replicas.change(urls)
        return first + [replicas.pick(0.0).url for replicas in made]

    one, other = twice_seeded_alike(begun)
    assert one[:20] != other[:20]
    assert one[20:] != other[20:]


def test_a_failing_replica_is_left_out_for_longer_each_time() -> None:
    replicas = Replicas(["a", "b"])
    picked = {replicas.pick(0.0).url, replicas.pick(0.0).url}
    assert picked == {"a", "b"}
    sick = replicas.pick(0.0)
    replicas.failed(sick, 0.0)
    well = replicas.pick(0.0)
    assert well is not sick
    assert all(replicas.pick(0.1) is well for _ in range(5))
    assert {replicas.pick(0.6), replicas.pick(0.6)} == {sick, well}
    replicas.failed(sick, 1.0)
    assert all(replicas.pick(1.9) is well for _ in range(5))
    replicas.failed(well, 1.9, retry_after_s=60.0)
    assert not replicas.any_ready(1.9)
    assert replicas.pick(1.9) is sick
    replicas.answered(sick)
    assert replicas.any_ready(1.9)


def test_the_cache_forgets_the_least_recently_used() -> None:
    cache = HitCache(2)
    for query in "ab":
        cache.put("x", (query, 1), echo(query, 1))
    assert cache.get(("a", 1)) == echo("a", 1)
    cache.put("x", ("c", 1), [])
    assert cache.get(("b", 1)) is None
    assert cache.get(("c", 1)) == []
    cache.now_searched("y")
    assert cache.get(("a", 1)) is None
