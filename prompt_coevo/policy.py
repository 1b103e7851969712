"""The interface that an adapter implements for the engine: the current policy and the questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from prompt_coevo.types import Question, Rollout, RolloutRequest


class Policy(Protocol):
    """The policy in training, with its *current* weights.

    Rollouts run outside the training batch and must not change the trainer's state (random numbers,
    metrics, buffers, mode).
    """

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        """Return one scored completion per request, in order. The engine sends the largest batch it can."""
        ...

    def question(self, question_id: str) -> Question:
        """Return the question with this id. Raise KeyError for an id that was never given out."""
        ...

    def question_ids(self) -> Sequence[str]:
        """Return the ids of all training questions, each once."""
        ...


def ground_truth(policy: Policy, question_id: str) -> str | None:
    """Return a question's right answer; None without one, or if the trainer forgot a streamed question."""
    try:
        return policy.question(question_id).ground_truth
    except KeyError:
        return None
