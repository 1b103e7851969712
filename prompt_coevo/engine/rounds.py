"""Planned rounds whose rollouts have not come back yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment, Group, Rollout

# An asynchronous trainer may have many rounds under way, and may drop some.
_KEPT_ROLLOUTS = 200_000


@dataclass
class _OpenGroup:
    """A group under way: planned assignments and finished rollouts by member."""

    planned: dict[int, Assignment] = field(default_factory=dict)
    arrived: dict[int, Rollout] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return len(self.arrived) == len(self.planned)

    def closed(self) -> Group:
        """Return the rollouts in planned order, so that no decision depends on their order of arrival."""
        rollouts = tuple(self.arrived[member] for member in sorted(self.arrived))
        return Group(rollouts[0].assignment.question_id, rollouts)


class OpenRounds:
    """Keep every plan until it is observed; check that rollouts come back as planned."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, int], _OpenGroup] = {}
        self._size = 0
        self.planned = 0
        """The number of groups planned so far."""
        self.came_back = 0
        """The number of groups completed so far."""

    def open(self, number: int, plan: Sequence[Assignment]) -> None:
        """Add a round. Drop the oldest groups if there are too many rollouts."""
        for planned in plan:
            group = self._groups.setdefault((number, planned.group), _OpenGroup())
            group.planned[planned.member] = planned
        self._size += len(plan)
        self.planned += len({planned.group for planned in plan})
        while self._size > _KEPT_ROLLOUTS and (oldest := next(iter(self._groups)))[0] != number:
            self._forget(oldest)

    def open_again(self, plan: Sequence[Assignment], rounds: int) -> None:
        """Add groups of earlier rounds. Raise HostError for a round that is not below `rounds`."""
        for number in sorted({one.round for one in plan}):
            if not 0 <= number < rounds:
                raise HostError(
                    f"the trainer's checkpoint still holds rollouts of round {number}, but the engine's "
                    f"state has planned {rounds} rounds; the two are not from the same checkpoint"
                )
            self.open(number, [one for one in plan if one.round == number])

    def close(self, rollouts: Sequence[Rollout]) -> list[Group]:
        """Take in rollouts and return the groups that they complete, sorted by round and group.

        Rollouts may come in any order and a group in parts; a dropped group never comes at all.
        Raise HostError for a rollout that was not planned or came before.
        """
        for rollout in rollouts:
            self._take(rollout)
        touched = {(one.assignment.round, one.assignment.group) for one in rollouts}
        complete = sorted(where for where in touched if self._groups[where].complete)
        groups = [self._groups[where].closed() for where in complete]
        for where in complete:
            self._forget(where)
        self.came_back += len(groups)
        return groups

    def clear(self) -> None:
        self._groups.clear()
        self._size = 0

    def _forget(self, where: tuple[int, int]) -> None:
        self._size -= len(self._groups.pop(where).planned)

    def _take(self, rollout: Rollout) -> None:
        planned = rollout.assignment
        group = self._groups.get((planned.round, planned.group), _OpenGroup())
        if group.planned.get(planned.member) != planned:
            raise HostError(
                f"a rollout of question {planned.question_id!r} in round {planned.round} came "
                "back with an assignment that was never planned, or whose group is complete already; the "
                "trainer mixed up its rows, or a subclass had a batch generated twice: leave its dynamic "
                "sampling out"
            )
        if planned.member in group.arrived:
            raise HostError(
                f"the rollout {planned.member} of question {planned.question_id!r} in round "
                f"{planned.round} came back twice; hand every rollout on once"
            )
        group.arrived[planned.member] = rollout
