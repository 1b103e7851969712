"""Join the searches that arrive while another one runs into one batch."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from prompt_coevo.errors import CoevoError
from prompt_coevo.retrieval.errors import RetrieverUnavailable, is_outage
from prompt_coevo.retrieval.outcomes import Attempt, is_whole
from prompt_coevo.retrieval.pace import LateAnswers, Pace, Waiting
from prompt_coevo.retrieval.retriever import Hit
from prompt_coevo.retrieval.worker import Worker

_LONG_SEARCH_S = 0.02
_LONGEST_PAUSE_S = 0.02

Search: TypeAlias = Callable[[Sequence[str], int], list[list[Hit]]]


class QueueFull(CoevoError, RuntimeError):
    """Too many queries are waiting already."""


class DeadlineExceeded(CoevoError, TimeoutError):
    """A search did not finish in time."""


@dataclass(eq=False, slots=True)
class _Job:
    """One caller's queries. The first `taken` of them are being searched or have been."""

    queries: Sequence[str]
    k: int
    patience_s: float
    until: float
    found: asyncio.Future[dict[str, Attempt]]
    taken: int = 0
    attempts: dict[str, Attempt] = field(default_factory=dict)

    @property
    def left(self) -> int:
        return len(self.queries) - self.taken


class _Part(NamedTuple):
    """Some queries of a job that go into the same search."""

    job: _Job
    queries: Sequence[str]


