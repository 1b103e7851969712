"""The current policy, for rollouts outside the training batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from prompt_coevo.doors.questions import QuestionIndex
from prompt_coevo.types import PolicyVersion, Question, Rollout, RolloutRequest

if TYPE_CHECKING:
    from prompt_coevo.adapters.openrlhf.samples import CoevoSamplesGenerator


class OpenRLHFPolicy:
    """`prompt_coevo.policy.Policy` over the vLLM engines, between two generations.

    The weights were broadcast to them already; with the asynchronous trainer the generator holds the
    lock that keeps a broadcast out.
    """

    def __init__(
        self,
        generator: CoevoSamplesGenerator,
        questions: QuestionIndex,
        version: Callable[[], PolicyVersion],
    ) -> None:
        self._generator = generator
        self._questions = questions
        self._version = version

    def question(self, question_id: str) -> Question:
        return self._questions.question(question_id)

    def question_ids(self) -> list[str]:
        return self._questions.ids()

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        """One scored completion per request, by the current weights."""
        version = self._version()
        rollouts: list[Rollout] = []
        for sampling, same in groupby(requests, key=lambda request: request.sampling):
            part = [request.assignment for request in same]
            responses = self._generator.sample(
                [one.rollout_prompt(self.question(one.question_id).prompt) for one in part],
                [self._generator.label(one.question_id) for one in part],
                sampling.temperature,
            )
            rollouts += [
                self._generator.scored(assignment, response, version)
                for assignment, response in zip(part, responses, strict=True)
            ]
        return rollouts
