"""What an evolution has to know of the engine's doings, for its result and its errors."""

from __future__ import annotations

from collections.abc import Callable

from prompt_coevo.algorithms.p2o.cover import TemplateCover
from prompt_coevo.algorithms.p2o.search import SearchResult
from prompt_coevo.markers import hookimpl
from prompt_coevo.policy import Policy
from prompt_coevo.proposals import Proposal
from prompt_coevo.reflection.spending import is_refusal
from prompt_coevo.types import Candidate


class Watching:
    """A plugin. `first` is called when the run's ledger is open, before any method begins to search."""

    def __init__(self, first: Callable[[], None]) -> None:
        self._first = first
        self.result: SearchResult | None = None
        self.cover: TemplateCover | None = None
        self.written = self.refused = self.failed = 0
        """Candidates that the gates saw, those that they refused, and calls that failed."""
        self.spent: str | None = None
        """What the budget said to the first call that it did not pay for."""
        self.error = ""
        """The last failed call's."""

    @hookimpl(tryfirst=True)
    def coevo_train_begin(self, policy: Policy) -> None:
        self._first()

    @hookimpl
    def coevo_after_candidate_checked(
        self, candidate: Candidate | None, proposal: Proposal, reason: str | None
    ) -> None:
        self.written += 1
        self.refused += reason is not None

    @hookimpl
    def coevo_on_reflection_error(self, proposal: Proposal) -> None:
        if is_refusal(proposal.reply.error):
            self.spent = self.spent or proposal.reply.error
            return
        self.failed += 1
        self.error = proposal.reply.error or ""

    @hookimpl
    def coevo_after_templates_assigned(
        self, cover: TemplateCover | None, result: SearchResult | None
    ) -> None:
        self.cover, self.result = cover, result
