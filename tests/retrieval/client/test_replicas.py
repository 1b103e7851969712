"""Check several servers: they search the same index, or are refused."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from helpers.retrieval_server import EchoRetriever, echo, serving
from helpers.scripted_http import Reply, Script, echoed, scripted
from prompt_coevo.retrieval.agent.tool import OnOutage, SearchTool
from prompt_coevo.retrieval.client.client import RemoteRetriever
from prompt_coevo.retrieval.client.replicas import Replicas
from prompt_coevo.retrieval.errors import ReplicasDiffer, RetrieverUnavailable
from prompt_coevo.retrieval.outcomes import Attempt


def server(fingerprint: Callable[[], str], well: Callable[[], bool] = lambda: True) -> Script:
    """Name this index in health and search replies."""

    def script(path: str, body: dict[str, Any] | None) -> Reply:
        if not well():
            return Reply(b"{}", 503)
        if body is not None:
            return echoed(body, index_fingerprint=fingerprint())
        index = {"kind": "echo", "passages": 1, "fingerprint": fingerprint(), "details": {}}
        return Reply(json.dumps({"status": "ok", "index": index}).encode())

    return script


def asked(remote: RemoteRetriever, count: int) -> list[Attempt]:
    return [asyncio.run(remote.search_each([f"q{n}"], 1))[0] for n in range(count)]


@pytest.mark.parametrize("mode", ["wait", "observe", "raise"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_different_indexes_are_refused_by_the_first_search(
    mode: OnOutage, asynchronous: bool
) -> None:
    with serving(EchoRetriever("abc")) as one, serving(EchoRetriever("xyz")) as two:
        for address in (one, two):
            alone = RemoteRetriever(address)
            assert alone.search(["a"], 1) == [echo("a", 1)]
            alone.close()
        remote = RemoteRetriever([one, two])
        tool = SearchTool(remote, k=1, on_outage=mode)
        with pytest.raises(ReplicasDiffer) as raised:
            asyncio.run(tool.asearch("a")) if asynchronous else tool.search(["a", "b"])
        with pytest.raises(ReplicasDiffer):
            remote.info()
        with pytest.raises(ReplicasDiffer):
            remote.search(["a"], 1)
        remote.close()
    assert str(raised.value) == (
        f"the retrieval servers do not search the same index: {one}/retrieve has the fingerprint 'abc' "
        f"and {two}/retrieve has 'xyz'; give all of them the same index, or name one server alone"
    )


def test_one_that_comes_back_with_another_index_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    second = ["abc"]
    with (
        scripted(server(lambda: "abc")) as one,
        scripted(server(lambda: second[0])) as two,
        caplog.at_level(logging.ERROR),
    ):
        remote = RemoteRetriever([one.address, two.address], total_timeout_s=3600.0, cache_size=0)
        asked(remote, 4)
        assert one.requests
        assert two.requests
        second[0] = "xyz"
        before = len(one.requests)
        assert asked(remote, 10) == [echo(f"q{n}", 1) for n in range(10)]
        assert len(one.requests) == before + 10
        remote.close()
    (logged,) = [record.getMessage() for record in caplog.records]
    assert f"{one.address}/retrieve has the fingerprint 'abc'" in logged
    assert f"{two.address}/retrieve has 'xyz'; it is left out until its index matches" in logged


def test_one_that_was_down_at_the_start_is_compared_when_it_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    is_up = [False]
    with (
        scripted(server(lambda: "abc")) as one,
        scripted(server(lambda: "xyz", lambda: is_up[0])) as two,
        caplog.at_level(logging.ERROR),
    ):
        remote = RemoteRetriever([one.address, two.address], total_timeout_s=3600.0, cache_size=0)
        asked(remote, 1)
        is_up[0] = True
        two.requests.clear()
        while not two.requests:
            assert all(isinstance(attempt, list) for attempt in asked(remote, 50))
        remote.close()
    assert "do not search the same index" in caplog.text


def test_what_all_have_come_to_search_is_agreed_upon() -> None:
    prints = ["abc", "abc"]
    with (
        scripted(server(lambda: prints[0])) as one,
        scripted(server(lambda: prints[1])) as two,
    ):
        remote = RemoteRetriever([one.address, two.address], total_timeout_s=3600.0)
        asked(remote, 2)
        prints[:] = ["new", "new"]
        assert all(isinstance(attempt, list) for attempt in asked(remote, 10))
        remote.close()


def test_none_with_the_index_that_was_agreed_upon_is_an_outage_that_says_why() -> None:
    prints = ["abc", "abc"]
    with (
        scripted(server(lambda: prints[0])) as one,
        scripted(server(lambda: prints[1])) as two,
    ):
        remote = RemoteRetriever([one.address, two.address], total_timeout_s=1.0)
        asked(remote, 2)
        prints[:] = ["new", "newer"]
        with pytest.raises(RetrieverUnavailable, match="do not search the same index"):
            remote.search(["other"], 1)
        remote.close()


def test_servers_that_tell_nothing_are_not_compared() -> None:
    replicas = Replicas(["http://a", "http://b", "http://c"])
    one, two, three = replicas
    assert replicas.tells(one, None) is None
    assert replicas.tells(two, "abc") is None
    assert replicas.tells(three, "") is None
    assert replicas.tells(one, "xyz") is not None
    (alone,) = single = Replicas(["http://a"])
    assert single.tells(alone, "abc") is single.tells(alone, "xyz") is None
