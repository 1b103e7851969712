"""Search the shards of an index on several servers at once, and merge their hits.

    retriever = ShardedRetriever([["http://a:8000", "http://b:8000"], ["http://c:8000"]])

Each server searches one shard (`prompt-coevo retrieval serve INDEX --shard N`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import sys
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

from prompt_coevo.errors import CoevoError, SettingsError
from prompt_coevo.markers import PROJECT
from prompt_coevo.retrieval.client.client import RemoteClient
from prompt_coevo.retrieval.client.loop_thread import LoopThread
from prompt_coevo.retrieval.errors import ReplicasDiffer, RetrieverUnavailable, is_outage
from prompt_coevo.retrieval.outcomes import Attempt, PartialHits, raise_first
from prompt_coevo.retrieval.retriever import UNLIMITED, Hit, IndexInfo, Limits, check_search
from prompt_coevo.retrieval.shards import ShardOf

logger = logging.getLogger(PROJECT)

# Between two questions whether a shard that was left out is back.
_PAUSE_S: Final = 0.5


class _Shard:
    """A shard's servers. `out` is why it is left out at the moment."""

    def __init__(self, name: str, client: RemoteClient) -> None:
        self.name = name
        self.client = client
        self.out: RetrieverUnavailable | None = None

    async def info(self) -> IndexInfo | RetrieverUnavailable:
        """Return what its servers search, or why nobody says so. Raises ReplicasDiffer."""
        try:
            return await self.client.info()
        except RetrieverUnavailable as error:
            return self.outage(error)

    def outage(self, error: RetrieverUnavailable) -> RetrieverUnavailable:
        return type(error)(f"{self.name}: {error}")


