"""Search as a tool of a rollout: an outage is an outcome of the search, not an exception.

A rollout that met an outage says so (`Outage`), so that neither its reward nor its text counts against its
instruction.
"""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeAlias

from prompt_coevo.errors import SettingsError
from prompt_coevo.jitter import JITTER
from prompt_coevo.markers import PROJECT
from prompt_coevo.retrieval.batcher import Batcher
from prompt_coevo.retrieval.client.client import RemoteClient, RemoteRetriever
from prompt_coevo.retrieval.client.loop_thread import LoopThread
from prompt_coevo.retrieval.client.sharded import ShardedRetriever
from prompt_coevo.retrieval.errors import (
    QueryError,
    ReplicasDiffer,
    RetrieverError,
    RetrieverUnavailable,
    SearchFailed,
    is_outage,
)
from prompt_coevo.retrieval.outcomes import Attempt, Outage, Outcome, Refused
from prompt_coevo.retrieval.retriever import (
    Hit,
    Limits,
    Retriever,
    check_search,
    checked_search,
    query_problem,
)
from prompt_coevo.retrieval.worker import Worker

logger = logging.getLogger(PROJECT)

OnOutage: TypeAlias = Literal["wait", "observe", "raise"]

_BATCH = 256
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 15.0
_MOST_FAILURES = 3


class SearchTool:
    """Search for rollouts, `k` passages per query.

    `on_outage`: wait up to `max_wait_s` per search ("wait"), report it at once ("observe"), or raise
    RetrieverUnavailable ("raise"). A search that fails on a server that is reachable is tried three times
    in all. Any other error inside a retriever counts as an outage, but without waiting. Two errors are
    raised: RetrieverError if a retriever's very first answer has the wrong form, and ReplicasDiffer if
    servers have different indexes. An empty or too long query is Refused in every mode. Raises
    SettingsError for an unknown mode.

    `search` is for lockstep rollouts, `asearch` for concurrent ones; both may be used from any thread. A
    retriever in this process is asked by one thread at a time, in batches. A search of more than
    `max_search_s` seconds is an outage; its thread is abandoned.
    """

    def __init__(
        self,
        retriever: Retriever | RemoteClient,
        k: int = 3,
        on_outage: OnOutage = "wait",
        max_wait_s: float = 600.0,
        max_search_s: float = 600.0,
    ) -> None:
        if on_outage not in ("wait", "observe", "raise"):
            raise SettingsError(
                f'on_outage must be "wait", "observe" or "raise", but is {on_outage!r}'
            )
        check_search([], k)
        self.k = k
        self._on_outage = on_outage
        self._max_wait_s = max_wait_s if on_outage == "wait" else 0.0
        self._source = (
            retriever
            if isinstance(retriever, (RemoteClient, RemoteRetriever, ShardedRetriever))
            else _Embedded(retriever, max_search_s)
        )
        self._thread = LoopThread("search tool")
        self._is_out = False

    def search(self, queries: Sequence[str]) -> list[Outcome]:
        """Return the outcome of each query, in order.

        Raises SettingsError for a RemoteClient, which can only be awaited.
        """
        if isinstance(self._source, RemoteClient):
            raise SettingsError(
                "a RemoteClient has no synchronous search; give the tool a RemoteRetriever"
            )
        return self._thread.submit(self._searched(queries)).result()

    async def asearch(self, query: str) -> Outcome:
        """Return the outcome of one query; concurrent queries are searched together."""
        return (await self._searched([query]))[0]

    async def _searched(self, queries: Sequence[str]) -> list[Outcome]:
        round_ = _Round(queries, self._max_wait_s)
        while unanswered := round_.unanswered:
            self._note(round_.take(await self._source.search_each(unanswered, self.k)))
            if (pause := round_.pause()) is None:
                break
            await asyncio.sleep(pause)
        return [self._outcome(attempt) for attempt in round_.attempts]

    def _note(self, error: RetrieverUnavailable | None) -> None:
        """Log the beginning and the end of an outage, not each query in it."""
        if error is not None and not self._is_out:
            logger.warning("search is unavailable: %s", error)
        if error is None and self._is_out:
            logger.warning("search is available again")
        self._is_out = error is not None

    def _outcome(self, attempt: Attempt) -> Outcome:
        if isinstance(attempt, list):
            return attempt
        if isinstance(attempt, QueryError):
            return Refused(str(attempt))
        differ = isinstance(attempt, ReplicasDiffer)
        if differ or self._on_outage == "raise" or self._never_fitted(attempt):
            raise attempt
        if isinstance(attempt, RetrieverUnavailable):
            return Outage(str(attempt))
        logger.error("a search failed", exc_info=attempt)
        return Outage(f"the search failed: {type(attempt).__name__}: {attempt}")

    def _never_fitted(self, error: Exception) -> bool:
        """Return True if every answer so far had the wrong form; all further rollouts would be outages,
        too."""
        if not isinstance(error, RetrieverError) or not isinstance(self._source, _Embedded):
            return False
        return not self._source.has_answered


