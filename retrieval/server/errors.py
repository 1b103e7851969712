"""The server's replies to errors: a status and one sentence."""

from __future__ import annotations

import logging

from prompt_coevo.errors import CoevoError
from prompt_coevo.markers import PROJECT
from prompt_coevo.retrieval.batcher import DeadlineExceeded, QueueFull
from prompt_coevo.retrieval.errors import QueryError, RetrieverUnavailable, SearchFailed
from prompt_coevo.retrieval.wire import MalformedRequest

logger = logging.getLogger(PROJECT)


class Refusal(CoevoError):
    """A request that the server does not serve; answered with this status and sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        self.status = status
        super().__init__(sentence)


_STATUS: dict[type[CoevoError], int] = {
    MalformedRequest: 400,
    QueryError: 422,
    SearchFailed: 500,
    QueueFull: 503,
    RetrieverUnavailable: 503,
    DeadlineExceeded: 504,
}


def status_and_sentence(error: Exception) -> tuple[int, str]:
    """Return an error's status and sentence. An unexpected error is logged and becomes 500."""
    if isinstance(error, Refusal):
        return error.status, str(error)
    for kind, status in _STATUS.items():
        if isinstance(error, kind):
            return status, str(error)
    logger.error("a search failed", exc_info=error)
    return 500, f"the search failed: {type(error).__name__}: {error}"
