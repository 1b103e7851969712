"""Groups that were planned and have not come back yet, for trainers that name groups themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.common.rows import Row
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment, Rollout


class InFlight:
    """Plans groups of `group_size` rollouts and keeps the plans by the trainer's names for the groups."""

    def __init__(self, engine: Coevolution, questions: QuestionIndex, group_size: int) -> None:
        self._engine = engine
        self._questions = questions
        self._size = group_size
        self._groups: dict[str, list[Assignment]] = {}
        self._back: list[Rollout] = []

    def __bool__(self) -> bool:
        """Check for groups that were planned and not yet observed."""
        return bool(self._groups)

    def plan(self, names: Sequence[str], rows: Sequence[Row]) -> list[list[Assignment]]:
        """Plan one group per dataset row, under the name at the same position."""
        size = self._size
        plan = self._engine.plan(self._questions.ids_of(rows), size)
        groups = [plan[start : start + size] for start in range(0, len(plan), size)]
        self._groups.update(zip(names, groups, strict=True))
        return groups

    def planned(self, names: Collection[str]) -> dict[str, list[Assignment]]:
        """Return the plans of some groups, in the order in which they were planned.

        Raises HostError for a group that was never planned here.
        """
        if strangers := set(names) - set(self._groups):
            raise HostError(
                f"the group {min(strangers)} came back without having been dispatched by this trainer; "
                "its rollouts cannot be attributed"
            )
        return {name: group for name, group in self._groups.items() if name in names}

    def all(self) -> dict[str, list[Assignment]]:
        """Return all groups in flight, by name."""
        return dict(self._groups)

    def resume(self, groups: Mapping[str, Sequence[Assignment]]) -> None:
        """Resume groups that were planned before a checkpoint and that the trainer still holds."""
        self._engine.still_out([one for group in groups.values() for one in group])
        self._groups.update({name: list(group) for name, group in groups.items()})

    def came_back(self, rollouts: Sequence[Rollout], names: Collection[str] = ()) -> None:
        """Keep rollouts that the trainer drops until a round is observed. `names` are their groups."""
        self._back += rollouts
        self.forget(names)

    def observe(self, rollouts: Sequence[Rollout], names: Collection[str]) -> None:
        """Pass groups to the engine, with rollouts that came back earlier, and forget these groups."""
        self._engine.observe([*self._back, *rollouts])
        self._back.clear()
        self.forget(names)

    def forget(self, names: Collection[str]) -> None:
        """Forget groups that will not be observed any more; ignore those that are not in flight."""
        for name in names:
            self._groups.pop(name, None)

    def clear(self) -> None:
        """Forget all groups."""
        self._groups.clear()
