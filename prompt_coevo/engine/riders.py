"""Rollouts that ride along with a generation round of training: which are out, and which came back."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from prompt_coevo.errors import PluginError
from prompt_coevo.markers import PROJECT
from prompt_coevo.types import Assignment, Rollout, RolloutRequest

logger = logging.getLogger(PROJECT)

_KEPT: Final = 20_000
_ROUNDS: Final = 1_000_000
"""Of an attempt: the first one begins at -1, the next one at -1 000 001."""


def check_wanted(plugin: str, wanted: object, capacity: int) -> None:
    """Raise PluginError for an answer to `coevo_wanted` that is not what it should be."""
    right = isinstance(wanted, Sequence) and all(isinstance(one, RolloutRequest) for one in wanted)
    if not right or len(wanted) > capacity:  # type: ignore[arg-type]
        raise PluginError(
            f"coevo_wanted of {plugin!r} answered {wanted!r:.100}; it must answer a list of at most "
            f"{capacity} RolloutRequests"
        )


class Riders:
    """Numbers the riders of an attempt: their rounds are negative, and no other attempt's.

    They may come back in any order, late, or never; what is not known, or comes a second time, is left
    out. So is what was sent, or sampled, in an attempt that is over: other weights wrote it.
    """

    def __init__(self, attempt: int) -> None:
        self._attempt = attempt
        self._rounds = attempt * _ROUNDS
        self._out: dict[tuple[int, int], Assignment] = {}
        self._warned = False

    def send(self, requests: Sequence[RolloutRequest]) -> list[RolloutRequest]:
        """The requests with their numbers; the oldest are forgotten if too many are out."""
        if not requests:
            return []
        self._rounds += 1
        numbered = [
            replace(
                one, assignment=replace(one.assignment, round=-self._rounds, group=0, member=member)
            )
            for member, one in enumerate(requests)
        ]
        self._out.update(((-self._rounds, n), one.assignment) for n, one in enumerate(numbered))
        while len(self._out) > _KEPT:
            del self._out[next(iter(self._out))]
        return numbered

    def take(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Those that were out, in the order in which they were sent."""
        back = []
        for rollout in rollouts:
            where = rollout.assignment.round, rollout.assignment.member
            if self._out.get(where) != rollout.assignment:
                continue
            if rollout.policy_version.attempt == self._attempt:
                del self._out[where]
                back.append(rollout)
            elif not self._warned:
                self._warned = True
                logger.warning(
                    "a rider came back with the policy_version of attempt %d in attempt %d, and is left "
                    "out; a door hands rollouts on with Coevolution.policy_version",
                    rollout.policy_version.attempt,
                    self._attempt,
                )
        return sorted(back, key=lambda one: (-one.assignment.round, one.assignment.member))
