"""Roll out candidates with the current policy, and never repeat a rollout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from prompt_coevo.errors import HostError
from prompt_coevo.placement import Placement
from prompt_coevo.policy import Policy
from prompt_coevo.types import Assignment, Candidate, Rollout, RolloutRequest, Sampling

Job: TypeAlias = tuple[Candidate, str]


class Evaluator:
    """Roll candidates out on questions, one batch per call, and cache every rollout.

    A template is tried together with `instruction`; an instruction is tried without a template. Use an
    evaluator only while the weights are unchanged: a score must never be reused under another policy
    version. `rollouts` counts those that the policy really ran.
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
        """Return one rollout per (candidate, question id), in order; cached ones are not run again."""
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
        """Roll out. Raises HostError if the policy does not return one rollout per request, in order,
        because that would silently corrupt every score."""
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