class Batcher:
    """Search on one worker thread; whatever arrives meanwhile becomes the next batch.

    The first search begins at once. Between two searches there is a pause only if the last one took long.
    Belongs to the event loop that uses it first. Only queries with the same `k` share a batch, so that an
    answer does not depend on other callers. `observe` is called with each batch's number of queries.

    A batch has at most `max_batch` queries, and only as many as can be searched before the callers give up
    (`pace`). A search of more than `max_search_s` seconds counts as hung.
    """

    def __init__(
        self,
        search: Search,
        worker: Worker,
        *,
        max_batch: int = 256,
        max_waiting: int | None = None,
        max_search_s: float | None = None,
        observe: Callable[[int], None] = lambda queries: None,
    ) -> None:
        self._search = search
        self._worker = worker
        self._max_batch = max_batch
        self._max_waiting = max_waiting
        self._max_search_s = max_search_s
        self._observe = observe
        self._jobs: OrderedDict[int, deque[_Job]] = OrderedDict()
        self._running: asyncio.Task[None] | None = None
        self._late = LateAnswers()
        self.pace = Pace()
        self._arrived = asyncio.Event()
        self.waiting = 0

    async def search_each(
        self, queries: Sequence[str], k: int, *, deadline_s: float | None = None
    ) -> list[Attempt]:
        """Return for each query the hits, or the error that its search raised.

        Raises QueueFull, and DeadlineExceeded if not all results are there in time.
        """
        if not queries:
            return []
        if self._max_waiting is not None and self.waiting + len(queries) > self._max_waiting:
            raise QueueFull(
                f"{self.waiting} queries are waiting, at most {self._max_waiting} may; ask again later"
            )
        job = self._enqueue(queries, k, float("inf") if deadline_s is None else deadline_s)
        try:
            async with asyncio.timeout(deadline_s):
                attempts = await job.found
        except TimeoutError:
            raise DeadlineExceeded(
                f"the search did not finish within {deadline_s:.3g} s; the server is overloaded"
            ) from None
        finally:
            job.found.cancel()
            if job.found.cancelled():
                self._keep(job.attempts, k)
        return [attempts[query] for query in queries]

    def _keep(self, attempts: Mapping[str, Attempt], k: int) -> None:
        """Keep results for callers who ask again: a long request may take several tries."""
        now = asyncio.get_running_loop().time()
        for query, attempt in attempts.items():
            if is_whole(attempt):
                self._late.keep(query, k, attempt, now)

    def _enqueue(self, queries: Sequence[str], k: int, deadline_s: float) -> _Job:
        loop = asyncio.get_running_loop()
        job = _Job(queries, k, deadline_s, loop.time() + deadline_s, loop.create_future())
        self._jobs.setdefault(k, deque()).append(job)
        self.waiting += len(queries)
        self._arrived.set()
        if self._running is None or self._running.done():
            self._running = loop.create_task(self._run())
        return job

    async def _run(self) -> None:
        await asyncio.sleep(0)  # requests that arrived together become one batch
        while parts := self._take():
            started = time.perf_counter()
            searched = await self._search_parts(parts)
            took_s = time.perf_counter() - started
            self.pace.learn(searched, took_s)
            await self._regroup(len(parts), took_s)

    async def _regroup(self, answered: int, took_s: float) -> None:
        """After a long search, let the callers just answered ask again before the next search begins.

        Otherwise the few who came meanwhile would be searched alone, and alone a query costs a dense index
        ten times as much: with 64 clients, batches of 1 and of 63 would alternate. The wait ends once as
        many queries have come as were answered, so a single client never waits.
        """
        if took_s < _LONG_SEARCH_S:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(took_s / 10, _LONGEST_PAUSE_S)):
                while sum(map(len, self._jobs.values())) < answered:
                    self._arrived.clear()
                    await self._arrived.wait()

    def _take(self) -> list[_Part]:
        """Take the oldest queries with one `k`; the values of `k` take turns. Drop abandoned queries."""
        now = asyncio.get_running_loop().time()
        while self._jobs:
            k, jobs = self._jobs.popitem(last=False)
            open_ones = [job for job in jobs if not job.found.done()]
            self.waiting -= sum(job.left for job in jobs if job.found.done())
            if not open_ones:
                continue
            waiting = [Waiting(job.until - now, job.patience_s) for job in open_ones]
            room, least_s = self.pace.room(self._max_batch, waiting)
            parts: list[_Part] = []
            for job in open_ones:
                if not room:
                    break
                if job.until - now >= least_s:
                    part = _Part(job, job.queries[job.taken : job.taken + room])
                    job.taken += len(part.queries)
                    room -= len(part.queries)
                    parts.append(part)
            self.waiting -= sum(len(part.queries) for part in parts)
            if rest := deque(job for job in open_ones if job.left):
                self._jobs[k] = rest
            return parts
        return []

    async def _search_parts(self, parts: list[_Part]) -> int:
        """Search, give each job its results, and return how many queries were searched."""
        k, clock = parts[0].job.k, asyncio.get_running_loop().time
        queries = list(dict.fromkeys(query for part in parts for query in part.queries))
        attempts: dict[str, Attempt] = {}
        for query in queries:
            if (late := self._late.take(query, k, clock())) is not None:
                attempts[query] = late
        unknown = [query for query in queries if query not in attempts]
        attempts |= await self._attempts(unknown, k, parts)
        for job, searched in parts:
            if not job.found.done():
                job.attempts |= {query: attempts[query] for query in searched}
                if not job.left:
                    job.found.set_result(job.attempts)
            else:
                self._keep({query: attempts[query] for query in searched if query in attempts}, k)
        return len(unknown)

    async def _attempts(
        self, queries: list[str], k: int, parts: Sequence[_Part]
    ) -> dict[str, Attempt]:
        """Search all queries at once. If that fails, search halves of them, so that a bad query fails
        alone."""
        if not queries:
            return {}
        self._observe(len(queries))
        try:
            found = await self._searched(queries, k)
            return dict(zip(queries, found, strict=True))
        except Exception as error:
            if len(queries) == 1 or is_outage(error):
                return dict.fromkeys(queries, error)
        attempts: dict[str, Attempt] = {}
        middle = len(queries) // 2
        for half in (queries[:middle], queries[middle:]):
            wanted = {query for job, own in parts if not job.found.done() for query in own}
            attempts |= await self._attempts([one for one in half if one in wanted], k, parts)
        return attempts

    async def _searched(self, queries: list[str], k: int) -> list[list[Hit]]:
        work = self._worker.submit(lambda: self._search(queries, k))
        try:
            async with asyncio.timeout(self._max_search_s):
                return await asyncio.wrap_future(work)
        except TimeoutError:
            # The search itself raised this, or has just ended.
            if work.done() and not work.cancelled():
                return work.result()
            self._worker.give_up(work)
            raise RetrieverUnavailable(
                f"a search hangs: it did not finish within {self._max_search_s:.3g} s "
                f"(queries: {len(queries)})"
            ) from None