class _Round:
    """The queries of one search, repeated until all have a result or the time is up."""

    def __init__(self, queries: Sequence[str], max_wait_s: float) -> None:
        self._queries = list(queries)
        self._deadline = time.monotonic() + max_wait_s
        self._pause_s = _FIRST_PAUSE_S
        self._failures: Counter[int] = Counter()
        problems = [query_problem(query, Limits.max_query_chars) for query in self._queries]
        self._open = [number for number, problem in enumerate(problems) if problem is None]
        self.attempts: list[Attempt] = [
            [] if problem is None else QueryError(f"the query {problem}") for problem in problems
        ]

    @property
    def unanswered(self) -> list[str]:
        return [self._queries[number] for number in self._open]

    def take(self, attempts: Sequence[Attempt]) -> RetrieverUnavailable | None:
        """Store the attempts for the unanswered queries; return an outage if there was one among them."""
        for number, attempt in zip(self._open, attempts, strict=True):
            self.attempts[number] = attempt
        out = (self.attempts[number] for number in self._open)
        first = next((error for error in out if isinstance(error, RetrieverUnavailable)), None)
        self._open = [number for number in self._open if self._may_pass(number)]
        return first

    def _may_pass(self, number: int) -> bool:
        """Return True if asking again may help: after an outage, or after few enough failed searches."""
        attempt = self.attempts[number]
        if isinstance(attempt, SearchFailed):
            self._failures[number] += 1
            return self._failures[number] < _MOST_FAILURES
        return is_outage(attempt)

    def pause(self) -> float | None:
        """Return the seconds until the rest should be asked again; None if it should not be."""
        left = self._deadline - time.monotonic()
        if not self._open or left <= 0:
            return None
        pause = JITTER.uniform(0.5, 1.0) * self._pause_s
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
        return min(pause, left)


class _Embedded:
    """A retriever in this process, called by one thread; each event loop makes its own batches."""

    def __init__(self, retriever: Retriever, max_search_s: float) -> None:
        self._retriever = retriever
        self._max_search_s = max_search_s
        self.has_answered = False
        self._worker = Worker("embedded search")
        self._batchers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Batcher] = (
            weakref.WeakKeyDictionary()
        )

    async def search_each(self, queries: Sequence[str], k: int) -> list[Attempt]:
        loop = asyncio.get_running_loop()
        if (batcher := self._batchers.get(loop)) is None:
            batcher = Batcher(
                self._found, self._worker, max_batch=_BATCH, max_search_s=self._max_search_s
            )
            self._batchers[loop] = batcher
        try:
            return await batcher.search_each(queries, k)
        except Exception as error:
            return [error] * len(queries)

    def _found(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        found = checked_search(self._retriever, queries, k)
        self.has_answered = True
        return found
