"""Check servers and clients that die, stall, lie or arrive in crowds."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from helpers.retrieval_server import PATIENT, EchoRetriever, ServerProcess, echo, serving
from prompt_coevo.retrieval.agent.tool import SearchTool
from prompt_coevo.retrieval.client.client import RemoteRetriever
from prompt_coevo.retrieval.errors import RetrieverUnavailable
from prompt_coevo.retrieval.outcomes import Outage, Refused
from prompt_coevo.retrieval.server.settings import ServerSettings

STEP = 10_240
PATIENCE_S = 3600.0


@pytest.fixture
def retriever() -> EchoRetriever:
    return EchoRetriever()


@contextlib.contextmanager
def connected(address: str) -> Iterator[socket.socket]:
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S) as client:
        yield client


def everything(client: socket.socket) -> bytes:
    """Read the server's output until it ends the connection."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := client.recv(65536):
            parts.append(part)
    return b"".join(parts)


def post(address: str, body: Any) -> Any:
    request = Request(f"{address}/retrieve", json.dumps(body).encode())
    with urlopen(request, timeout=PATIENCE_S) as response:
        return json.load(response)["result"]


def is_well(address: str) -> bool:
    remote = RemoteRetriever(address)
    found = remote.search(["a"], 1)
    remote.close()
    return found == [echo("a", 1)]


def test_a_whole_step_at_once_is_answered(retriever: EchoRetriever) -> None:
    queries = [f"question {number}" for number in range(STEP)]
    with serving(retriever) as address:
        remote = RemoteRetriever(address, total_timeout_s=PATIENCE_S)
        results = SearchTool(remote, k=3).search(queries)
        remote.close()
    assert results == [echo(query, 3) for query in queries]
    assert sorted(retriever.asked) == sorted(queries)


def test_a_whole_step_of_concurrent_rollouts_is_answered(retriever: EchoRetriever) -> None:
    queries = [f"question {number}" for number in range(STEP)]

    async def rollouts(tool: SearchTool) -> list[Any]:
        return await asyncio.gather(*(tool.asearch(query) for query in queries))

    with serving(retriever) as address:
        remote = RemoteRetriever(address, total_timeout_s=PATIENCE_S)
        results = asyncio.run(rollouts(SearchTool(remote, k=1)))
        remote.close()
    assert results == [echo(query, 1) for query in queries]


