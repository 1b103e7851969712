"""What a template search is asked for, what it answers, and the templates that are in use after it."""

from __future__ import annotations

from dataclasses import dataclass

from prompt_coevo.candidates.leaks import LeakGuards
from prompt_coevo.candidates.trials import ScoredPool
from prompt_coevo.policy import Policy
from prompt_coevo.types import Candidate


@dataclass(frozen=True)
class SearchRequest:
    """Find templates for the hard questions. `number` counts the searches of the run.

    `guards` are those of the run, so that a search reads only the questions that no other one has.
    """

    number: int
    hard_ids: tuple[str, ...]
    policy: Policy
    instruction: Candidate | None = None
    guards: LeakGuards | None = None


@dataclass(frozen=True)
class SearchResult:
    """The templates found with their dev scores, and what finding them cost.

    `spent` is what the budget was charged, `rollouts` what the policy really ran (cached rollouts are
    charged but not run). `stopped` says why the search ended; `failed` that it should not have.
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
