"""Add what the package has no setting for: plugins through its public hooks, and two slightly changed
methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from prompt_coevo import Candidate, MemberPlan, Method, Policy, hookimpl
from prompt_coevo.algorithms.inspo.plugin import Inspo
from prompt_coevo.algorithms.inspo.settings import InspoSettings
from prompt_coevo.algorithms.stream.plugin import Stream
from prompt_coevo.algorithms.stream.settings import StreamSettings
from prompt_coevo.types import EMPTY_TEMPLATE, Group, Question

Writer: TypeAlias = Callable[[Question, int, int], Sequence[str]]
"""From a question, the round and a number to that many templates for it."""


class ForTheHard:
    """Give templates to questions whose last bare rollouts all failed, and to those taken for hard from the
    start.

    The first member of such a group stays bare, because it says whether the question is still hard.
    Every plan gets `punished_from`.
    """

    def __init__(
        self,
        write: Writer,
        from_the_start: Callable[[Question], bool] = lambda question: False,
        punished_from: float | None = None,
    ) -> None:
        self._write, self._from_the_start = write, from_the_start
        self._punished_from = punished_from
        self.hard: set[str] = set()
        self._policy: Policy | None = None

    @hookimpl
    def coevo_train_begin(self, policy: Policy) -> None:
        self._policy = policy
        for question_id in policy.question_ids():
            if self._from_the_start(policy.question(question_id)):
                self.hard.add(question_id)

    @hookimpl
    def coevo_plan_group(
        self, question_id: str, round: int, group_size: int
    ) -> Sequence[MemberPlan] | None:
        if question_id not in self.hard:
            return None
        assert self._policy is not None
        texts = self._write(self._policy.question(question_id), round, group_size - 1)
        templates = [Candidate(text, "template", origin="benchmark") for text in texts]
        return [
            MemberPlan(template=template, punished_from=self._punished_from)
            for template in (EMPTY_TEMPLATE, *templates)
        ]

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        for group in groups:
            mean = group.bare.mean_reward
            if mean is not None:
                (self.hard.discard if mean else self.hard.add)(group.question_id)


class TurningOver(Inspo):
    """Renew INSPO's population as often, but not by weight: the oldest half goes, not the worst.

    Of instructions that joined in the same evolution any goes first. Parents and newcomers are chosen as in
    INSPO.
    """

    def _prune(self) -> None:
        population = self._population
        by_age = sorted(population.members, key=lambda one: (one.created, one.id))
        leaving = min(len(by_age) // 2, len(by_age) - self._settings.parents)
        gone = {one.id for one in by_age[: max(leaving, 0)] if population.seen(one.id)}
        removed = population.keep_only(one.id for one in by_age if one.id not in gone)
        if removed:
            self._tell_changed(removed=removed)


class OneTemplate(Stream):
    """Run the stream with one template for all members of a group but the bare one.

    (`p2o.group_templates = "same"` is a setting of P2O alone.)
    """

    @hookimpl
    def coevo_plan_group(
        self, question_id: str, round: int, group: int, group_size: int
    ) -> Sequence[MemberPlan] | None:
        bare = self._settings.bare_members
        plans = super().coevo_plan_group(question_id, round, group, bare + 1)
        return None if plans is None else [*plans[:bare], *[plans[bare]] * (group_size - bare)]


TURNING_OVER: Final = Method(
    "turning-over", plugin=TurningOver, section=InspoSettings, provides=frozenset({"instruction"})
)
ONE_TEMPLATE: Final = Method(
    "one-template",
    plugin=OneTemplate,
    section=StreamSettings,
    provides=frozenset({"template"}),
    may_distill=True,
)
