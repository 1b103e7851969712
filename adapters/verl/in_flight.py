"""Groups that were planned and have not come back yet, for hosts that name them in their own way."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.common.rows import Row
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment, Rollout


class InFlight:
    """Plans groups of `group_size` rollouts, and keeps the plans by the host's names for the groups."""

    def __init__(self, engine: Coevolution, questions: QuestionIndex, group_size: int) -> None:
        self._engine = engine
        self._questions = questions
        self._size = group_size
        self._groups: dict[str, list[Assignment]] = {}
        self._back: list[Rollout] = []

    def __bool__(self) -> bool:
        """Whether a group was planned and not observed."""
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

    def all(self) -> dict[str, list[Assignment]]:
        """Everything that is under way, by its names."""
        return dict(self._groups)

    def resume(self, groups: Mapping[str, Sequence[Assignment]]) -> None:
        """Take up groups that were planned before a checkpoint and that the host still holds."""
        self._engine.still_out([one for group in groups.values() for one in group])
        self._groups.update({name: list(group) for name, group in groups.items()})

    def came_back(self, rollouts: Sequence[Rollout], names: Collection[str] = ()) -> None:
        """Keep what the host drops, until a round is observed. `names` are the groups."""
        self._back += rollouts
        self.forget(names)

    def observe(self, rollouts: Sequence[Rollout], names: Collection[str]) -> None:
        """Hand groups over to the engine, with those that came back before; they are under way no more."""
        self._engine.observe([*self._back, *rollouts])
        self._back.clear()
        self.forget(names)

    def forget(self, names: Collection[str]) -> None:
        """Groups that will not be observed any more; those that are not under way are left out."""
        for name in names:
            self._groups.pop(name, None)

    def clear(self) -> None:
        """Nothing is under way."""
        self._groups.clear()
