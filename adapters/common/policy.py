"""Base class and helpers for the policies of all adapters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.types import (
    Assignment,
    PolicyVersion,
    Question,
    Rollout,
    RolloutRequest,
    Sampling,
)

_Sampled = TypeVar("_Sampled")


class RolloutsFailed(Exception):
    """Rollouts outside training failed. This ends the search that asked for them, not the run."""


class AdapterPolicy:
    """`prompt_coevo.policy.Policy` without its `rollout`, which each trainer does in its own way."""

    def __init__(self, questions: QuestionIndex) -> None:
        self._questions = questions

    def question(self, question_id: str) -> Question:
        """Return the question with this id. Raises KeyError."""
        return self._questions.question(question_id)

    def question_ids(self) -> list[str]:
        """Return the ids of all training questions, each once."""
        return self._questions.ids()


def sampled_alike(
    requests: Sequence[RolloutRequest],
    sample: Callable[[list[RolloutRequest], Sampling], Sequence[_Sampled]],
) -> list[_Sampled]:
    """Sample one rollout (or a pending one) per request, with one call of `sample` for each `Sampling`.
    Return them in the order of the requests."""
    rollouts: dict[int, _Sampled] = {}
    for sampling in dict.fromkeys(request.sampling for request in requests):
        places = [n for n, request in enumerate(requests) if request.sampling == sampling]
        same = sample([requests[n] for n in places], sampling)
        rollouts |= zip(places, same, strict=True)
    return [rollouts[n] for n in range(len(requests))]


def aborted(assignment: Assignment, version: PolicyVersion) -> Rollout:
    """Build the rollout for a request that failed. Methods ignore it, because its status is `aborted`."""
    return Rollout(assignment, "", math.nan, "aborted", version)


def not_all_aborted(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Return the rollouts of one call of `Policy.rollout`. Raises RolloutsFailed if all were aborted.

    For trainers that score rollouts one by one and log errors instead of raising them.
    """
    if rollouts and all(one.status == "aborted" for one in rollouts):
        raise RolloutsFailed(
            f"none of {len(rollouts)} rollouts came back with a reward: the sampler or the reward raised "
            "each time, which is in the host's log"
        )
    return list(rollouts)
