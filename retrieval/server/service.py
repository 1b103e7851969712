"""The retrieval server's answers to requests."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from prompt_coevo.markers import PROJECT
from prompt_coevo.retrieval.batcher import Batcher
from prompt_coevo.retrieval.errors import QueryError, RetrieverUnavailable, is_outage
from prompt_coevo.retrieval.outcomes import Attempt, about_one
from prompt_coevo.retrieval.retriever import (
    IndexInfo,
    Retriever,
    checked_info,
    checked_search,
)
from prompt_coevo.retrieval.server.body import read_body
from prompt_coevo.retrieval.server.errors import Refusal, status_and_sentence
from prompt_coevo.retrieval.server.metrics import Metrics
from prompt_coevo.retrieval.server.settings import ServerSettings
from prompt_coevo.retrieval.wire import (
    FINGERPRINT_HEADER,
    TIMEOUT_HEADER,
    read_request,
    write_error,
    write_health,
    write_reply,
)
from prompt_coevo.retrieval.worker import Worker

logger = logging.getLogger(PROJECT)

_WARM_UP_QUERY = "who wrote the first novel about a white whale"
_OUTAGE_PAUSE_S = 1.0
_MORE_HEADERS = {401: {"www-authenticate": "Bearer"}, 503: {"retry-after": "1"}}
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class RetrievalService:
    """One index behind HTTP. `info` is None, and nothing is answered, until a first search has
    succeeded. With `waits` that search is tried until an outage is over."""

    def __init__(self, retriever: Retriever, settings: ServerSettings, waits: bool = False) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.info: IndexInfo | None = None
        self.failure: Exception | None = None
        self._retriever, self._waits = retriever, waits
        self._worker = Worker("retrieval search")
        self._batcher = Batcher(
            partial(checked_search, retriever),
            self._worker,
            max_batch=settings.max_batch,
            max_waiting=settings.max_waiting,
            max_search_s=settings.max_search_s,
            observe=self.metrics.batch_queries.observe,
        )
        self._headers: dict[str, str] = {}

    async def warm_up(self) -> None:
        """Run one search, so that no client waits for what the first search loads."""

        def first_search() -> IndexInfo:
            checked_search(self._retriever, [_WARM_UP_QUERY], self.settings.default_k)
            return checked_info(self._retriever)

        while True:
            started = time.perf_counter()
            try:
                info = await self._first(first_search)
                break
            except RetrieverUnavailable as error:
                if not self._waits or not is_outage(error):
                    raise
                logger.warning("nothing can be searched yet, trying again: %s", error)
                await asyncio.sleep(_OUTAGE_PAUSE_S)
        self._batcher.pace.learn(1, time.perf_counter() - started)
        # A header is Latin-1 to Starlette; whatever a retriever calls its version goes out as UTF-8.
        self._headers = {FINGERPRINT_HEADER: info.fingerprint.encode().decode("latin-1")}
        self.info = info

    async def _first(self, first_search: Callable[[], IndexInfo]) -> IndexInfo:
        search = asyncio.wrap_future(self._worker.submit(first_search))
        # Unlike later searches it is not given up: what a first search loads may take long.
        if not (await asyncio.wait([search], timeout=self.settings.max_search_s))[0]:
            logger.warning(
                "the first search is not done after %.3g s (max_search_s); until it is, every request is "
                "answered by 503",
                self.settings.max_search_s,
            )
        return await search

    async def retrieve(self, request: Request) -> Response:
        """Answer a request to Search-R1's endpoint."""
        started = time.perf_counter()
        try:
            response = await self._search(request)
        except Exception as error:
            response = _refusal(error)
            # A client must not take another server's refusal for this one's.
            response.headers.update(self._headers)
        self.metrics.requests[response.status_code] += 1
        self.metrics.request_seconds.observe(time.perf_counter() - started)
        return response

    def turn_away(self, error: Refusal) -> Response:
        """Answer a request refused at the entrance."""
        response = _refusal(error)
        self.metrics.requests[response.status_code] += 1
        return response

    def health(self) -> Response:
        """Describe what is searched; 503 while nothing is."""
        if self.info is None:
            return _refusal(self._not_ready())
        return answer(write_health(self.info), headers=self._headers)

    def show_metrics(self) -> Response:
        """Return Prometheus' text format."""
        text = self.metrics.text(waiting=self._batcher.waiting)
        return Response(text, media_type=_METRICS_TYPE)

    def close(self) -> None:
        """End the worker thread once its search is done."""
        self._worker.close()

    async def _search(self, request: Request) -> Response:
        settings = self.settings
        body = await read_body(
            request, max_bytes=settings.max_body_bytes, timeout_s=settings.read_timeout_s
        )
        if self.info is None:
            raise self._not_ready()
        wanted = read_request(body, default_k=settings.default_k, limits=settings.limits)
        # A long request takes as many searches as it has batches.
        batches = max(1, math.ceil(len(wanted.queries) / settings.max_batch))
        deadline_s = _deadline(request.headers.get(TIMEOUT_HEADER), settings.deadline_s * batches)
        found = await self._batcher.search_each(wanted.queries, wanted.k, deadline_s=deadline_s)
        attempts = wanted.placed(self._told(found))
        self._note_cut(wanted.cut)
        self.metrics.count(attempts)
        return answer(write_reply(attempts, wanted.return_scores), headers=self._headers)

    def _told(self, found: list[Attempt]) -> list[Attempt]:
        """Return the attempts to report query by query.

        Raises RetrieverUnavailable if there was an outage, and the search's error if all queries failed.
        """
        faults = [one for one in found if not isinstance(one, list | QueryError)]
        if faults:
            outage = next((one for one in faults if is_outage(one)), None)
            if outage is not None or len(faults) == len(found):
                raise outage or faults[0]
            logger.error("%d of %d queries failed", len(faults), len(found), exc_info=faults[0])
        return [about_one(one) if isinstance(one, QueryError) else one for one in found]

    def _note_cut(self, lengths: Sequence[int]) -> None:
        if lengths and not self.metrics.cut_queries:
            logger.warning(
                "a query of %d characters was cut to %d (max_query_chars); their number is in the "
                "metrics, and not logged again",
                lengths[0],
                self.settings.limits.max_query_chars,
            )
        self.metrics.cut_queries += len(lengths)

    def _not_ready(self) -> Refusal:
        if self.failure is not None:
            return Refusal(503, f"the first search failed: {self.failure}")
        return Refusal(503, "the server is warming up; ask again later")


def _deadline(patience: str | None, longest: float) -> float:
    """Return the deadline, at most the time that the client says it will wait."""
    try:
        seconds = float(patience or longest)
    except ValueError:
        return longest
    return min(seconds, longest) if seconds > 0 else longest


def answer(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a reply of JSON."""
    return Response(body, status, headers, "application/json")


def _refusal(error: Exception) -> Response:
    status, sentence = status_and_sentence(error)
    return answer(write_error(sentence), status, _MORE_HEADERS.get(status))
