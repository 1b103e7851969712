"""Clients of retrieval servers: ours, and any that speaks Search-R1's format.

    retriever = RemoteRetriever("http://127.0.0.1:8000")
    hits = retriever.search(["who wrote Moby Dick"], k=3)[0]

Queries asked at the same time, from any thread or task, are sent together.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import sys
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any, TypeAlias

from prompt_coevo.errors import SettingsError
from prompt_coevo.extras import require
from prompt_coevo.markers import PROJECT
from prompt_coevo.retrieval.access import request_headers
from prompt_coevo.retrieval.client.asking import Asking
from prompt_coevo.retrieval.client.loop_thread import LoopThread
from prompt_coevo.retrieval.client.urls import retrieve_url
from prompt_coevo.retrieval.errors import (
    QueryError,
    RetrieverError,
    RetrieverUnavailable,
    SearchFailed,
)
from prompt_coevo.retrieval.outcomes import Attempt, about_one, is_whole, raise_first
from prompt_coevo.retrieval.retriever import Hit, IndexInfo, Limits, check_search
from prompt_coevo.retrieval.wire import (
    FINGERPRINT_HEADER,
    read_error,
    read_health,
    read_reply,
    write_request,
)

logger = logging.getLogger(PROJECT)

_REFUSED = {400, 413, 422}

_Key: TypeAlias = tuple[str, int]
"""A query and its `k`."""


class HitCache:
    """The `size` most recently used answers, by (query, k), of one index.

    A change of the fingerprint clears the cache. Nothing is cached for a server without a fingerprint,
    because its index might have changed.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[_Key, list[Hit]] = OrderedDict()
        self._fingerprint: str | None = None

    def get(self, key: _Key) -> list[Hit] | None:
        hits = self._entries.get(key)
        if hits is None:
            return None
        self._entries.move_to_end(key)
        return list(hits)

    def put(self, fingerprint: str | None, key: _Key, hits: list[Hit]) -> None:
        self.now_searched(fingerprint)
        if fingerprint is None:
            return
        self._entries[key] = list(hits)
        self._entries.move_to_end(key)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def now_searched(self, fingerprint: str | None) -> None:
        """Note the server's fingerprint; clear the cache if it changed."""
        if fingerprint != self._fingerprint:
            self._entries.clear()
            self._fingerprint = fingerprint


