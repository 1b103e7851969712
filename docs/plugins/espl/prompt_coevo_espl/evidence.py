"""Collect what the rounds since the last child have shown: scores, failures, and unique winners."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prompt_coevo import Rollout
from prompt_coevo.types import Group

_KEPT = 64


@dataclass(frozen=True)
class Failure:
    """A rollout that did not solve its question."""

    question_id: str
    completion: str
    reward: float


class Evidence:
    """Collect evidence about every prompt by its id. Templated and unfit rollouts do not count."""

    def __init__(self) -> None:
        self._rewards: dict[str, list[float]] = {}
        self._failures: dict[str, list[Failure]] = {}
        self._wins: dict[str, list[str]] = {}

    def add(self, group: Group, solved_at: float, tie: float) -> dict[str, float]:
        """Add a group. Returns the mean reward of every prompt on its question."""
        rewards: dict[str, list[float]] = {}
        for rollout in group.rollouts:
            name = _prompt_of(rollout)
            if name is None:
                continue
            rewards.setdefault(name, []).append(rollout.reward)
            kept = self._failures.setdefault(name, [])
            if rollout.reward < solved_at and len(kept) < _KEPT:
                kept.append(Failure(group.question_id, rollout.completion, rollout.reward))
        for name, of_prompt in rewards.items():
            self._rewards.setdefault(name, []).extend(of_prompt)
        means = _means(rewards)
        winners = [name for name, mean in means.items() if mean >= max(means.values()) - tie]
        if len(means) > 1 and len(winners) == 1:
            self._wins.setdefault(winners[0], []).append(group.question_id)
        return means

    @property
    def means(self) -> dict[str, float]:
        """Return the mean reward of every prompt that was used."""
        return _means(self._rewards)

    def failures(self, name: str, won_by: str | None = None) -> Sequence[Failure]:
        """Return failures under a prompt; with `won_by` those on questions that this other prompt alone
        won."""
        failures = self._failures.get(name, [])
        if won_by is None:
            return failures
        won = set(self._wins.get(won_by, []))
        return [failure for failure in failures if failure.question_id in won]

    def wins(self, name: str) -> int:
        """Count the questions that this prompt alone did best on."""
        return len(self._wins.get(name, []))

    def clear(self) -> None:
        self._rewards, self._failures, self._wins = {}, {}, {}

    def to_json(self) -> dict[str, Any]:
        return {
            "rewards": self._rewards,
            "failures": {
                name: [vars(failure) for failure in failures]
                for name, failures in self._failures.items()
            },
            "wins": self._wins,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self._rewards = {name: list(rewards) for name, rewards in state["rewards"].items()}
        self._wins = {name: list(ids) for name, ids in state["wins"].items()}
        self._failures = {
            name: [Failure(**failure) for failure in failures]
            for name, failures in state["failures"].items()
        }


def _prompt_of(rollout: Rollout) -> str | None:
    instruction = rollout.assignment.instruction
    if instruction is None or rollout.assignment.templated or not rollout.fit:
        return None
    return instruction.id


def _means(rewards: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: math.fsum(values) / len(values) for name, values in rewards.items()}
