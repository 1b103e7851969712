"""Requests and results of template searches, and the templates in use afterwards."""

from __future__ import annotations

from dataclasses import dataclass

from prompt_coevo.candidates.leaks import LeakGuards
from prompt_coevo.candidates.trials import ScoredPool
from prompt_coevo.policy import Policy
from prompt_coevo.types import Candidate


@dataclass(frozen=True)
class SearchRequest:
    """A request to find templates for the hard questions. `number` counts the searches of the run.

    `guards` belong to the run, so that a search only reads questions that no earlier one has read.
    """

    number: int
    hard_ids: tuple[str, ...]
    policy: Policy
    instruction: Candidate | None = None
    guards: LeakGuards | None = None


@dataclass(frozen=True)
class SearchResult:
    """The templates found, their dev scores, and the cost of the search.

    `spent` is what the budget was charged; `rollouts` is what the policy really ran (cached rollouts are
    charged but not run). `stopped` says why the search ended; `failed`, that it ended because of an error.
    """

    pool: ScoredPool
    stopped: str
    failed: bool = False
    spent: int = 0
    overshoot: int = 0
    rollouts: int = 0
    waves: int = 0
    proposals: int = 0
    accepted: int = 0


@dataclass(frozen=True)
class TemplatesInUse:
    """The templates that hard questions run under from now on, and the ids of these questions."""

    templates: tuple[Candidate, ...]
    hard_ids: frozenset[str]
