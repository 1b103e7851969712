"""Predict which questions the run will still meet, to avoid calls whose replies would come too late."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, TypedDict

from prompt_coevo.algorithms.stream.settings import StreamSettings
from prompt_coevo.settings.method import Workload

_ROUNDING: Final = 1e-6


class AheadState(TypedDict):
    """The saved `Ahead`."""

    met: list[str]
    planned: int
    planned_at: int
    group_size: int


class Ahead:
    """Count the planned groups, in passes over the questions, each pass in an order of its own.

    If in doubt, expect more to come: when the run does not tell its number of steps or has passed it, and
    when questions are streamed.
    """

    def __init__(self, settings: StreamSettings, workload: Workload | None) -> None:
        self._settings = settings
        self._room = workload is None or settings.bare_members < workload.group_size
        """True if a hard question's group has room for templates."""
        self._steps = workload.steps if workload else None
        self._updates = max(workload.updates_per_round, _ROUNDING) if workload else 1.0
        self._met: set[int] = set()
        self._planned = self._planned_at = 0
        self.group_size = workload.group_size if workload else 0

    def plan(self, question: int, step: int, group_size: int) -> None:
        """Count a group of the question, planned after so many updates."""
        self.group_size = group_size
        if question in self._met:  # another pass
            self._met.clear()
        self._met.add(question)
        self._planned += 1
        self._planned_at = step

    def may_use_replies(
        self,
        step: int,
        hard: Iterable[int],
        known: int,
        measured: Collection[int],
        *,
        streamed: bool,
    ) -> bool:
        """Return True if a reply to a call made after `step` updates may still be used by a group.

        `hard` are the hard questions that may have templates. `known` counts all questions; the `measured`
        ones will no longer be met for the first time.
        """
        if not (self._room or self._settings.first_sight):
            return False
        if self._steps is None or step >= self._steps:
            return True
        if not self._in_time(step + self._settings.reply_steps, self._steps):
            return False
        left = self._planned / max(1, step) * (self._steps - step)
        if streamed or left > known - len(self._met):  # another pass begins
            return True
        if self._room and any(one not in self._met for one in hard):
            return True
        return self._settings.first_sight and any(
            one not in self._met and one not in measured for one in range(known)
        )

    def to_json(self, ids: Sequence[str]) -> AheadState:
        return {
            "met": [ids[number] for number in sorted(self._met)],
            "planned": self._planned,
            "planned_at": self._planned_at,
            "group_size": self.group_size,
        }

    def load(self, state: AheadState, numbers: Mapping[str, int]) -> None:
        self._met = {numbers[one] for one in state["met"] if one in numbers}
        self._planned, self._planned_at = state["planned"], state["planned_at"]
        self.group_size = state["group_size"]

    def _in_time(self, use_at: int, steps: int) -> bool:
        """Return True if a round is planned at update `use_at` or later."""
        rounds = math.ceil((use_at - self._planned_at) / self._updates - _ROUNDING)
        return self._planned_at + max(1, rounds) * self._updates < steps - _ROUNDING
