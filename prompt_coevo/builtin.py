"""Built-in plugins that are always there: the gates and the proposer that the settings name."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from prompt_coevo import gates
from prompt_coevo.context import Context
from prompt_coevo.gates import LeakGuard
from prompt_coevo.markers import hookimpl
from prompt_coevo.proposals import Proposal, ProposalRequest, Reply
from prompt_coevo.types import Candidate


class Gates:
    """The cheap checks of `gates.py`, with the limits that the settings give."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._settings = context.settings.gates

    @hookimpl(tryfirst=True)
    def coevo_check_candidate(
        self,
        candidate: Candidate,
        parent: Candidate,
        reply: Reply,
        known: Collection[str],
        leak_guard: LeakGuard,
    ) -> str | None:
        verdict = gates.check(
            candidate.text,
            finish_reason=reply.finish_reason,
            parent=parent.text,
            known=known,
            required_tags=self._settings.required_tags,
            max_tokens=self._settings.max_candidate_tokens,
            count_tokens=self._context.count_tokens,
            leak_guard=leak_guard,
        )
        return verdict.reason


class NamedProposers:
    """Answers `coevo_propose` with the registered proposers that the requests name."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @hookimpl(trylast=True)
    def coevo_propose(self, requests: Sequence[ProposalRequest]) -> Sequence[Proposal]:
        answers: dict[int, Proposal] = {}
        for name in dict.fromkeys(request.proposer for request in requests):
            places = [i for i, request in enumerate(requests) if request.proposer == name]
            proposals = self._context.proposer(name).propose([requests[i] for i in places])
            answers.update(zip(places, proposals, strict=True))
        return [answers[place] for place in range(len(requests))]
