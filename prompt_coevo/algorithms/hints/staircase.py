"""Track which questions are hard and how much of its solution each is shown."""

from __future__ import annotations

import math
from typing import Final, TypedDict

from prompt_coevo.algorithms.hints.settings import HintSettings
from prompt_coevo.thresholds import in_single_precision
from prompt_coevo.types import Group

_NOTCH: Final = 0.25


class StaircaseState(TypedDict):
    """The saved `Staircase`, which is all that a checkpoint holds of hints."""

    hard: list[str]
    fractions: dict[str, float]
    hinted: list[str]


class Staircase:
    """The fraction of its solution that each hard question is shown.

    Bare rollouts decide whether a question is hard. Its hint gets a notch shorter after a success and a
    notch longer, up to its first length, if all hinted rollouts failed.
    """

    def __init__(self, settings: HintSettings) -> None:
        self._longest = settings.fraction
        self._threshold = in_single_precision(settings.threshold)
        self._success_at = in_single_precision(settings.success_at)
        self._hard: set[str] = set()
        self._fractions: dict[str, float] = {}
        """Fractions of all questions that were ever hard."""
        self._hinted: set[str] = set()
        """All questions of which a rollout had a hint."""

    def __len__(self) -> int:
        return len(self._hard)

    def fraction(self, question_id: str) -> float:
        """Return the fraction of its solution to show: 0 if the question is not hard, or needs no hint."""
        return self._fractions[question_id] if question_id in self._hard else 0.0

    @property
    def found_hard(self) -> int:
        """Count the questions that were ever hard."""
        return len(self._fractions)

    @property
    def hinted(self) -> int:
        """Count the questions that were ever shown a hint."""
        return len(self._hinted)

    @property
    def weaned(self) -> int:
        """Count the hinted questions whose latest bare rollouts were no longer hard."""
        return len(self._hinted - self._hard)

    @property
    def mean_fraction(self) -> float:
        """The mean over hard questions."""
        fractions = [self._fractions[question_id] for question_id in self._hard]
        return sum(fractions) / len(fractions) if fractions else 0.0

    def observe(self, group: Group) -> None:
        """Update hardness and fraction from a group, ignoring unfit rollouts."""
        bare = _mean(group, templated=False)
        hinted = _mean(group, templated=True)
        question_id = group.question_id
        if any(one.assignment.templated for one in group.rollouts):
            self._hinted.add(question_id)
        if bare is not None:
            (self._hard.add if bare < self._threshold else self._hard.discard)(question_id)
        if question_id in self._hard:
            self._fractions.setdefault(question_id, self._longest)
        if hinted is not None and question_id in self._fractions:
            self._step(question_id, hinted)
        elif bare == 0 and self.fraction(question_id) == 0:
            self._move(question_id, up=True)  # weaned too early

    def _step(self, question_id: str, hinted: float) -> None:
        if hinted >= self._success_at:
            self._move(question_id, up=False)
        elif hinted <= 0:
            self._move(question_id, up=True)

    def _move(self, question_id: str, *, up: bool) -> None:
        if question_id in self._fractions:
            moved = self._fractions[question_id] + (_NOTCH if up else -_NOTCH)
            self._fractions[question_id] = min(max(moved, 0.0), self._longest)

    def to_json(self) -> StaircaseState:
        return {
            "hard": sorted(self._hard),
            "fractions": self._fractions,
            "hinted": sorted(self._hinted),
        }

    def load(self, state: StaircaseState) -> None:
        self._hard = set(state["hard"])
        self._fractions = dict(state["fractions"])
        self._hinted = set(state["hinted"])


def _mean(group: Group, *, templated: bool) -> float | None:
    fit = [one for one in group.rollouts if one.fit and one.assignment.templated == templated]
    return math.fsum(one.reward for one in fit) / len(fit) if fit else None
