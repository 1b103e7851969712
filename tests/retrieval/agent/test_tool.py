"""Check search as a tool: a rollout gets a result, whatever happens to the retriever."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.global_random import twice_seeded_alike
from helpers.retrieval_server import EchoRetriever, echo, free_port, serving
from prompt_coevo.errors import SettingsError
from prompt_coevo.retrieval.agent.tool import OnOutage, SearchTool
from prompt_coevo.retrieval.client.client import RemoteClient, RemoteRetriever
from prompt_coevo.retrieval.errors import QueryError, RetrieverUnavailable, SearchFailed
from prompt_coevo.retrieval.outcomes import Outage, Refused
from prompt_coevo.retrieval.retriever import Hit

MODES: list[OnOutage] = ["wait", "observe", "raise"]


class Flaky(EchoRetriever):
    """Fail the first searches."""

    def __init__(self, outages: int, error: Exception | None = None) -> None:
        super().__init__()
        self.left = outages
        self.error = error or RetrieverUnavailable("the server is away")

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.left -= 1
        if self.left >= 0:
            raise self.error
        return super().search(queries, k)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the tool's pauses without waiting."""
    made: list[float] = []
    clock = itertools.count()

    async def no_pause(seconds: float) -> None:
        made.append(seconds)

    module = "prompt_coevo.retrieval.agent.tool"
    seconds = SimpleNamespace(sleep=made.append, monotonic=lambda: float(next(clock)))
    monkeypatch.setattr(f"{module}.time", seconds)
    loops = SimpleNamespace(**{**vars(asyncio), "sleep": no_pause})
    monkeypatch.setattr(f"{module}.asyncio", loops)
    return made


def both(tool: SearchTool, query: str) -> Any:
    """Return the result of both the sync and the async search, which must be equal."""
    (result,) = tool.search([query])
    assert asyncio.run(tool.asearch(query)) == result
    return result


@pytest.mark.parametrize("mode", MODES)
def test_hits_are_passed_on(mode: OnOutage) -> None:
    tool = SearchTool(EchoRetriever(), k=2, on_outage=mode)
    assert both(tool, "a") == echo("a", 2)
    assert tool.search(["a", "b"]) == [echo("a", 2), echo("b", 2)]
    assert tool.search([]) == []


def test_ranks_that_are_seeded_alike_pause_differently(pauses: list[float]) -> None:
    def paused() -> list[float]:
        pauses.clear()
        SearchTool(Flaky(5)).search(["a"])
        return list(pauses)

    one, other = twice_seeded_alike(paused)
    assert one != other


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("", "the query is empty"),
        (" \n", "the query is empty"),
        ("x" * 10_001, "the query has 10001 characters, at most 10000 are allowed"),
    ],
)
def test_a_query_that_nobody_can_answer_is_refused(mode: OnOutage, query: str, reason: str) -> None:
    retriever = EchoRetriever()
    tool = SearchTool(retriever, on_outage=mode)
    assert both(tool, query) == Refused(reason)
    assert retriever.batches == []
    assert tool.search(["a", query, "b"]) == [echo("a", 3), Refused(reason), echo("b", 3)]


def test_a_refusal_of_the_retriever_is_one_too() -> None:
    class Picky(EchoRetriever):
        def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
            if "c" in queries:
                raise QueryError("query 2 is not to my taste")
            return super().search(queries, k)

    results = SearchTool(Picky()).search(["a", "b", "c"])
    assert results == [echo("a", 3), echo("b", 3), Refused("query 2 is not to my taste")]


def test_observe_tells_an_outage_at_once() -> None:
    retriever = Flaky(2)
    tool = SearchTool(retriever, on_outage="observe")
    assert both(tool, "a") == Outage("the server is away")
    assert both(tool, "a") == echo("a", 3)


def test_raise_raises() -> None:
    tool = SearchTool(Flaky(2), on_outage="raise")
    with pytest.raises(RetrieverUnavailable, match="away"):
        tool.search(["a"])
    with pytest.raises(RetrieverUnavailable, match="away"):
        asyncio.run(tool.asearch("a"))


@pytest.mark.parametrize("asynchronous", [False, True])
def test_wait_asks_again_until_there_is_an_answer(pauses: list[float], asynchronous: bool) -> None:
    tool = SearchTool(Flaky(6))
    found = asyncio.run(tool.asearch("a")) if asynchronous else tool.search(["a"])[0]
    assert found == echo("a", 3)
    assert len(pauses) == 6
    assert all(0.5 * 2**n <= pause <= 2**n for n, pause in enumerate(pauses[:4]))
    assert max(pauses) <= 15


@pytest.mark.parametrize("asynchronous", [False, True])
def test_wait_ends(pauses: list[float], asynchronous: bool) -> None:
    tool = SearchTool(Flaky(10**9), max_wait_s=5.0)
    found = asyncio.run(tool.asearch("a")) if asynchronous else tool.search(["a"])[0]
    assert found == Outage("the server is away")
    assert 0 < len(pauses) <= 5


def test_only_what_is_unanswered_is_asked_again(pauses: list[float]) -> None:
    class HalfRemote(RemoteRetriever):
        asked: list[list[str]]

        async def search_each(self, queries: Sequence[str], k: int) -> list[Any]:
            self.asked.append(list(queries))
            away = RetrieverUnavailable("away")
            first = len(self.asked) == 1
            return [away if first and query == "b" else echo(query, k) for query in queries]

    remote = HalfRemote("http://127.0.0.1:1")
    remote.asked = []
    assert SearchTool(remote, k=1).search(["a", "b", "c"]) == [echo(q, 1) for q in "abc"]
    assert remote.asked == [["a", "b", "c"], ["b"]]
    remote.close()


