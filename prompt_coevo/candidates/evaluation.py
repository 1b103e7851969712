"""Rollouts of candidates by the current policy, each paid for once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from prompt_coevo.errors import HostError
from prompt_coevo.placement import Placement
from prompt_coevo.policy import Policy
from prompt_coevo.types import Assignment, Candidate, Rollout, RolloutRequest, Sampling

Job: TypeAlias = tuple[Candidate, str]


class Evaluator:
    """Rolls candidates out on questions, in one batch per call, and remembers every rollout.

    A template is tried together with `instruction`, an instruction without any template. Lives as
    long as the weights stay as they are: a score is never reused under another policy version.
    `rollouts` counts what the policy really ran.
    """

    def __init__(
        self, policy: Policy, placement: Placement, instruction: Candidate | None = None
    ) -> None:
        self.rollouts = 0
        self._policy = policy
        self._placement = placement
        self._instruction = instruction
        self._done: dict[tuple[str, str, Sampling], Rollout] = {}

    def evaluate(self, jobs: Sequence[Job], sampling: Sampling) -> list[Rollout]:
        """One rollout per (candidate, question id), in order; known ones are not run again."""
        missing = {
            (candidate.id, question_id, sampling): (candidate, question_id)
            for candidate, question_id in jobs
            if (candidate.id, question_id, sampling) not in self._done
        }
        requests = [
            RolloutRequest(self._assignment(*job, member), sampling)
            for member, job in enumerate(missing.values())
        ]
        if requests:
            self._done.update(zip(missing, self._rolled_out(requests), strict=True))
            self.rollouts += len(requests)
        return [self._done[candidate.id, question_id, sampling] for candidate, question_id in jobs]

    def _rolled_out(self, requests: Sequence[RolloutRequest]) -> Sequence[Rollout]:
        """Raises HostError if the answer is not one rollout per request, in order: it would corrupt
        every score unnoticed."""
        rollouts = self._policy.rollout(requests)
        if [one.assignment for one in rollouts] != [one.assignment for one in requests]:
            raise HostError(
                f"policy.rollout answered {len(requests)} requests with {len(rollouts)} rollouts that do "
                "not carry the requests' assignments in order; return one rollout per request, in order"
            )
        return rollouts

    def _assignment(self, candidate: Candidate, question_id: str, member: int) -> Assignment:
        is_template = candidate.kind == "template"
        return Assignment(
            question_id,
            member=member,
            instruction=self._instruction if is_template else candidate,
            template=candidate if is_template else None,
            placement=self._placement,
        )
