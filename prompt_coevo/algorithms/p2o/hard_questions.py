"""What every template search works on: the hard questions, split in two."""

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
    """The questions of one search: `dev_ids` score templates, `train_ids` are learnt from."""

    questions: Mapping[str, Question]
    dev_ids: tuple[str, ...]
    train_ids: tuple[str, ...]

    @classmethod
    def split(
        cls, ids: Sequence[str], policy: Policy, dev_size: int, rng: np.random.Generator
    ) -> HardQuestions:
        """Shuffled by `rng`; at most half of the questions, and at most `dev_size`, become dev."""
        shuffled = list(ids)
        rng.shuffle(shuffled)
        size = min(dev_size, len(shuffled) // 2)
        questions = {question_id: policy.question(question_id) for question_id in ids}
        return cls(questions, tuple(shuffled[:size]), tuple(shuffled[size:]))

    def leak_guard(self, guards: LeakGuards) -> LeakGuard:
        """Knows all the questions, of both parts."""
        return guards.guard(self.questions.values())

    def failures(
        self, question_ids: Sequence[str], rollouts: Sequence[Rollout], solved_at: float
    ) -> tuple[Trajectory, ...]:
        """The rollouts that are fit to judge by and solve nothing, as a reflection model sees them."""
        return tuple(
            Trajectory.of(self.questions[question_id], rollout.completion, rollout.reward)
            for question_id, rollout in zip(question_ids, rollouts, strict=True)
            if rollout.fit and rollout.reward < solved_at
        )
