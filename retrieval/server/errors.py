"""What a server answers to everything that goes wrong: a status and one sentence."""

from __future__ import annotations

import logging

from prompt_coevo.errors import CoevoError
from prompt_coevo.markers import PROJECT
from prompt_coevo.retrieval.batcher import DeadlineExceeded, QueueFull
from prompt_coevo.retrieval.errors import QueryError, RetrieverUnavailable, SearchFailed
from prompt_coevo.retrieval.wire import MalformedRequest

logger = logging.getLogger(PROJECT)


class BodyTooLarge(CoevoError, ValueError):
    """A request is larger than allowed."""


class SlowClient(CoevoError, TimeoutError):
    """A client did not send its request in time."""


class ClientGone(CoevoError, ConnectionError):
    """A client hung up before its request was complete."""


class WrongHost(CoevoError, PermissionError):
    """A request asks for another machine."""


class ForeignOrigin(CoevoError, PermissionError):
    """A page asks that may not."""


class NoToken(CoevoError, PermissionError):
    """A request without the server's token."""


class NotReady(CoevoError, RuntimeError):
    """The server cannot answer yet."""


_STATUS: dict[type[CoevoError], int] = {
    MalformedRequest: 400,
    ClientGone: 400,
    NoToken: 401,
    ForeignOrigin: 403,
    SlowClient: 408,
    BodyTooLarge: 413,
    WrongHost: 421,
    QueryError: 422,
    SearchFailed: 500,
    NotReady: 503,
    QueueFull: 503,
    RetrieverUnavailable: 503,
    DeadlineExceeded: 504,
}


def status_and_sentence(error: Exception) -> tuple[int, str]:
    """An error that is nobody's request is logged, and 500."""
    for kind, status in _STATUS.items():
        if isinstance(error, kind):
            return status, str(error)
    logger.error("a search failed", exc_info=error)
    return 500, f"the search failed: {type(error).__name__}: {error}"