class ShardedRetriever:
    """The retriever "sharded": asks all shards of an index at once.

    `shards` are the addresses of each shard's servers, in the order of the shards, which is that of the
    corpus. Equal scores come in corpus order. Servers of other indexes or shards raise ReplicasDiffer
    before the first search, later they count as an outage.

    A search waits for a shard for `total_timeout_s`. Then it raises RetrieverUnavailable; with `partial` it
    returns the other shards' hits as PartialHits, and leaves the shard out until its servers are back.
    `options` are those of RemoteClient. Any number of threads and event loops may use it at once.
    """

    def __init__(
        self,
        shards: Sequence[str | Sequence[str]],
        *,
        partial: bool = False,
        total_timeout_s: float = 10.0,
        limits: Limits | None = None,
        **options: Any,
    ) -> None:
        if isinstance(shards, str) or not shards:
            raise SettingsError(
                "shards must be a list with the addresses of each shard, such as "
                '[["http://a:8000", "http://b:8000"], ["http://c:8000"]]'
            )
        options = {**options, "total_timeout_s": total_timeout_s, "limits": limits}
        self._shards = [
            _Shard(f"shard {number} of {len(shards)}", RemoteClient(urls, **options))
            for number, urls in enumerate(shards, 1)
        ]
        # Long lists are sent in parts.
        self._limits = dataclasses.replace(limits or Limits(), max_queries=sys.maxsize)
        self._partial = partial
        self._info: IndexInfo | None = None
        self._comparing: asyncio.Task[IndexInfo] | None = None
        self._returning: set[asyncio.Task[None]] = set()
        self._thread = LoopThread("sharded retrieval client")

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the best `k` passages for each query. Raises QueryError, RetrieverUnavailable, and
        ReplicasDiffer."""
        check_search(queries, k, self._limits)
        return raise_first(self._thread.submit(self._search_each(queries, k)).result())

    async def search_each(self, queries: Sequence[str], k: int) -> list[Attempt]:
        """Return for each query the hits, or why there are none. Raises nothing. Any event loop may await
        it."""
        try:
            return await asyncio.wrap_future(self._thread.submit(self._search_each(queries, k)))
        except CoevoError as error:
            return [error] * len(queries)

    def info(self) -> IndexInfo:
        """Describe the whole index, with its own fingerprint. Raises RetrieverUnavailable and
        ReplicasDiffer."""
        return self._thread.submit(self._told()).result()

    def change_urls(self, shard: int, urls: Sequence[str]) -> None:
        """Ask these servers for a shard, from 1, from now on, also for searches under way; maybe none."""

        async def change() -> None:
            self._shards[shard - 1].client.change_urls(urls)

        self._thread.submit(change()).result()

    def close(self) -> None:
        """Release the connections. Callers that still wait get an error saying that the client was
        closed."""
        self._thread.close(self._aclose())

    async def _aclose(self) -> None:
        for task in self._returning:
            task.cancel()
        await asyncio.gather(*self._returning, return_exceptions=True)
        await asyncio.gather(*(shard.client.aclose() for shard in self._shards))

    async def _search_each(self, queries: Sequence[str], k: int) -> list[Attempt]:
        await self._compared()
        asked = (self._ask(shard, queries, k) for shard in self._shards)
        found = await asyncio.gather(*asked)
        return [self._merged(attempts, k) for attempts in zip(*found, strict=True)]

    async def _ask(self, shard: _Shard, queries: Sequence[str], k: int) -> list[Attempt]:
        if shard.out is not None:
            return [shard.out] * len(queries)
        attempts = [
            shard.outage(one) if isinstance(one, RetrieverUnavailable) else one
            for one in await shard.client.search_each(queries, k)
        ]
        for one in attempts:
            if self._partial and isinstance(one, RetrieverUnavailable) and is_outage(one):
                self._leave_out(shard, one)
        return attempts

    def _merged(self, attempts: Sequence[Attempt], k: int) -> Attempt:
        """Merge the hits that each shard has for a query. Return an error in their place if there must not
        be gaps."""
        found = [one for one in attempts if isinstance(one, list)]
        errors = [one for one in attempts if not isinstance(one, list)]
        for error in errors:
            if not (found and self._partial and isinstance(error, RetrieverUnavailable)):
                return error
        # Sorting is stable, and the shards are in corpus order: so equal scores are, too.
        best = sorted(chain.from_iterable(found), key=lambda hit: -hit.score)[:k]
        hits = [
            Hit(hit.id, hit.contents, hit.score, rank, hit.fields)
            for rank, hit in enumerate(best, 1)
        ]
        if not errors:
            return hits
        missing = len(errors)
        return PartialHits(hits, f"{missing} of {len(attempts)} shards did not answer: {errors[0]}")

    def _leave_out(self, shard: _Shard, error: RetrieverUnavailable) -> None:
        if shard.out is None:
            logger.warning("answers are partial until it is back: %s", error)
            shard.out = error
            task = asyncio.get_running_loop().create_task(self._wait_for(shard))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)

    async def _wait_for(self, shard: _Shard) -> None:
        while isinstance(await shard.info(), RetrieverUnavailable):
            await asyncio.sleep(_PAUSE_S)
        shard.out = None
        logger.warning("%s is back", shard.name)

    async def _told(self) -> IndexInfo:
        info = await self._compared()
        told = await asyncio.gather(*(shard.info() for shard in self._shards))
        outages = [one for one in told if isinstance(one, RetrieverUnavailable)]
        if outages and not (self._partial and len(outages) < len(told)):
            raise outages[0]
        return info

    async def _compared(self) -> IndexInfo:
        """Compare what the servers search, once, before the first search. All that wait share an outage."""
        if self._info is None:
            comparing = self._comparing
            if comparing is None or comparing.done():
                comparing = asyncio.get_running_loop().create_task(self._compare())
                self._comparing = comparing
            # Not the task itself: cancelling one caller must not cancel it for the others.
            await asyncio.wait([comparing])
            self._info = comparing.result()
        return self._info

    async def _compare(self) -> IndexInfo:
        told = await asyncio.gather(*(shard.info() for shard in self._shards))
        known: ShardOf | None = None
        kind = ""
        for number, (shard, info) in enumerate(zip(self._shards, told, strict=True), 1):
            if isinstance(info, IndexInfo):
                found = self._checked(number, shard, info)
                if known is not None and found.index != known.index:
                    raise ReplicasDiffer(
                        f"{shard.name} at {_at(shard)} is of the index {found.index}, but shard "
                        f"{known.number} is of {known.index}; name servers of one index"
                    )
                known, kind = known or found, info.kind
        outages = [
            (shard, one)
            for shard, one in zip(self._shards, told, strict=True)
            if isinstance(one, RetrieverUnavailable)
        ]
        if known is None or (outages and not self._partial):
            raise outages[0][1]
        for number, shard in enumerate(self._shards, 1):
            own = ShardOf(known.index, number, known.of, known.passages)
            shard.client.expect(own.fingerprint)
        for shard, outage in outages:
            self._leave_out(shard, outage)
        servers = [shard.client.urls for shard in self._shards]
        return IndexInfo(kind, known.passages, known.index, {"servers": servers})

    def _checked(self, number: int, shard: _Shard, info: IndexInfo) -> ShardOf:
        found = ShardOf.read(info.details)
        if found is None or found.fingerprint != info.fingerprint:
            raise ReplicasDiffer(
                f"{_at(shard)} does not search a shard alone; start it by: prompt-coevo retrieval serve "
                f"INDEX --shard {number}"
            )
        if (found.number, found.of) != (number, len(self._shards)):
            raise ReplicasDiffer(
                f"{_at(shard)} searches shard {found.number} of {found.of}, but was named as {shard.name}; "
                "name the servers of every shard, in the order of the shards"
            )
        return found


def _at(shard: _Shard) -> str:
    return " or ".join(shard.client.urls)


def open_shards(
    shards: Sequence[str | Sequence[str]], *, limits: Limits = UNLIMITED, **options: Any
) -> ShardedRetriever:
    """Make the retriever "sharded": without its own limits, for a tool or a server that has some."""
    return ShardedRetriever(shards, limits=limits, **options)
