"""Which questions a run may still meet, so that no call is made whose reply comes too late."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prompt_coevo.settings.method import Workload

_ROUNDING = 1e-6


class Ahead:
    """Counts the groups that were planned, in passes over the questions, each in an order of its own.

    What is not known counts as still to come: the end of a run that does not say its steps, or that has
    gone beyond them; and the questions of a stream.
    """

    def __init__(self, workload: Workload | None) -> None:
        self._steps = workload.steps if workload else None
        self._updates = max(workload.updates_per_round, _ROUNDING) if workload else 1.0
        self._met: set[int] = set()
        self._planned = self._planned_at = 0

    def plan(self, question: int, step: int) -> None:
        """A group of the question is planned after so many updates."""
        if question in self._met:  # another pass
            self._met.clear()
        self._met.add(question)
        self._planned += 1
        self._planned_at = step

    def may_use(
        self, step: int, use_at: int, known: int, wanted: Iterable[int], *, streamed: bool
    ) -> bool:
        """Whether a template that is there from update `use_at` on may have a group to run in.

        After `step` updates; of `known` questions those that are `wanted` may have a template.
        """
        if self._steps is None or step >= self._steps:
            return True
        rounds = math.ceil((use_at - self._planned_at) / self._updates - _ROUNDING)
        if self._planned_at + max(1, rounds) * self._updates >= self._steps - _ROUNDING:
            return False  # the last round is planned before
        left = self._planned / max(1, step) * (self._steps - step)
        if streamed or left > known - len(self._met):  # another pass begins
            return True
        return any(one not in self._met for one in wanted)

    def to_json(self, ids: Sequence[str]) -> dict[str, Any]:
        met = [ids[number] for number in sorted(self._met)]
        return {"met": met, "planned": self._planned, "planned_at": self._planned_at}

    def load(self, state: Mapping[str, Any], numbers: Mapping[str, int]) -> None:
        self._met = {numbers[one] for one in state["met"] if one in numbers}
        self._planned, self._planned_at = state["planned"], state["planned_at"]
