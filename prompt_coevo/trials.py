"""Scores that candidates are compared by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prompt_coevo.pareto import Scores
from prompt_coevo.types import Candidate, PolicyVersion, Rollout


@dataclass(frozen=True)
class ScoredPool:
    """Candidates and their scores on the same samples, all measured under one policy version.

    `scores` is (M candidates x N samples); row i belongs to `candidates[i]`, column n to
    `sample_ids[n]`.
    """

    candidates: tuple[Candidate, ...]
    sample_ids: tuple[str, ...]
    scores: Scores
    policy_version: PolicyVersion


@dataclass(frozen=True)
class Trial:
    """A child and its parent on the same questions, under the same weights.

    Questions on which either rollout was unfit to judge by are left out, so there may be none.
    """

    parent: Candidate
    child: Candidate
    question_ids: tuple[str, ...]
    parent_rewards: tuple[float, ...]
    child_rewards: tuple[float, ...]

    @classmethod
    def of(
        cls,
        parent: Candidate,
        child: Candidate,
        question_ids: Sequence[str],
        parent_rollouts: Sequence[Rollout],
        child_rollouts: Sequence[Rollout],
    ) -> Trial:
        """The rollouts side by side, one of each per question."""
        fit = [
            (question_id, old.reward, new.reward)
            for question_id, old, new in zip(
                question_ids, parent_rollouts, child_rollouts, strict=True
            )
            if old.fit and new.fit
        ]
        ids, parent_rewards, child_rewards = zip(*fit, strict=True) if fit else ((), (), ())
        return cls(parent, child, ids, parent_rewards, child_rewards)

    @property
    def gain(self) -> float:
        """Mean reward of the child minus that of the parent; minus infinity without questions."""
        if not self.question_ids:
            return float("-inf")
        return (sum(self.child_rewards) - sum(self.parent_rewards)) / len(self.question_ids)
