"""What every question last scored, whatever it ran under: how hard it is known to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any, Final, NamedTuple

from prompt_coevo.types import Group

_REMEMBERED: Final = 50_000


class _Measured(NamedTuple):
    """When a group ran, and its mean reward."""

    round: int
    group: int
    mean: float


class KnownMeans:
    """The latest mean reward of questions, of the 50 000 that were measured last.

    What is observed counts from the next `commit` on, so that nothing depends on the order in which
    groups come back before it.
    """

    def __init__(self) -> None:
        self._known: dict[str, float] = {}
        self._new: dict[str, _Measured] = {}

    def get(self, question_id: str) -> float | None:
        """The latest mean, None if there is none."""
        return self._known.get(question_id)

    def observe(self, groups: Sequence[Group]) -> None:
        """Rollouts without a template that are fit to judge by; of one question the latest group."""
        for group in groups:
            rewards = [rollout.reward for rollout in group.bare.rollouts if rollout.fit]
            if rewards:
                where = group.rollouts[0].assignment
                measured = _Measured(where.round, where.group, fsum(rewards) / len(rewards))
                before = self._new.get(group.question_id, measured)
                self._new[group.question_id] = max(before, measured)

    def commit(self) -> None:
        """Know what was observed."""
        for question_id, measured in sorted(self._new.items(), key=lambda entry: entry[1]):
            self._known.pop(question_id, None)
            self._known[question_id] = measured.mean
        self._new = {}
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]

    def to_json(self) -> dict[str, Any]:
        return {
            "known": [list(entry) for entry in self._known.items()],
            "new": [[name, *measured] for name, measured in sorted(self._new.items())],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self._known = dict(state["known"])
        self._new = {name: _Measured(*measured) for name, *measured in state["new"]}
