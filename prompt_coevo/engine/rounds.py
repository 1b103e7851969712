"""The rounds that were planned and whose rollouts have not come back yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment, Group, Rollout

# An asynchronous host may have many rounds under way, and may drop some.
_KEPT_ROLLOUTS = 200_000


class OpenRounds:
    """Remembers every plan until it is observed, and checks that rollouts come back as planned."""

    def __init__(self) -> None:
        self._plans: dict[int, dict[tuple[int, int], Assignment]] = {}
        self._size = 0

    def open(self, number: int, plan: Sequence[Assignment]) -> None:
        """Remember a round; the oldest ones are forgotten if there are too many."""
        self._plans[number] = {(planned.group, planned.member): planned for planned in plan}
        self._size += len(plan)
        while self._size > _KEPT_ROLLOUTS and len(self._plans) > 1:
            self._forget(min(self._plans))

    def close(self, rollouts: Sequence[Rollout]) -> list[Group]:
        """The rollouts as groups, in the order of rounds and groups; their rounds are over.

        A host may have dropped groups. Raises HostError for an assignment that was not planned.
        """
        groups: defaultdict[tuple[int, int], list[Rollout]] = defaultdict(list)
        for rollout in rollouts:
            self._check(rollout.assignment)
            groups[rollout.assignment.round, rollout.assignment.group].append(rollout)
        for number in {number for number, _ in groups}:
            self._forget(number)
        return [
            Group(members[0].assignment.question_id, tuple(members))
            for _, members in sorted(groups.items())
        ]

    def clear(self) -> None:
        self._plans.clear()
        self._size = 0

    def _forget(self, number: int) -> None:
        self._size -= len(self._plans.pop(number))

    def _check(self, assignment: Assignment) -> None:
        plan = self._plans.get(assignment.round, {})
        if plan.get((assignment.group, assignment.member)) != assignment:
            raise HostError(
                f"a rollout of question {assignment.question_id!r} in round {assignment.round} came "
                "back with an assignment that was never planned; the host mixed up its rows"
            )
