"""Errors of retrieval."""

from __future__ import annotations

from prompt_coevo.errors import CoevoError


class CorpusError(CoevoError, ValueError):
    """A corpus cannot be used as it is."""


class IndexFileError(CoevoError, ValueError):
    """An index is damaged, incomplete, or belongs to something else."""


class QueryError(CoevoError, ValueError):
    """A query or the number of passages cannot be served. Asking again does not help."""


class RetrieverError(CoevoError, TypeError):
    """A retriever or an analyzer violates its protocol. Asking again does not help."""


class ReplicasDiffer(RetrieverError):
    """Servers that should search the same index search different ones."""


class RetrieverUnavailable(CoevoError, RuntimeError):
    """No answer is available now; asking again later may help."""


class SearchFailed(RetrieverUnavailable):
    """The server is reachable, but this search failed; one of its queries may be the cause."""


def is_outage(error: object) -> bool:
    """Return True if nothing can be searched for now. Otherwise the query may be the cause, and others may
    work."""
    return isinstance(error, RetrieverUnavailable) and not isinstance(error, SearchFailed)
