"""Get new candidates: ask the proposer, run the gates on its answers, notify the listeners.

Every text written by a model comes in here, whoever asked for it, and is cleaned first (`border.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from prompt_coevo import hookspecs
from prompt_coevo.candidates.border import cross
from prompt_coevo.candidates.leaks import LeakGuard
from prompt_coevo.context import Context
from prompt_coevo.markers import hookimpl
from prompt_coevo.proposals import Proposal, ProposalRequest
from prompt_coevo.types import Candidate


class ProposerUnavailable(Exception):
    """No proposer answered, or every call to the reflection model failed."""


def propose(context: Context, requests: Sequence[ProposalRequest]) -> Sequence[Proposal] | None:
    """Ask the proposers and do nothing else, so that this can run in the background."""
    return context.first_result(hookspecs.coevo_propose, requests=requests)


class NamedProposers:
    """Answers `coevo_propose` with the registered proposers named in the requests."""

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


class CandidateSource:
    """Turn proposal requests into candidates that may be tried.

    Create one for each search or evolution: `leak_guard` knows the questions that its proposer sees.
    """

    def __init__(self, context: Context, leak_guard: LeakGuard) -> None:
        self._context = context
        self._leak_guard = leak_guard

    def ask(
        self, requests: Sequence[ProposalRequest], known: set[str]
    ) -> list[tuple[Candidate, ...]]:
        """Return for each request the candidates that passed the gates, in the proposer's order.

        All calls run concurrently. `known` are the texts in use; the texts of accepted candidates are added
        to it. Raises ProposerUnavailable.
        """
        proposals = propose(self._context, requests)
        return self.judge(requests, proposals, [known] * len(requests))

    def judge(
        self,
        requests: Sequence[ProposalRequest],
        proposals: Sequence[Proposal] | None,
        known: Sequence[set[str]],
    ) -> list[tuple[Candidate, ...]]:
        """Run the gates on the proposals: the second half of `ask`, with `known` texts for each request."""
        if proposals is None:
            raise ProposerUnavailable("no proposer answered")
        if len(proposals) != len(requests):
            raise ProposerUnavailable(
                f"coevo_propose answered {len(requests)} requests with {len(proposals)} proposals"
            )
        for proposal in proposals:
            if proposal.failed:
                self._context.notify(hookspecs.coevo_on_reflection_error, proposal=proposal)
        if all(proposal.failed for proposal in proposals):
            raise ProposerUnavailable(f"the reflection model failed: {proposals[0].reply.error}")
        return [self._accepted(*pair) for pair in zip(proposals, known, strict=True)]

    def _accepted(self, proposal: Proposal, known: set[str]) -> tuple[Candidate, ...]:
        if not proposal.texts and not proposal.failed:
            self._tell_checked(None, proposal, proposal.problem)
        found = []
        for text in proposal.texts:
            crossed = cross(text)
            candidate = Candidate(
                crossed.text,
                proposal.request.kind,
                origin=proposal.request.proposer,
                parents=tuple(parent.id for parent in proposal.request.parents),
                created=self._context.policy_version,
            )
            reason = crossed.refusal or self._context.check(
                hookspecs.coevo_check_candidate,
                candidate=candidate,
                parents=proposal.request.parents,
                reply=proposal.reply,
                known=known,
                leak_guard=self._leak_guard,
            )
            self._tell_checked(candidate, proposal, reason)
            if reason is None:
                known.add(candidate.text)
                found.append(candidate)
        return tuple(found)

    def _tell_checked(
        self, candidate: Candidate | None, proposal: Proposal, reason: str | None
    ) -> None:
        self._context.notify(
            hookspecs.coevo_after_candidate_checked,
            candidate=candidate,
            proposal=proposal,
            reason=reason,
        )
