"""Groups that were planned and have not come back yet, for hosts that name them in their own way."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from prompt_coevo.doors.questions import QuestionIndex
from prompt_coevo.doors.rows import Row
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment, Rollout


class UnderWay:
    """Plans groups of `group_size` rollouts, and keeps the plans by the host's names for the groups."""

    def __init__(self, engine: Coevolution, questions: QuestionIndex, group_size: int) -> None:
        self._engine = engine
        self._questions = questions
        self._size = group_size
        self._groups: dict[str, list[Assignment]] = {}
        self._back: list[Rollout] = []

    def __bool__(self) -> bool:
        """Whether a round was planned and not observed."""
        return bool(self._groups)

    def plan(self, names: Sequence[str], rows: Sequence[Row]) -> list[list[Assignment]]:
        """One group for each row of the dataset, under the name in its place."""
        size = self._size
        plan = self._engine.plan(self._questions.ids_of(rows), size)
        groups = [plan[start : start + size] for start in range(0, len(plan), size)]
        self._groups.update(zip(names, groups, strict=True))
        return groups

    def planned(self, names: Collection[str]) -> dict[str, list[Assignment]]:
        """What some groups were planned as, in the order of the plans.

        Raises HostError for a group that was never planned here.
        """
        if strangers := set(names) - set(self._groups):
            raise HostError(
                f"the group {min(strangers)} came back without having been dispatched by this trainer; "
                "its rollouts cannot be attributed"
            )
        return {name: group for name, group in self._groups.items() if name in names}

    def came_back(self, rollouts: Sequence[Rollout]) -> None:
        """Keep what the host drops from its round, until the round is observed."""
        self._back += rollouts

    def observe(self, rollouts: Sequence[Rollout]) -> None:
        """Hand a round over to the engine; nothing is under way any more."""
        self._engine.observe([*self._back, *rollouts])
        self._back.clear()
        self._groups.clear()
