"""Scores by which candidates are compared, and the verdict on which of them join."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from prompt_coevo import hookspecs
from prompt_coevo.context import Context
from prompt_coevo.types import Candidate, PolicyVersion, Rollout

Scores: TypeAlias = NDArray[np.float64]
"""(M candidates x N samples)."""


@dataclass(frozen=True)
class ScoredPool:
    """Candidates and their scores on the same samples, all measured under one policy version.

    `scores` is (M candidates x N samples): row i belongs to `candidates[i]`, column n to `sample_ids[n]`.
    """

    candidates: tuple[Candidate, ...]
    sample_ids: tuple[str, ...]
    scores: Scores
    policy_version: PolicyVersion

    def without(self, candidates: Collection[Candidate]) -> ScoredPool:
        """Return the pool without some candidates."""
        kept = [row for row, one in enumerate(self.candidates) if one not in candidates]
        rest = tuple(self.candidates[row] for row in kept)
        return replace(self, candidates=rest, scores=self.scores[kept])


@dataclass(frozen=True)
class Trial:
    """Rewards of a child and its parent on the same questions under the same weights.

    Questions on which either rollout was unfit are left out, so there may be none.
    """

    parent: Candidate
    child: Candidate
    question_ids: tuple[str, ...]
    parent_rewards: tuple[float, ...]
    child_rewards: tuple[float, ...]
    parent_completions: tuple[str, ...] = ()
    child_completions: tuple[str, ...] = ()
    """The rewarded completions, if each reward comes from one rollout."""

    @classmethod
    def paired(
        cls,
        parent: Candidate,
        child: Candidate,
        parent_rollouts: Sequence[Rollout],
        child_rollouts: Sequence[Rollout],
    ) -> Trial:
        """Pair rollouts of parent and child on the same questions in the same order."""
        fit = [
            (
                old.assignment.question_id,
                old.reward,
                new.reward,
                old.completion,
                new.completion,
            )
            for old, new in zip(parent_rollouts, child_rollouts, strict=True)
            if old.fit and new.fit
        ]
        return cls(parent, child, *(zip(*fit, strict=True) if fit else ((), (), ())))

    @property
    def gain(self) -> float:
        """The child's mean reward minus the parent's; minus infinity without questions."""
        if not self.question_ids:
            return float("-inf")
        return (sum(self.child_rewards) - sum(self.parent_rewards)) / len(self.question_ids)


def verify(context: Context, algorithm: str, trials: Sequence[Trial]) -> list[bool]:
    """Ask plugins whether each child joins, in order. Unless they give one verdict a trial, none joins."""
    if not trials:
        return []
    answer = context.first_result(hookspecs.coevo_verify, algorithm=algorithm, trials=trials)
    try:
        verdicts = [bool(verdict) for verdict in answer] if answer is not None else []
    except (TypeError, ValueError):
        verdicts = []
    if len(verdicts) != len(trials):
        context.note("verification_failed", trials=len(trials), verdicts=len(verdicts))
        verdicts = [False] * len(trials)
    for trial, accepted in zip(trials, verdicts, strict=True):
        context.notify(hookspecs.coevo_after_candidate_verified, trial=trial, accepted=accepted)
    return verdicts
