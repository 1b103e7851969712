"""What became of a search: the words for it, from the one who asks a server to the rollout that is told.

An `Attempt` is what asking came to, for one query: its hits, or the error that stands in their place. An
`Outcome` is what a rollout is told of it; errors are an `Outage` or `Refused` there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from prompt_coevo.retrieval.errors import QueryError
from prompt_coevo.retrieval.retriever import Hit


@dataclass(frozen=True)
class Outage:
    """The search system could not be reached; `reason` is one sentence saying why."""

    reason: str


@dataclass(frozen=True)
class Refused:
    """The search system will not take this query; `reason` is one sentence saying why."""

    reason: str


Attempt: TypeAlias = list[Hit] | Exception
Outcome: TypeAlias = Sequence[Hit] | Outage | Refused


def raise_first(attempts: Sequence[Attempt]) -> list[list[Hit]]:
    """All hits. Raises the first error if there is one."""
    found = []
    for attempt in attempts:
        if not isinstance(attempt, list):
            raise attempt
        found.append(attempt)
    return found


def about_one(error: QueryError) -> QueryError:
    """What was said of a query that was asked alone, without its number."""
    return QueryError(str(error).replace("query 0", "the query", 1))
