"""Which questions a run may still meet, so that no call is made whose reply comes too late."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from prompt_coevo.algorithms.stream.settings import StreamSettings
from prompt_coevo.settings.method import Workload

_ROUNDING: Final = 1e-6


class Ahead:
    """Counts the groups that were planned, in passes over the questions, each in an order of its own.

    What is not known counts as still to come: the end of a run that does not say its steps, or that has
    gone beyond them; and the questions of a stream.
    """

    def __init__(self, settings: StreamSettings, workload: Workload | None) -> None:
        self._settings = settings
        self._room = workload is None or settings.bare_members < workload.group_size
        """Whether the group of a hard question has room for templates."""
        self._steps = workload.steps if workload else None
        self._updates = max(workload.updates_per_round, _ROUNDING) if workload else 1.0
        self._met: set[int] = set()
        self._planned = self._planned_at = 0
        self.group_size = workload.group_size if workload else 0

    def plan(self, question: int, step: int, group_size: int) -> None:
        """A group of the question is planned after so many updates."""
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
        """Whether a reply to what is asked after `step` updates may come in time for a group to use it.

        `hard` are those hard questions that may have templates, and `known` counts all questions, of which
        the `measured` are no longer met for the first time.
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

    def to_json(self, ids: Sequence[str]) -> dict[str, Any]:
        return {
            "met": [ids[number] for number in sorted(self._met)],
            "planned": self._planned,
            "planned_at": self._planned_at,
            "group_size": self.group_size,
        }

    def load(self, state: Mapping[str, Any], numbers: Mapping[str, int]) -> None:
        self._met = {numbers[one] for one in state["met"] if one in numbers}
        self._planned, self._planned_at = state["planned"], state["planned_at"]
        self.group_size = state["group_size"]

    def _in_time(self, use_at: int, steps: int) -> bool:
        """Whether a round is planned from update `use_at` on."""
        rounds = math.ceil((use_at - self._planned_at) / self._updates - _ROUNDING)
        return self._planned_at + max(1, rounds) * self._updates < steps - _ROUNDING
