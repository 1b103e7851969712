"""Rollouts of candidates by the current policy, each paid for once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from prompt_coevo.placement import Placement
from prompt_coevo.policy import Policy
from prompt_coevo.types import Assignment, Candidate, Rollout, RolloutRequest, Sampling

Job: TypeAlias = tuple[Candidate, str]


class Evaluator:
    """Rolls templates out on questions, in one batch per call, and remembers every rollout.

    Lives as long as the weights stay as they are: a score is never reused under another policy
    version. `rollouts` counts what the policy really ran.
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
        """One rollout per (template, question id), in order; known ones are not run again."""
        missing = {
            (template.id, question_id, sampling): (template, question_id)
            for template, question_id in jobs
            if (template.id, question_id, sampling) not in self._done
        }
        requests = [
            RolloutRequest(self._assignment(template, question_id, member), sampling)
            for member, (template, question_id) in enumerate(missing.values())
        ]
        if requests:
            self._done.update(zip(missing, self._policy.rollout(requests), strict=True))
            self.rollouts += len(requests)
        return [self._done[template.id, question_id, sampling] for template, question_id in jobs]

    def _assignment(self, template: Candidate, question_id: str, member: int) -> Assignment:
        return Assignment(
            question_id,
            member=member,
            instruction=self._instruction,
            template=template,
            placement=self._placement,
        )
