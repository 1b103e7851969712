"""The proposers that requests name, as one provider."""

from __future__ import annotations

from collections.abc import Sequence

from prompt_coevo.context import Context
from prompt_coevo.markers import hookimpl
from prompt_coevo.proposals import Proposal, ProposalRequest


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
