"""Split the hard questions of a template search into dev and train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prompt_coevo.candidates.leaks import LeakGuard, LeakGuards
from prompt_coevo.policy import Policy
from prompt_coevo.proposals import Trajectory
from prompt_coevo.types import Question, Rollout


@dataclass(frozen=True)
class HardQuestions:
    """The questions of one search: `dev_ids` score templates, `train_ids` show failures to learn from."""

    questions: Mapping[str, Question]
    dev_ids: tuple[str, ...]
    train_ids: tuple[str, ...]

    @classmethod
    def split(
        cls, ids: Sequence[str], policy: Policy, dev_size: int, rng: np.random.Generator
    ) -> HardQuestions:
        """Shuffle by `rng`, then take up to half of the questions, and at most `dev_size`, as dev."""
        shuffled = list(ids)
        rng.shuffle(shuffled)
        size = min(dev_size, len(shuffled) // 2)
        questions = {question_id: policy.question(question_id) for question_id in ids}
        return cls(questions, tuple(shuffled[:size]), tuple(shuffled[size:]))

    def leak_guard(self, guards: LeakGuards) -> LeakGuard:
        """Return a guard that knows all the questions, dev and train."""
        return guards.guard(self.questions.values())

    def failures(
        self, question_ids: Sequence[str], rollouts: Sequence[Rollout], solved_at: float
    ) -> tuple[Trajectory, ...]:
        """Return the fit rollouts that did not solve their question, in the form for a reflection model."""
        return tuple(
            Trajectory.of(self.questions[question_id], rollout.completion, rollout.reward)
            for question_id, rollout in zip(question_ids, rollouts, strict=True)
            if rollout.fit and rollout.reward < solved_at
        )
