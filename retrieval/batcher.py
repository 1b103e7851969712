"""Joins the searches that arrive while another one is running into one batch."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from prompt_coevo.errors import CoevoError
from prompt_coevo.retrieval.errors import RetrieverUnavailable
from prompt_coevo.retrieval.retriever import Hit
from prompt_coevo.retrieval.worker import Worker

_LONG_SEARCH_S = 0.02
_LONGEST_PAUSE_S = 0.02

Search: TypeAlias = Callable[[Sequence[str], int], list[list[Hit]]]


class QueueFull(CoevoError, RuntimeError):
    """Too many queries are waiting already."""


class DeadlineExceeded(CoevoError, TimeoutError):
    """A search was not done in time."""


@dataclass(eq=False, slots=True)
class _Job:
    """Queries of one caller, searched together."""

    queries: Sequence[str]
    k: int
    found: asyncio.Future[list[list[Hit]]]


class Batcher:
    """Searches on one worker thread, with what came in meanwhile as the next batch.

    The first search begins at once; between two there is a pause only if the last one took long.
    Belongs to the event loop that uses it first. Only queries with the same `k` share a batch, so that
    an answer does not depend on who else asks. `observe` is told each batch's number of queries.
    """

    def __init__(
        self,
        search: Search,
        worker: Worker,
        *,
        max_batch: int = 256,
        max_waiting: int | None = None,
        observe: Callable[[int], None] = lambda queries: None,
    ) -> None:
        self._search = search
        self._worker = worker
        self._max_batch = max_batch
        self._max_waiting = max_waiting
        self._observe = observe
        self._jobs: OrderedDict[int, deque[_Job]] = OrderedDict()
        self._running: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()
        self.waiting = 0

    async def search(
        self, queries: Sequence[str], k: int, *, deadline_s: float | None = None
    ) -> list[list[Hit]]:
        """Raises QueueFull, DeadlineExceeded, and what the search itself raises for these queries."""
        if not queries:
            return []
        if self._max_waiting is not None and self.waiting + len(queries) > self._max_waiting:
            raise QueueFull(
                f"{self.waiting} queries are waiting, at most {self._max_waiting} may; ask again later"
            )
        jobs = [self._enqueue(part, k) for part in _parts(queries, self._max_batch)]
        try:
            async with asyncio.timeout(deadline_s):
                return [hits for job in jobs for hits in await job.found]
        except TimeoutError:
            raise DeadlineExceeded(
                f"the search was not done within {deadline_s:.3g} s; the server has too much to do"
            ) from None
        finally:
            for job in jobs:
                _abandon(job)

    def _enqueue(self, queries: Sequence[str], k: int) -> _Job:
        loop = asyncio.get_running_loop()
        job = _Job(queries, k, loop.create_future())
        self._jobs.setdefault(k, deque()).append(job)
        self.waiting += len(queries)
        self._arrived.set()
        if self._running is None or self._running.done():
            self._running = loop.create_task(self._run())
        return job

    async def _run(self) -> None:
        await asyncio.sleep(0)  # requests that arrived together become one batch
        while jobs := self._take():
            started = time.perf_counter()
            await self._search_jobs(jobs)
            await self._regroup(len(jobs), time.perf_counter() - started)

    async def _regroup(self, answered: int, took_s: float) -> None:
        """After a long search, let those who were just answered ask again before the next one.

        Else the few who came meanwhile are searched alone, and alone a query costs a dense index ten
        times as much: with 64 clients, batches of 1 and of 63 take turns. Once as many have come as were
        answered there is nobody to wait for: a single client never waits.
        """
        if took_s < _LONG_SEARCH_S:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(took_s / 10, _LONGEST_PAUSE_S)):
                while sum(map(len, self._jobs.values())) < answered:
                    self._arrived.clear()
                    await self._arrived.wait()

    def _take(self) -> list[_Job]:
        """The oldest jobs with one `k`; each `k` has its turn. Given up ones are dropped."""
        while self._jobs:
            k, waiting = self._jobs.popitem(last=False)
            taken: list[_Job] = []
            room = self._max_batch
            while waiting and len(waiting[0].queries) <= room:
                job = waiting.popleft()
                self.waiting -= len(job.queries)
                if not job.found.done():
                    taken.append(job)
                    room -= len(job.queries)
            if waiting:
                self._jobs[k] = waiting
            if taken:
                return taken
        return []

    async def _search_jobs(self, jobs: list[_Job]) -> None:
        """Search all at once. If that fails, one by one: a bad query fails only its own request."""
        if not jobs:
            return
        queries = list(dict.fromkeys(query for job in jobs for query in job.queries))
        k = jobs[0].k
        self._observe(len(queries))
        try:
            work = self._worker.submit(lambda: self._search(queries, k))
            answers = await asyncio.wrap_future(work)
            found = dict(zip(queries, answers, strict=True))
        except Exception as error:
            if len(jobs) == 1 or isinstance(error, RetrieverUnavailable):
                _fail(jobs, error)
                return
            for job in jobs:
                await self._search_jobs([job])
            return
        for job in jobs:
            if not job.found.done():
                job.found.set_result([found[query] for query in job.queries])


def _parts(queries: Sequence[str], size: int) -> list[Sequence[str]]:
    return [queries[start : start + size] for start in range(0, len(queries), size)]


def _abandon(job: _Job) -> None:
    """Nobody waits for it any more; a failure that it already holds counts as seen."""
    if not job.found.cancel() and not job.found.cancelled():
        job.found.exception()


def _fail(jobs: list[_Job], error: Exception) -> None:
    for job in jobs:
        if not job.found.done():
            job.found.set_exception(error)
