"""What can go wrong with retrieval."""

from __future__ import annotations

from prompt_coevo.errors import CoevoError


class CorpusError(CoevoError, ValueError):
    """A corpus cannot be used as it is."""


class IndexFileError(CoevoError, ValueError):
    """An index is damaged, incomplete, or belongs to something else."""


class QueryError(CoevoError, ValueError):
    """A query, or the number of passages wanted, cannot be served. Asking again does not help."""


class RetrieverError(CoevoError, TypeError):
    """A retriever or an analyzer does not do what its protocol says. Asking again does not help."""


class ReplicasDiffer(RetrieverError):
    """Servers that should search the same index search different ones."""


class RetrieverUnavailable(CoevoError, RuntimeError):
    """No answer could be had now; asking again later may help."""


class SearchFailed(RetrieverUnavailable):
    """The server is there, but could not search for this: a query of its own may be why."""


def is_outage(error: object) -> bool:
    """Whether nothing can be searched for now; else the query may be why, and others may go well."""
    return isinstance(error, RetrieverUnavailable) and not isinstance(error, SearchFailed)