class RemoteClient:
    """The asynchronous client; belongs to the event loop that uses it first.

    `urls` are servers with the same index, each with or without `/retrieve`. If their fingerprints differ,
    all searches raise ReplicasDiffer; a server that differs later is left out. Queries that arrive while
    `max_in_flight` requests per server are under way are sent as one request of up to `max_batch`. A query
    that is under way is not sent again. `cache_size` answers are cached for servers with a fingerprint.

    A request is retried, with jitter and on the next server, while a connection fails or the answer is 408,
    429, 502, 503 or 504, for `total_timeout_s` in all.

    `token` is sent to all servers; None means PROMPT_COEVO_RETRIEVAL_TOKEN, if set. Raises SettingsError
    for an invalid address or token, MissingExtraError without aiohttp, orjson or tenacity.
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        total_timeout_s: float = 20.0,
        max_batch: int = 256,
        max_in_flight: int = 4,
        cache_size: int = 10_000,
        limits: Limits | None = None,
        token: str | None = None,
    ) -> None:
        require(
            "aiohttp", "orjson", "tenacity", extra="retrieval", purpose="asking a retrieval server"
        )
        addresses = [urls] if isinstance(urls, str) else list(urls)
        if not addresses:
            raise SettingsError("there is no address of a retrieval server; give at least one")
        headers = request_headers(token, addresses)
        self._asking = Asking([retrieve_url(one) for one in addresses], headers, total_timeout_s)
        self._max_batch = max_batch
        self._max_in_flight = max_in_flight
        # Long lists are sent in parts.
        self._limits = dataclasses.replace(limits or Limits(), max_queries=sys.maxsize)
        self._cache = HitCache(cache_size)
        self._in_flight: dict[_Key, asyncio.Future[Attempt]] = {}
        self._waiting: dict[int, deque[str]] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._pump_is_due = False
        self._closed = False

    async def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the best `k` passages for each query. Raises QueryError or RetrieverUnavailable."""
        check_search(queries, k, self._limits)
        return raise_first(await self.search_each(queries, k))

    async def search_each(self, queries: Sequence[str], k: int) -> list[Attempt]:
        """Return for each query the hits, or why there are none. Raises nothing."""
        futures = [self._ask_for(query, k) for query in queries]
        if futures:
            # Not gather: the futures are shared, and cancelling one caller must not cancel them.
            await asyncio.wait(futures)
        attempts = (future.result() for future in futures)
        return [out.copy() if isinstance(out, list) else out for out in attempts]

    async def info(self) -> IndexInfo:
        """Return what the server searches, without passages and fingerprint if it does not report them.

        Raises RetrieverUnavailable.
        """
        answer = await self._asking.health()
        if answer.status in (404, 405):  # Search-R1's own server has no /health
            return IndexInfo("remote", 0, "", {"servers": self._asking.urls})
        self._asking.check_let_in(answer)
        info = read_health(answer.body)
        self._cache.now_searched(info.fingerprint)
        return info

    @property
    def urls(self) -> list[str]:
        """Return the addresses for searches, without passwords."""
        return self._asking.urls

    def change_urls(self, urls: Sequence[str]) -> None:
        """Ask these servers of the same index from now on, also for queries under way; maybe none."""
        self._asking.change_urls([retrieve_url(one) for one in urls])

    def expect(self, fingerprint: str) -> None:
        """Take answers from servers with this fingerprint only. Others count as an outage."""
        self._asking.expect(fingerprint)

    async def aclose(self) -> None:
        """Release the connections. Callers that still wait get an error saying that the client was
        closed."""
        self._closed = True
        for task in list(self._sending):
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        self._settle_rest(
            RetrieverUnavailable("the client was closed while queries were under way")
        )
        await self._asking.aclose()

    def _ask_for(self, query: str, k: int) -> asyncio.Future[Attempt]:
        """Return a future for the query's result: cached, under way already, or in a coming request."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Attempt] = loop.create_future()
        try:
            check_search([query], k, self._limits)
            write_request([query], k)
        except QueryError as error:
            future.set_result(error)
            return future
        key = (query, k)
        if (under_way := self._in_flight.get(key)) is not None:
            return under_way
        if (known := self._cache.get(key)) is not None:
            future.set_result(known)
        elif self._closed:
            future.set_result(RetrieverUnavailable("the client was closed; open a new one"))
        else:
            self._in_flight[key] = future
            self._waiting.setdefault(k, deque()).append(query)
            if not self._pump_is_due:
                self._pump_is_due = True
                loop.call_soon(self._pump)
        return future

    def _pump(self) -> None:
        """Send waiting queries while slots are free. The values of `k` take turns."""
        self._pump_is_due = False
        slots = self._max_in_flight * max(1, self._asking.servers)
        while self._waiting and len(self._sending) < slots:
            k = next(iter(self._waiting))
            waiting = self._waiting.pop(k)
            batch = [waiting.popleft() for _ in range(min(self._max_batch, len(waiting)))]
            if waiting:
                self._waiting[k] = waiting
            task = asyncio.get_running_loop().create_task(self._send(batch, k))
            self._sending.add(task)
            task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        if not self._closed:
            self._pump()

    async def _send(self, queries: list[str], k: int) -> None:
        try:
            attempts = await self._attempts(queries, k)
        except Exception as error:  # a rollout must not fail because of it
            logger.exception("asking a retrieval server failed unexpectedly")
            attempts = [RetrieverUnavailable(f"{type(error).__name__}: {error}")] * len(queries)
        for query, attempt in zip(queries, attempts, strict=True):
            self._in_flight.pop((query, k)).set_result(attempt)

    async def _attempts(self, queries: list[str], k: int) -> list[Attempt]:
        """Ask; narrow a refusal or a failed search down to the query that causes it."""
        try:
            return await self._ask(queries, k)
        except (QueryError, SearchFailed) as error:
            if len(queries) == 1:
                return [about_one(error) if isinstance(error, QueryError) else error]
            half = len(queries) // 2
            first = await self._attempts(queries[:half], k)
            return first + await self._attempts(queries[half:], k)
        except (RetrieverError, RetrieverUnavailable) as error:
            return [error] * len(queries)

    async def _ask(self, queries: list[str], k: int) -> list[Attempt]:
        answer = await self._asking.post(write_request(queries, k))
        if answer.status in _REFUSED:
            raise QueryError(read_error(answer.body))
        if answer.status == 500:
            sentence = read_error(answer.body)
            raise SearchFailed(f"the retrieval server could not search: {sentence}")
        self._asking.check_let_in(answer)
        if answer.status != 200:
            raise RetrieverUnavailable(
                f"{' or '.join(self._asking.urls)} answered {answer.status}: "
                f"{read_error(answer.body)}; is this the address of a retrieval server?"
            )
        attempts = read_reply(answer.body, count=len(queries), k=k)
        fingerprint = answer.headers.get(FINGERPRINT_HEADER) or None
        for query, attempt in zip(queries, attempts, strict=True):
            if is_whole(attempt):
                self._cache.put(fingerprint, (query, k), attempt)
        return attempts

    def _settle_rest(self, error: RetrieverUnavailable) -> None:
        self._waiting.clear()
        for future in self._in_flight.values():
            future.set_result(error)
        self._in_flight.clear()


class RemoteRetriever:
    """The retriever "remote": asks a server, or several with the same index.

    `options` are those of RemoteClient. Any number of threads and event loops may use it at once.
    """

    def __init__(self, url: str | Sequence[str], **options: Any) -> None:
        self._client = RemoteClient(url, **options)
        self._thread = LoopThread("retrieval client")

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the best `k` passages for each query. Raises QueryError or RetrieverUnavailable."""
        return self._thread.submit(self._client.search(queries, k)).result()

    async def search_each(self, queries: Sequence[str], k: int) -> list[Attempt]:
        """Return for each query the hits, or why there are none. Raises nothing. Any event loop may await
        it."""
        try:
            future = self._thread.submit(self._client.search_each(queries, k))
            return await asyncio.wrap_future(future)
        except RetrieverUnavailable as error:
            return [error] * len(queries)

    def info(self) -> IndexInfo:
        """Return what the server searches, without passages and fingerprint if it does not report them.

        Raises RetrieverUnavailable.
        """
        return self._thread.submit(self._client.info()).result()

    def close(self) -> None:
        """Release the connections. Callers that still wait get an error saying that the client was
        closed."""
        self._thread.close(self._client.aclose())
