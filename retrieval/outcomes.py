"""The results of a search, at the client and in the rollout.

An `Attempt` is the client's result for one query: its hits, or an error in their place. An `Outcome` is
what a rollout gets; there, errors are an `Outage` or `Refused`. `PartialHits` are hits of some shards only;
they must not be kept for later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

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


class PartialHits(list[Hit]):
    """The hits of those shards that answered; `reason` is one sentence saying which did not."""

    def __init__(self, hits: Iterable[Hit], reason: str) -> None:
        super().__init__(hits)
        self.reason = reason

    def copy(self) -> PartialHits:
        return PartialHits(self, self.reason)


Attempt: TypeAlias = list[Hit] | Exception
Outcome: TypeAlias = Sequence[Hit] | Outage | Refused


def is_whole(attempt: Attempt) -> TypeGuard[list[Hit]]:
    """Return True for the hits of a complete search, which may be kept for who asks again."""
    return isinstance(attempt, list) and not isinstance(attempt, PartialHits)


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