def test_a_whole_step_by_a_plain_client_is_answered(retriever: EchoRetriever) -> None:
    """As with Search-R1's trainer: all queries of a turn in one request, here four at a time."""
    parts = [[f"{part} {number}" for number in range(STEP // 4)] for part in range(4)]
    with serving(retriever) as address, ThreadPoolExecutor(4) as threads:
        assert is_well(address)
        asked = [
            threads.submit(post, address, {"queries": part, "topk": 1, "return_scores": True})
            for part in parts
        ]
        for part, future in zip(parts, asked, strict=True):
            contents = [items[0]["document"]["contents"] for items in future.result()]
            assert contents == [echo(query, 1)[0].contents for query in part]


def test_a_killed_server_is_used_again_when_it_is_back() -> None:
    """SIGKILL hits it in the middle of searches from several threads; each gets its right answer."""
    with ServerProcess() as server, ThreadPoolExecutor(8) as threads:
        remote = RemoteRetriever(server.address, cache_size=0, max_batch=4)
        tool = SearchTool(remote, k=1)
        done = threading.Semaphore(0)

        def rollout(number: int) -> list[Any]:
            results = []
            for turn in range(60):
                results += tool.search([f"{number} {turn}"])
                done.release()
            return results

        rollouts = [threads.submit(rollout, number) for number in range(8)]
        for _ in range(80):
            done.acquire()
        server.kill()
        server.start()
        for number, future in enumerate(rollouts):
            assert future.result() == [echo(f"{number} {turn}", 1) for turn in range(60)]
        remote.close()


def test_a_server_killed_for_longer_is_waited_for_or_told() -> None:
    with ServerProcess() as server, ThreadPoolExecutor(4) as threads:
        remote = RemoteRetriever(server.address, total_timeout_s=0.3)
        waits = SearchTool(remote, k=1, max_wait_s=PATIENCE_S)
        tells = SearchTool(remote, k=1, on_outage="observe")
        assert waits.search(["a"]) == [echo("a", 1)]
        server.kill()
        (told,) = tells.search(["b"])
        assert isinstance(told, Outage)
        waiting = threads.submit(waits.search, ["c"])
        (told,) = tells.search(["d"])
        assert isinstance(told, Outage)
        assert not waiting.done()
        server.start()
        assert waiting.result() == [echo("c", 1)]
        for _ in range(1000):  # a busy machine may take longer than this client is patient
            (told,) = tells.search(["b"])
            if not isinstance(told, Outage):
                break
        assert told == echo("b", 1)
        remote.close()


def test_one_of_two_replicas_is_killed() -> None:
    with ServerProcess() as first, ServerProcess() as second:
        addresses = [first.address, second.address]
        remote = RemoteRetriever(addresses, cache_size=0, total_timeout_s=PATIENCE_S)
        tool = SearchTool(remote, k=1, on_outage="raise")
        for number in range(200):
            if number == 50:
                first.kill()
            if number == 100:
                first.start()
                second.kill()
            assert tool.search([f"q{number}"]) == [echo(f"q{number}", 1)]
        remote.close()


HEAD = b"POST /retrieve HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"


def test_a_body_of_100_mb_is_refused(retriever: EchoRetriever) -> None:
    with serving(retriever) as address, connected(address) as client:
        size = 100 * 2**20
        client.sendall(HEAD % size)
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                client.sendall(b" " * 2**20)
        assert client.recv(1000).startswith(b"HTTP/1.1 413 ")
        assert is_well(address)


def test_a_chunked_body_without_end_is_refused(retriever: EchoRetriever) -> None:
    with serving(retriever, ServerSettings(max_body_bytes=2**20)) as address:
        with connected(address) as client:
            client.sendall(
                b"POST /retrieve HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
            )
            chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
            with contextlib.suppress(ConnectionError):
                for _ in range(64):
                    client.sendall(chunk)
            assert client.recv(1000).startswith(b"HTTP/1.1 413 ")
        assert is_well(address)


def test_after_a_body_that_is_too_large_the_connection_can_be_used(
    retriever: EchoRetriever,
) -> None:
    settings = ServerSettings(max_body_bytes=2**19)
    bodies = {413: b" " * 2**20, 200: b'{"queries": ["q"], "topk": 1}'}
    with serving(retriever, settings) as address:
        assert is_well(address)
        client = http.client.HTTPConnection(urlsplit(address).netloc, timeout=PATIENCE_S)
        client.connect()
        client.auto_open = 0  # so that there is no second one
        for status, body in bodies.items():
            client.request("POST", "/retrieve", body)
            reply = client.getresponse()
            assert reply.status == status
            reply.read()
        client.close()


def test_a_query_of_1_mb_is_cut_by_the_server_and_refused_by_the_client(
    retriever: EchoRetriever,
) -> None:
    query = "word " * 200_000
    with serving(retriever) as address:
        assert is_well(address)
        with connected(address) as client:
            body = json.dumps({"queries": [query]}).encode()
            head = b"POST /retrieve HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
            client.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)
            answer = everything(client)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert len(answer) < 100_000
        remote = RemoteRetriever(address)
        results = SearchTool(remote, k=1).search(["a", query])
        remote.close()
    assert results[0] == echo("a", 1)
    assert isinstance(results[1], Refused)


def test_a_body_that_does_not_arrive_is_not_waited_for(retriever: EchoRetriever) -> None:
    with serving(retriever, ServerSettings(read_timeout_s=0.2)) as address:
        with connected(address) as client:
            client.sendall(
                b"POST /retrieve HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n{"
            )
            assert client.recv(1000).startswith(b"HTTP/1.1 408 ")
        assert is_well(address)


def test_a_client_that_does_not_read_disturbs_nobody(retriever: EchoRetriever) -> None:
    """Its unread answers fill all buffers."""
    with serving(retriever) as address:
        assert is_well(address)
        with connected(address) as client:
            body = json.dumps({"queries": ["word " * 1000] * 40, "topk": 100}).encode()
            client.sendall(HEAD % len(body) + body)
            assert is_well(address)


def test_too_many_clients_are_told_to_come_again(retriever: EchoRetriever) -> None:
    with serving(retriever, replace(PATIENT, max_connections=3)) as address:
        with contextlib.ExitStack() as stack:
            crowd = [stack.enter_context(connected(address)) for _ in range(3)]
            for client in crowd:
                client.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
                assert client.recv(1000).startswith(b"HTTP/1.1 ")
            with connected(address) as late:
                late.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
                answer = everything(late)
            assert answer.startswith(b"HTTP/1.1 503 ")
        assert is_well(address)


def test_our_client_waits_while_too_many_are_connected(retriever: EchoRetriever) -> None:
    with serving(retriever, replace(PATIENT, max_connections=3)) as address:
        assert is_well(address)
        remote = RemoteRetriever(address, total_timeout_s=1.0)
        with contextlib.ExitStack() as stack:
            for _ in range(4):
                stack.enter_context(connected(address))
            with pytest.raises(RetrieverUnavailable, match="503"):
                remote.search(["a"], 1)
        remote.close()
        assert is_well(address)


def test_a_crowd_of_connections_is_served(retriever: EchoRetriever) -> None:
    """As with slime's rollouts: every query on a separate connection."""
    with serving(retriever) as address, ThreadPoolExecutor(64) as threads:
        assert is_well(address)
        asked = [threads.submit(post, address, {"queries": [f"q{n}"]}) for n in range(500)]
        for number, future in enumerate(asked):
            assert [item["id"] for item in future.result()[0]] == [
                hit.id for hit in echo(f"q{number}", 3)
            ]


def test_clients_that_hang_up_disturb_nobody(retriever: EchoRetriever) -> None:
    reset = struct.pack("ii", 1, 0)
    with serving(retriever) as address:
        assert is_well(address)
        retriever.gate.clear()
        for number in range(20):
            with connected(address) as client:
                body = json.dumps({"queries": [f"gone {number}"]}).encode()
                head = b"POST /retrieve HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"
                client.sendall(head % len(body) + (body if number % 2 else body[:5]))
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        retriever.gate.set()
        assert is_well(address)


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\x02\x00\x01", b"SSH-2.0-x\r\n\r\n", b"GET /%ff%00 HTTP/9\r\n\r\n"]
)
def test_other_protocols_disturb_nobody(retriever: EchoRetriever, sent: bytes) -> None:
    with serving(retriever, ServerSettings(read_timeout_s=0.2)) as address:
        with connected(address) as client:
            client.sendall(sent)
            everything(client)
        assert is_well(address)


def test_a_server_that_speaks_something_else_is_an_outage() -> None:
    """The rollout gets an outage that quotes the reply, whatever listens at the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        port = listener.getsockname()[1]

        def talk() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with client:
                        client.sendall(b"220 mail.example.org ESMTP\r\n")

        talking = threads.submit(talk)
        remote = RemoteRetriever(f"http://127.0.0.1:{port}", total_timeout_s=0.3)
        (result,) = SearchTool(remote, on_outage="observe").search(["a"])
        assert isinstance(result, Outage)
        remote.close()
        listener.shutdown(socket.SHUT_RDWR)
        talking.result()
