"""What the policies of all adapters answer alike."""

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
    """Rollouts outside training cannot be had. It ends the search that asked for them, not the run."""


class AdapterPolicy:
    """`prompt_coevo.policy.Policy` without its `rollout`, which only the host can give."""

    def __init__(self, questions: QuestionIndex, version: Callable[[], PolicyVersion]) -> None:
        self._questions = questions
        self._version = version

    def question(self, question_id: str) -> Question:
        """The question with this id. Raises KeyError."""
        return self._questions.question(question_id)

    def question_ids(self) -> list[str]:
        """The ids of all training questions, each once."""
        return self._questions.ids()


def sampled_alike(
    requests: Sequence[RolloutRequest],
    sample: Callable[[list[RolloutRequest], Sampling], Sequence[_Sampled]],
) -> list[_Sampled]:
    """One rollout, or what will be one, per request, in their order: one call of `sample` for each way
    of sampling."""
    rollouts: dict[int, _Sampled] = {}
    for sampling in dict.fromkeys(request.sampling for request in requests):
        places = [n for n, request in enumerate(requests) if request.sampling == sampling]
        same = sample([requests[n] for n in places], sampling)
        rollouts |= zip(places, same, strict=True)
    return [rollouts[n] for n in range(len(requests))]


def aborted(assignment: Assignment, version: PolicyVersion) -> Rollout:
    """A rollout that never came back: nobody is judged by it."""
    return Rollout(assignment, "", math.nan, "aborted", version)


def not_all_aborted(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """What one call of `Policy.rollout` brought, for hosts that score rollouts one by one and log what is
    raised.

    Raises RolloutsFailed if every one of them was aborted.
    """
    if rollouts and all(one.status == "aborted" for one in rollouts):
        raise RolloutsFailed(
            f"none of {len(rollouts)} rollouts came back with a reward: the sampler or the reward raised "
            "each time, which is in the host's log"
        )
    return list(rollouts)
