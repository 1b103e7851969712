"""Plant faults of proposers, each into a copy of the built-in `reflection`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from laws.core.mutant import Mutant, planter
from prompt_coevo.proposals import Proposal, ProposalRequest
from prompt_coevo.reflection.proposers.instructions import Reflection

MUTANTS: list[Mutant] = []
plant = planter(MUTANTS)


@plant(
    "failures-as-they-are",
    "A failed response can close the tags around it.",
    "failures_cannot_close_their_fences",
)
class FailuresAsTheyAre(Reflection):
    def show_failures(self, request: ProposalRequest) -> str:
        return "\n".join(
            f"<question>{one.question}</question><response>{one.completion}</response>"
            for one in request.failures
        )


@plant(
    "parent-as-it-is",
    "A parent can close the tags around it.",
    "a_parent_cannot_close_its_fence",
)
class ParentAsItIs(Reflection):
    def show(self, text: str) -> str:
        return text


@plant(
    "filled-twice",
    "A text from outside that looks like a placeholder is filled in.",
    "texts_are_not_filled_in",
)
class FilledTwice(Reflection):
    def render(self, request: ProposalRequest) -> str:
        return super().render(request).replace("{{parent}}", request.parent.text)


@plant(
    "answers-sorted",
    "Proposals come back in another order than the requests.",
    "proposals_come_in_the_order_of_the_requests",
)
class AnswersSorted(Reflection):
    def propose(self, requests: Sequence[ProposalRequest]) -> list[Proposal]:
        return sorted(super().propose(requests), key=lambda one: one.request_hash)


@plant(
    "refusals-left-out",
    "A request without a candidate has no proposal.",
    "no_reply_raises",
)
class RefusalsLeftOut(Reflection):
    def propose(self, requests: Sequence[ProposalRequest]) -> list[Proposal]:
        return [one for one in super().propose(requests) if one.texts]


@plant(
    "all-that-came",
    "There are more texts than were asked for.",
    "no_more_texts_than_asked_for",
)
class AllThatCame(Reflection):
    def _read(self, request: ProposalRequest, request_hash: str, reply: Any) -> Proposal:
        read = super()._read(replace(request, count=99), request_hash, reply)
        return replace(read, request=request)


@plant(
    "tags-expected",
    "A reply without tags raises.",
    "no_reply_raises",
)
class TagsExpected(Reflection):
    def _read(self, request: ProposalRequest, request_hash: str, reply: Any) -> Proposal:
        read = super()._read(request, request_hash, reply)
        if not read.texts and reply.text:
            raise ValueError("no tags")
        return read


@plant(
    "error-is-empty",
    "A call that failed looks like a reply without a candidate.",
    "a_failed_call_is_told",
)
class ErrorIsEmpty(Reflection):
    def _read(self, request: ProposalRequest, request_hash: str, reply: Any) -> Proposal:
        return super()._read(request, request_hash, replace(reply, error=None))


@plant(
    "hash-of-the-parent",
    "Two requests with the same parent cannot be told apart.",
    "requests_can_be_told_apart",
)
class HashOfTheParent(Reflection):
    def _read(self, request: ProposalRequest, request_hash: str, reply: Any) -> Proposal:
        return super()._read(request, request.parent.id, reply)


@plant(
    "only-child",
    "A request with two parents raises.",
    "several_parents_are_welcome",
)
class OnlyChild(Reflection):
    def values(self, request: ProposalRequest) -> dict[str, str]:
        (parent,) = request.parents
        return super().values(replace(request, parents=(parent,)))
