"""Trials by rollouts that ride along with training's."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from prompt_coevo.algorithms.p2o.stream.library import Library, Template
from prompt_coevo.types import Rollout

_PATIENCE: Final = 40
"""Weight updates after which a rider that did not come back is given up."""


class Riders:
    """Which templates are tried on which questions; `share` of training's rollouts may ride along."""

    def __init__(self, library: Library, share: float) -> None:
        self._library = library
        self._share = share
        self._sent: dict[tuple[str, int], int] = {}

    def next(self, capacity: int, hard: Collection[int], step: int) -> list[tuple[Template, int]]:
        """What is to ride along now, the templates first that have solved most."""
        room = min(capacity, math.ceil(self._share * capacity))
        on_trial = sorted(
            self._library.in_state("trial"), key=lambda one: (-one.solved, one.since, one.slot)
        )
        found: list[tuple[Template, int]] = []
        for template in on_trial:
            while template.waiting and len(found) < room:
                question = template.waiting.popleft()
                if question in hard and (template.candidate.id, question) not in self._sent:
                    found.append((template, question))
                    template.under_way += 1
                    self._sent[template.candidate.id, question] = step
        return found

    def came(self, rollouts: Iterable[Rollout], numbers: Mapping[str, int]) -> list[Rollout]:
        """Those to learn from. What is unfit is asked for again."""
        useful = []
        for rollout in rollouts:
            candidate = rollout.assignment.template
            question = numbers.get(rollout.assignment.question_id, -1)
            if candidate is None or self._sent.pop((candidate.id, question), None) is None:
                continue
            template = self._library.get(candidate.id)
            if template is None:  # given up meanwhile
                continue
            template.under_way -= 1
            if rollout.fit:
                useful.append(rollout)
            else:
                template.waiting.append(question)
        return useful

    def expire(self, step: int) -> None:
        """Wait no longer for those that did not come back for long."""
        for (template_id, question), sent in list(self._sent.items()):
            if step - sent > _PATIENCE:
                del self._sent[template_id, question]
                if (template := self._library.get(template_id)) is not None:
                    template.under_way -= 1

    def lost(self, template_id: str) -> Sequence[int]:
        """The questions on which riders with this template are out; a kill loses them."""
        return [question for name, question in self._sent if name == template_id]
