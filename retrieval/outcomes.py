"""The results of a search, at the client and in the rollout.

An `Attempt` is the client's result for one query: its hits, or an error in their place. An `Outcome` is
what a rollout gets; there, errors are an `Outage` or `Refused`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from prompt_coevo.retrieval.errors import QueryError
from prompt_coevo.retrieval.retriever import Hit


@dataclass(frozen=True)
class Outage:
    """The search system was unreachable; `reason` is one sentence saying why."""

    reason: str


@dataclass(frozen=True)
class Refused:
    """The search system does not accept this query; `reason` is one sentence saying why."""

    reason: str


Attempt: TypeAlias = list[Hit] | Exception
Outcome: TypeAlias = Sequence[Hit] | Outage | Refused


def raise_first(attempts: Sequence[Attempt]) -> list[list[Hit]]:
    """Return all hits. Raise the first error if there is one."""
    found = []
    for attempt in attempts:
        if not isinstance(attempt, list):
            raise attempt
        found.append(attempt)
    return found


def about_one(error: QueryError) -> QueryError:
    """Reword the error for a query asked alone, without its number."""
    return QueryError(str(error).replace("query 0", "the query", 1))
