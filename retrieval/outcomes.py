"""What became of a search: the words for it, from the one who asks a server to the rollout that is told.

An `Attempt` is what asking came to, for one query: its hits, or the error that stands in their place. An
`Outcome` is what a rollout is told of it; errors are an `Outage` or `Refused` there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

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
