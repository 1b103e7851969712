"""The comparison group: hard questions that never get a template, drawn in groups of like questions."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean
from typing import Any, Final, TypedDict

from prompt_coevo.algorithms.hard_questions.outcomes import Outcomes
from prompt_coevo.algorithms.hard_questions.verdict import Compared, Shares
from prompt_coevo.algorithms.stream.evidence import Evidence
from prompt_coevo.algorithms.stream.settings import StreamSettings
from prompt_coevo.context import Context
from prompt_coevo.markers import PROJECT
from prompt_coevo.rng import counter_rng

logger = logging.getLogger(PROJECT)

LEAST_GROUPS: Final = 400
"""With `auto`, this many groups of like hard questions are enough for a comparison (docs/report.md)."""
_SHARE: Final = 0.1
_ALIKE: Final = 0.5
"""A question at least this like the first one of a group belongs to the group."""


class ComparisonState(TypedDict):
    """The saved `Comparison`: of each group its first question, whether it is compared, and its members."""

    groups: list[list[Any]]
    why_not: str


class Comparison:
    """Draw for each group of like hard questions whether it joins the comparison group and gets no
    template.

    A group is a hard question with those like it. Whole groups are drawn, because what is learned on a
    question also helps those like it. Some of the other groups' questions, drawn one by one, are never
    shown to the reflection model (`unshown`): a template that only holds the answers its proposer saw does
    not help these. The draws depend on the seed and the question alone.
    """

    def __init__(self, context: Context, ids: Sequence[str], evidence: Evidence) -> None:
        self._context, self._ids, self._evidence = context, ids, evidence
        self._seed = context.settings.seed
        self._setting = context.settings.section(StreamSettings).comparison
        self._group_of: dict[int, int] = {}
        """Maps hard questions, and questions like them, to the first question of their group."""
        self._compared: dict[int, bool] = {}
        """Maps the first question of a group to whether the group is compared."""
        self._draws: dict[int, bool] = {}
        """Caches by question whether a group that begins with it is compared."""
        self._unshown: dict[int, bool] = {}
        self.why_not = self._without(len(ids), "begins with", "questions")
        """The reason why there is no comparison group; empty if there may be one."""

    @property
    def in_force(self) -> bool:
        """Return True if there may be a comparison group."""
        return not self.why_not

    @property
    def groups(self) -> int:
        """Count the groups of similar hard questions found so far."""
        return len(self._compared)

    def enter(self, question: int) -> None:
        """Put a hard question into a group, a new one if none is near enough."""
        if question not in self._group_of:
            group = self.group(question)
            self._group_of[question] = group
            self._compared.setdefault(group, self._drawn(group))

    def group(self, question: int) -> int:
        """Return the first question of the group; the question itself if it is in none."""
        if (known := self._group_of.get(question)) is not None:
            return known
        alike = self._evidence.near(question)
        for number, weight in zip(alike.numbers.tolist(), alike.weights.tolist(), strict=True):
            if number in self._compared and weight >= _ALIKE:
                return int(number)  # sorted by likeness
        return question

    def follows(self, question: int) -> bool:
        """Let the question join a group that another one began. Return False if there is no such group."""
        group = self.group(question)
        if group == question:
            return False
        self._group_of[question] = group
        return True

    def compares(self, question: int) -> bool:
        """Return True if the question is in the comparison group and must not get a template."""
        if not self.in_force:
            return False
        group = self.group(question)
        return self._compared[group] if group in self._compared else self._drawn(group)

    def unshown(self, question: int) -> bool:
        """Return True if the question may get templates but must not be shown to the reflection model."""
        if not self.in_force:
            return False
        found = self._unshown.get(question)
        if found is None:
            found = self._draw("unshown", question) < self._share_unshown
            self._unshown[question] = found
        return found

    def close_first_epoch(self, hard: Collection[int]) -> None:
        """Give up the comparison group if it could tell nothing, now that every question was measured."""
        if not self.in_force:
            return
        self.why_not = self._without(self.groups, "had", "in its first pass")
        if self.in_force and hard and all(self.compares(q) or self.unshown(q) for q in hard):
            reason = (
                f"stream.comparison = {self._setting} would leave no hard question for templates"
            )
            self.why_not = f"{reason}, so there is no comparison group"
            logger.warning("%s", self.why_not)
            self._context.note("no_comparison", reason=reason)

    def compared(self, outcomes: Outcomes, numbers: Mapping[str, int]) -> Compared | None:
        """Return the latest success without a template, averaged over groups: of unshown questions that may
        get templates, and of the comparison group. None without a comparison group."""
        if not self.in_force or not self.groups:
            return None
        used: dict[int, list[float]] = {}
        never: dict[int, list[float]] = {}
        sizes: Counter[int] = Counter()
        for name, outcome in outcomes:
            if outcome.latest is None:
                continue
            question = numbers[name]
            group = self.group(question)
            if self.compares(question):
                if not outcome.templated:
                    never.setdefault(group, []).append(outcome.latest)
                continue
            sizes[group] += 1
            if self.unshown(question):
                used.setdefault(group, []).append(outcome.latest)
        # A large group is more likely to have an unshown question than a small one, and may learn more: the
        # weights give each size of group the same share as in the comparison group.
        weights = [1 / (1 - (1 - self._share_unshown) ** sizes[group]) for group in used]
        return Compared(
            Shares.of([*map(fmean, used.values())], weights),
            Shares.of([*map(fmean, never.values())], [1.0] * len(never)),
        )

    def to_json(self) -> ComparisonState:
        """Return the members of each group, by the id of its first question."""
        groups: dict[int, list[str]] = {group: [] for group in self._compared}
        for question, group in self._group_of.items():
            groups[group].append(self._ids[question])
        return {
            "groups": [
                [self._ids[group], self._compared[group], members]
                for group, members in groups.items()
            ],
            "why_not": self.why_not,
        }

    def load(self, state: ComparisonState, numbers: Mapping[str, int]) -> None:
        """Restore what `to_json` returned. If a group's first question is gone, the next one leads."""
        for first, compared, members in state["groups"]:
            known = [numbers[one] for one in (first, *members) if one in numbers]
            if known:
                self._compared[known[0]] = compared
                self._group_of.update(dict.fromkeys(known, known[0]))
        self.why_not = self.why_not if self._setting == 0 else state["why_not"]

    # Inside

    def _without(self, count: int, had: str, where: str) -> str:
        """Explain why so many questions, or groups, give no comparison group; return "" if they do."""
        if self._setting == 0:
            return "stream.comparison was 0, so no hard question was kept without templates to compare with"
        if self._setting != "auto" or count >= LEAST_GROUPS:
            return ""
        return (
            f"a comparison group takes {LEAST_GROUPS} groups of like hard questions, and this run {had} "
            f"{count} {where}; compare with a run without templates on held-out questions, or, from about "
            "200 groups on, begin one with stream.comparison = 0.2"
        )

    @property
    def _share(self) -> float:
        return _SHARE if self._setting == "auto" else self._setting

    @property
    def _share_unshown(self) -> float:
        return min(2 * self._share, (1 - self._share) / 2)

    def _drawn(self, group: int) -> bool:
        if not self.in_force:
            return False
        found = self._draws.get(group)
        if found is None:
            found = self._draws[group] = self._draw("comparison", group) < self._share
        return found

    def _draw(self, what: str, question: int) -> float:
        return float(counter_rng(self._seed, f"stream/{what}", self._ids[question]).random())
