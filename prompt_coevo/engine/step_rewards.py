"""Rewards of training's rollouts between two weight updates."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import TypeAlias, TypedDict

from prompt_coevo.lines import JSON
from prompt_coevo.types import Group

Use: TypeAlias = tuple[str, str | None, int, float]
"""Question id, template id (None: no template), number of rollouts, their mean reward."""


class StepRewardsState(TypedDict):
    """The rewards in a checkpoint; `uses` are question id, template id and rewards."""

    unfit: int
    templated: list[float]
    untemplated: list[float]
    uses: list[tuple[str, str | None, list[float]]]


class StepRewards:
    """Rewards with and without a template, and per question for groups in which templates were in use.

    Rollouts that are not `fit` are only counted.
    """

    def __init__(self) -> None:
        self._unfit = 0
        self._by_manner: dict[bool, list[float]] = {True: [], False: []}
        self._by_use: dict[tuple[str, str | None], list[float]] = {}

    def add(self, groups: Sequence[Group]) -> None:
        for group in groups:
            questioned = any(rollout.assignment.templated for rollout in group.rollouts)
            for rollout in group.rollouts:
                template = rollout.assignment.template if rollout.assignment.templated else None
                if not rollout.fit:
                    self._unfit += 1
                    continue
                self._by_manner[template is not None].append(rollout.reward)
                if questioned:
                    use = (group.question_id, template.id if template else None)
                    self._by_use.setdefault(use, []).append(rollout.reward)

    @property
    def empty(self) -> bool:
        return not (self._unfit or any(self._by_manner.values()))

    @property
    def totals(self) -> dict[str, JSON]:
        """Fields of the event `rewards`: numbers of rollouts and mean rewards (None without rollouts)."""
        fields: dict[str, JSON] = {"unfit": self._unfit}
        for name, templated in (("templated", True), ("untemplated", False)):
            rewards = self._by_manner[templated]
            fields[name] = {"rollouts": len(rewards), "reward": _mean(rewards) if rewards else None}
        return fields

    @property
    def state(self) -> StepRewardsState:
        """Return the rewards as JSON values, for a checkpoint."""
        return {
            "unfit": self._unfit,
            "templated": self._by_manner[True],
            "untemplated": self._by_manner[False],
            "uses": [(*use, rewards) for use, rewards in self._by_use.items()],
        }

    @classmethod
    def of(cls, state: StepRewardsState) -> StepRewards:
        """Return the rewards that a checkpoint holds."""
        made = cls()
        made._unfit = state["unfit"]
        made._by_manner = {True: state["templated"], False: state["untemplated"]}
        made._by_use = {(name, template): rewards for name, template, rewards in state["uses"]}
        return made

    @property
    def uses(self) -> list[Use]:
        """Mean rewards per question and template, of questions with at least one templated rollout."""
        return [(*use, len(rewards), _mean(rewards)) for use, rewards in self._by_use.items()]


def _mean(rewards: Sequence[float]) -> float:
    return round(fsum(rewards) / len(rewards), 6)
