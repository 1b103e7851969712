"""Mine hard questions: P2O eq. 4."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator

from prompt_coevo.algorithms.hard_questions.early_signs import HardnessSigns
from prompt_coevo.algorithms.hard_questions.settings import HardQuestionSettings
from prompt_coevo.context import Context
from prompt_coevo.markers import PROJECT
from prompt_coevo.thresholds import in_single_precision
from prompt_coevo.types import Group

logger = logging.getLogger(PROJECT)


class HardSet:
    """The questions whose latest group had a success strictly below `tau`.

    With `bare`, success is the share of rollouts without a template whose reward reaches `solved_at`:
    solving with a template is not yet learning, and partial credit is no success. Otherwise it is the mean
    reward of the whole group, with or without templates, as in eq. 4. For rewards of 0 and 1 share and mean
    agree.

    A question keeps its verdict until it is measured again: one that an epoch missed (a sampler may drop
    the last, incomplete batch) is unknown, not easy. A group without any fit rollout measures nothing.
    """

    def __init__(
        self,
        tau: float,
        bare: bool = False,
        solved_at: float = 1.0,
        signs: HardnessSigns | None = None,
    ) -> None:
        self._tau = in_single_precision(tau)
        self._bare = bare
        self._solved_at = solved_at
        self._signs = signs
        self._ids: dict[str, None] = {}  # a dict, because it keeps the order of the verdicts

    def success(self, group: Group) -> float | None:
        """Return the group's success, to compare with `tau`; None if it measures nothing."""
        return group.bare.solved_share(self._solved_at) if self._bare else group.mean_reward

    def observe(self, group: Group) -> None:
        """Judge the group's question again."""
        success = self.success(group)
        if success is None:
            return
        if self._signs is not None:
            self._signs.measured(group, success)
        if success < self._tau:
            self._ids[group.question_id] = None
        else:
            self._ids.pop(group.question_id, None)

    @classmethod
    def of(cls, settings: HardQuestionSettings, context: Context) -> HardSet:
        """Create an empty set for a run. Warn if the settings make every question hard."""
        if settings.tau > settings.solved_at:
            name = settings.method
            reason = (
                f"{name}.tau = {settings.tau:g} is above {name}.solved_at = {settings.solved_at:g}"
            )
            context.note("every_question_is_hard", reason=reason)
            logger.warning("%s: a question counts as hard even if it is always solved", reason)
        signs = HardnessSigns(settings, context)
        return cls(settings.tau, settings.bare_hardness, settings.solved_from, signs)

    @property
    def ids(self) -> tuple[str, ...]:
        """The hard questions, sorted, so that the order does not depend on when they were measured."""
        return tuple(sorted(self._ids))

    def keep_only(self, known: Collection[str]) -> list[str]:
        """Forget all other questions and return their ids."""
        gone = [question_id for question_id in self.ids if question_id not in known]
        for question_id in gone:
            del self._ids[question_id]
        return gone

    def __iter__(self) -> Iterator[str]:
        """Iterate in the order of the verdicts, which no decision may depend on; `ids` sorts them."""
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, question_id: object) -> bool:
        return question_id in self._ids

    def observe_all(self, groups: Iterable[Group]) -> None:
        for group in groups:
            self.observe(group)
        if self._signs is not None:
            self._signs.round_ended()

    def to_json(self) -> list[str]:
        """Return the ids unsorted: sorting would take most of a state's time when everything is hard."""
        return list(self._ids)

    def load(self, ids: Iterable[str]) -> None:
        self._signs = None  # the run's first rounds are over
        self._ids = dict.fromkeys(ids)


def forget_gone(hard: HardSet, known: Collection[str], context: Context) -> None:
    """Drop the questions whose rows the dataset has lost since the checkpoint; log and journal them."""
    if gone := hard.keep_only(known):
        context.note("hard_questions_gone", questions=gone)
        logger.warning("%d hard questions are no longer in the dataset", len(gone))
