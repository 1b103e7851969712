"""What an adapter gives to the engine: the current policy and the questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from prompt_coevo.types import Question, Rollout, RolloutRequest


class Policy(Protocol):
    """The host's policy with its *current* weights.

    Rollouts run outside the training batch and leave the host's training state (random numbers,
    metrics, buffers, mode) as they found it.
    """

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        """One scored completion per request, in order. The engine asks in the largest batch it can."""
        ...

    def question(self, question_id: str) -> Question:
        """The question with this id. Raises KeyError for an id that was never given out."""
        ...

    def question_ids(self) -> Sequence[str]:
        """The ids of all training questions, each once."""
        ...