@pytest.mark.parametrize("mode", ["wait", "observe"])
def test_a_broken_retriever_costs_only_its_own_query(
    mode: OnOutage, caplog: pytest.LogCaptureFixture
) -> None:
    tool = SearchTool(EchoRetriever(), k=1, on_outage=mode)
    results = tool.search(["a", "boom", "b"])
    assert results == [
        echo("a", 1),
        Outage("the search failed: ValueError: the index broke"),
        echo("b", 1),
    ]
    assert both(tool, "boom") == results[1]
    assert "the index broke" in caplog.text


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_search_that_fails_on_a_server_is_not_waited_for(
    pauses: list[float], asynchronous: bool
) -> None:
    """Otherwise one query that breaks the index would block a step for ten minutes."""

    class Breaks(RemoteRetriever):
        asked = 0

        async def search_each(self, queries: Sequence[str], k: int) -> list[Any]:
            self.asked += 1
            failed = SearchFailed("the search failed: ValueError: the index broke")
            fails = {"boom"} if self.asked > 1 else {"boom", "once"}
            return [failed if query in fails else echo(query, k) for query in queries]

    remote = Breaks("http://127.0.0.1:1")
    tool = SearchTool(remote, k=1, max_wait_s=10**9)
    if asynchronous:
        outcome = asyncio.run(tool.asearch("boom"))
    else:
        *good, outcome = tool.search(["a", "once", "boom"])
        assert good == [echo("a", 1), echo("once", 1)]
    assert outcome == Outage("the search failed: ValueError: the index broke")
    assert remote.asked == 3
    assert len(pauses) == 2
    assert tool.search(["a"]) == [echo("a", 1)]
    assert remote.asked == 4
    remote.close()


def test_raise_shows_the_bug_as_it_is() -> None:
    with pytest.raises(ValueError, match="the index broke"):
        SearchTool(EchoRetriever(), on_outage="raise").search(["boom"])


def test_an_outage_is_logged_when_it_begins_and_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tool = SearchTool(Flaky(3), on_outage="observe")
    with caplog.at_level(logging.WARNING):
        for _ in range(6):
            tool.search(["a"])
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [
        "search is unavailable: the server is away",
        "search is available again",
    ]


def test_concurrent_rollouts_share_searches_of_an_embedded_index() -> None:
    retriever = EchoRetriever()
    tool = SearchTool(retriever, k=1)

    async def rollouts() -> list[Any]:
        return await asyncio.gather(*(tool.asearch(f"q{number}") for number in range(300)))

    assert asyncio.run(rollouts()) == [echo(f"q{number}", 1) for number in range(300)]
    assert [len(batch) for batch in retriever.batches] == [256, 44]
    assert asyncio.run(rollouts()) == [echo(f"q{number}", 1) for number in range(300)]


def test_an_embedded_index_is_asked_for_no_more_than_it_takes_at_once() -> None:
    retriever = EchoRetriever()
    results = SearchTool(retriever, k=1).search([f"q{number}" for number in range(10_240)])
    assert results[-1] == echo("q10239", 1)
    assert {len(batch) for batch in retriever.batches} == {256}


def test_remote_rollouts_share_requests() -> None:
    retriever = EchoRetriever()
    with serving(retriever) as address:
        remote = RemoteRetriever(address, total_timeout_s=3600.0)
        remote.info()
        tool = SearchTool(remote, k=1)

        async def rollouts() -> list[Any]:
            asked = [tool.asearch(f"q{number}") for number in range(100)]
            results = asyncio.gather(*asked)
            while len(remote._client._in_flight) < 100:
                await asyncio.sleep(0)
            retriever.gate.set()
            return await results

        retriever.gate.clear()
        assert asyncio.run(rollouts()) == [echo(f"q{number}", 1) for number in range(100)]
        assert tool.search(["a", ""]) == [echo("a", 1), Refused("the query is empty")]
        remote.close()
        assert isinstance(SearchTool(remote, on_outage="observe").search(["a"])[0], Outage)
    # The warm-up, the queries sent before the slots were full, the rest, and one more.
    assert len(retriever.batches) <= 1 + 4 + 1 + 1


def test_a_remote_client_can_be_awaited_only() -> None:
    async def ask(address: str) -> None:
        remote = RemoteClient(address)
        tool = SearchTool(remote, k=1)
        assert await tool.asearch("a") == echo("a", 1)
        with pytest.raises(SettingsError, match="RemoteRetriever"):
            tool.search(["a"])
        await remote.aclose()

    with serving(EchoRetriever()) as address:
        asyncio.run(ask(address))


@pytest.mark.parametrize("mode", ["wait", "observe"])
def test_a_server_that_is_not_there_is_an_outage(mode: OnOutage) -> None:
    remote = RemoteRetriever(f"http://127.0.0.1:{free_port()}", total_timeout_s=0.2)
    tool = SearchTool(remote, on_outage=mode, max_wait_s=0.0)
    # The last attempt's cause, which ends the sentence, depends on timing.
    for result in (tool.search(["a"])[0], asyncio.run(tool.asearch("a"))):
        assert isinstance(result, Outage)
        assert "no retrieval server answered" in result.reason
    remote.close()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"on_outage": "ignore"}, "on_outage must be"),
        ({"k": 0}, "k must be"),
        ({"k": 101}, "k must"),
    ],
)
def test_settings_that_cannot_work_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises((SettingsError, QueryError), match=message):
        SearchTool(EchoRetriever(), **values)
