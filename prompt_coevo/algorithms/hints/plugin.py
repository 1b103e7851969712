"""Hints: some rollouts of a hard question see the beginning of its solution; none is trained with it.

A rollout that succeeds with the hint is trained on as if it had been sampled without, like P2O's template
(arXiv 2603.21877, eq. 5), but the text comes from the dataset's own solution instead of a search. How much
is shown goes up and down with the rewards of the question's rollouts (`staircase.py`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from prompt_coevo.algorithms.hints.column import hint_of, is_answer, named
from prompt_coevo.algorithms.hints.settings import HintSettings
from prompt_coevo.algorithms.hints.staircase import Staircase, StaircaseState
from prompt_coevo.candidates.leaks import some_questions
from prompt_coevo.context import Context
from prompt_coevo.errors import HostError
from prompt_coevo.markers import PROJECT, hookimpl
from prompt_coevo.policy import Policy
from prompt_coevo.types import (
    EMPTY_TEMPLATE,
    Candidate,
    Group,
    MemberPlan,
    OfRound,
    Summary,
)

logger = logging.getLogger(PROJECT)


class Hints:
    """The plugin, registered as `hints`."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._settings = context.settings.section(HintSettings)
        self._placement = replace(
            context.settings.placement.build(), template_layout=self._settings.layout
        )
        self._stairs = Staircase(self._settings)
        self._policy: Policy | None = None
        self._last_round: dict[str, float] = {}

    @hookimpl
    def coevo_train_begin(self, policy: Policy) -> None:
        """Warn of solutions that are the right answer itself; look at 512 questions at most."""
        self._policy = policy
        questions = some_questions(policy)
        told = sum(is_answer(one, hint_of(one, self._settings.column)) for one in questions)
        if told:
            logger.warning(
                "%s is the right answer itself in %d of %d rows; these questions get no hint",
                named(self._settings.column),
                told,
                len(questions),
            )

    @hookimpl
    def coevo_plan_group(self, question_id: str, group_size: int) -> Sequence[MemberPlan] | None:
        """Hint some members. The first stay bare, to measure whether the question is still hard."""
        hint = self._hint(question_id)
        if not hint:
            return None
        hinted = min(max(round(self._settings.share * group_size), 1), group_size - 1)
        with_hint = MemberPlan(
            template=Candidate(hint, "template", origin="hints"), placement=self._placement
        )
        bare = MemberPlan(template=EMPTY_TEMPLATE)
        return [bare] * (group_size - hinted) + [with_hint] * hinted

    def _hint(self, question_id: str) -> str:
        fraction = self._stairs.fraction(question_id)
        if not fraction:
            return ""
        count, most = self._context.count_tokens, self._settings.max_tokens
        return beginning(self._solution(question_id), fraction, count, most)

    def _solution(self, question_id: str) -> str:
        """Return the row's solution; empty if it has none, or only the right answer."""
        if self._policy is None:
            raise HostError("a round was planned before training began; call begin(policy) first")
        question = self._policy.question(question_id)
        text = hint_of(question, self._settings.column)
        return "" if is_answer(question, text) else text

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        for group in groups:
            self._stairs.observe(group)
        rollouts = [one for group in groups for one in group.rollouts if one.fit]
        hinted = [one.reward for one in rollouts if one.assignment.templated]
        share = len(hinted) / len(rollouts) if rollouts else 0.0
        self._last_round = {"hinted_fraction": OfRound(share)}
        if hinted:
            self._last_round["hinted_reward"] = OfRound(sum(hinted) / len(hinted))

    # State and metrics

    @hookimpl
    def coevo_state(self) -> StaircaseState:
        return self._stairs.to_json()

    @hookimpl
    def coevo_load_state(self, state: StaircaseState) -> None:
        self._stairs.load(state)

    @hookimpl
    def coevo_metrics(self) -> dict[str, float]:
        return {
            "hints_hard": float(len(self._stairs)),
            "hints_shown": self._stairs.mean_fraction,
            **self._last_round,
        }

    @hookimpl
    def coevo_summary(self) -> Summary:
        stairs = self._stairs
        if stairs.hinted:
            return Summary(
                f"questions that were given hints: {stairs.hinted}; solved without one now: {stairs.weaned}"
            )
        if not stairs.found_hard:
            why = f"no question was found hard (hints.threshold = {self._settings.threshold:g})"
        else:
            why = (
                f"of {stairs.found_hard} hard questions none that has a hint came again; train for more "
                "than one epoch"
            )
        return Summary(f"no hint was shown, because {why}", for_nothing=True)


def beginning(
    solution: str, fraction: float, count_tokens: Callable[[str], int], max_tokens: int
) -> str:
    """Return the first `fraction` of a text's words, rounded to whole words, with their spacing.

    Drops words at the end until at most `max_tokens` tokens are left; returns "" if no word is left.
    """
    ends = [match.end() for match in re.finditer(r"\S+", solution)]
    # Round half up: Python's `round` would round to the nearest even number.
    count = min(int(fraction * len(ends) + 0.5), len(ends))
    while count and count_tokens(solution[: ends[count - 1]]) > max_tokens:
        count -= max(1, count // 8)
    return solution[: ends[count - 1]].strip() if count else ""
