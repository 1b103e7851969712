"""Spend GRPO's rollouts in other ways, without templates: samplers for a table's policy.

All spend exactly what GRPO spends in whole batches, and discarded rollouts count. Their groups have no
template; advantages are GRPO's, by the group. `template_search.py` runs them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

import numpy as np
from methods.tabular_world import Knobs, TabularPolicy

from prompt_coevo.types import Assignment, Rollout

MORE: Final = 4
FEWER: Final = 1 / 3
"""The group's size factor after a failure, and after a success."""
FORGETS: Final = 0.5
"""The weight of a question's earlier visits when it is visited again."""
FLOOR: Final = 0.1
"""The least weight of a question in the curriculum; the most is a quarter."""


class Budget:
    """Sample groups of bare rollouts until as many are spent as GRPO spends in whole batches."""

    def __init__(self, policy: TabularPolicy, knobs: Knobs, seed: int) -> None:
        self.policy, self.size, self.batch = policy, knobs.group, knobs.batch
        self.rng = np.random.default_rng([seed, 3])
        self.ids = policy.question_ids()
        self.step = knobs.batch * knobs.group
        """The number of rollouts in a batch."""
        self.left = math.ceil(knobs.rollouts / self.step) * self.step
        self.spent = 0
        self._deck: list[str] = []

    def deal(self) -> str:
        """Return the next question, in passes that are shuffled as GRPO's."""
        if not self._deck:
            self._deck = [self.ids[number] for number in self.rng.permutation(len(self.ids))[::-1]]
        return self._deck.pop()

    def sample(self, question_id: str, size: int | None = None) -> list[Rollout]:
        """Sample a group. The last one gets what is left, and is never a single rollout."""
        size = size or self.size
        size = self.left if self.left < size + 2 else size
        self.left, self.spent = self.left - size, self.spent + size
        return self.policy.answer([Assignment(question_id, member=one) for one in range(size)])


Baseline: TypeAlias = Callable[[Budget], Iterator[int]]
"""Updates the policy until the budget is spent, and yields the spending after every update."""


def dynamic_sampling(budget: Budget, tries: int = 10) -> Iterator[int]:
    """Sample as DAPO (arXiv 2503.14476): discard groups with equal rewards, and sample until the batch is
    full.

    It is filled group by group, so that nothing more than needed is sampled. After `tries` batches' groups
    the update uses what there is.
    """
    while budget.left:
        kept: list[list[Rollout]] = []
        for _ in range(tries * budget.batch):
            if len(kept) == budget.batch or not budget.left:
                break
            group = budget.sample(budget.deal())
            if 0 < _solved(group) < 1:
                kept.append(group)
        if kept:
            budget.policy.learn(kept)
        yield budget.spent


def more_for_the_hard(budget: Budget) -> Iterator[int]:
    """Size groups by the question's last outcome: four times as large after a failure, a third after a
    success.

    A batch has as many rollouts as before, and so fewer questions.
    """
    sizes: dict[str, int] = {}
    while budget.left:
        groups: list[list[Rollout]] = []
        while budget.left and sum(map(len, groups)) < budget.step:
            question_id = budget.deal()
            group = budget.sample(question_id, sizes.get(question_id))
            factor = {0.0: MORE, 1.0: FEWER}.get(_solved(group), 1)
            sizes[question_id] = max(2, round(factor * budget.size))
            groups.append(group)
        budget.policy.learn(groups)
        yield budget.spent


def curriculum(budget: Budget) -> Iterator[int]:
    """Draw questions by p(1 - p), with p their measured success: those in the middle more often.

    Questions not yet sampled count as in the middle.
    """
    counts = {question_id: np.array([1.0, 2.0]) for question_id in budget.ids}
    while budget.left:
        chances = np.array([solved / tries for solved, tries in counts.values()])
        weights = np.maximum(chances * (1 - chances), FLOOR)
        drawn = budget.rng.choice(
            budget.ids, budget.batch, replace=False, p=weights / weights.sum()
        )
        groups = [budget.sample(str(question_id)) for question_id in drawn if budget.left]
        for group in groups:
            own = counts[group[0].assignment.question_id]
            own *= FORGETS
            own += (sum(one.reward for one in group), len(group))
        budget.policy.learn(groups)
        yield budget.spent


def replay(budget: Budget) -> Iterator[int]:
    """Add a question's last success to its later groups that would otherwise fail.

    It costs no rollout. Its advantage is by the group that it joins, its gradient that of the current
    policy: no ratio to the policy that wrote it, no clip.
    """
    kept: dict[str, Rollout] = {}
    while budget.left:
        groups: list[list[Rollout]] = []
        while budget.left and len(groups) < budget.batch:
            group = budget.sample(budget.deal())
            solved = [one for one in group if one.reward]
            question_id = group[0].assignment.question_id
            if len(solved) == 1:
                kept[question_id] = solved[0]
            elif not solved and question_id in kept:
                group.append(kept[question_id])
            groups.append(group)
        budget.policy.learn(groups)
        yield budget.spent


def _solved(group: Sequence[Rollout]) -> float:
    return sum(one.reward for one in group) / len(group)


BASELINES: Final[Mapping[str, Baseline]] = {
    "dynamic sampling": dynamic_sampling,
    "dynamic sampling, 2 tries": partial(dynamic_sampling, tries=2),
    "more for the hard": more_for_the_hard,
    "curriculum": curriculum,
    "replay": replay,
}
