"""Warn once, after the first rounds, if no question or every question counts as hard."""

from __future__ import annotations

from typing import Final

from prompt_coevo.algorithms.hard_questions.settings import HardQuestionSettings
from prompt_coevo.context import Context
from prompt_coevo.types import Group

ROUNDS: Final = 4
"""Look at this many rounds at least."""
FEWEST: Final = 8
"""Look at more rounds until this many questions were measured."""


class HardnessSigns:
    """Collect the success of questions in the first rounds, and warn if `tau` separates none of them."""

    def __init__(self, settings: HardQuestionSettings, context: Context) -> None:
        self._settings = settings
        self._context = context
        self._rounds = 0
        self._judged = False
        self._success: dict[str, float] = {}
        self._rewards: set[float] = set()

    def measured(self, group: Group, success: float) -> None:
        """Record the success of a question's latest group."""
        if not self._judged:
            self._success[group.question_id] = success
            if len(self._rewards) < 2:  # enough to tell that they differ
                self._rewards.update(one.reward for one in group.rollouts if one.fit)

    def round_ended(self) -> None:
        """Count a round; after the last one of the first rounds, warn if needed."""
        if self._judged:
            return
        self._rounds += 1
        if self._rounds < ROUNDS or len(self._success) < FEWEST:
            return
        self._judged = True
        tau, name = self._settings.tau, self._settings.method
        lowest, highest = min(self._success.values()), max(self._success.values())
        after = f"after {self._rounds} rounds with {len(self._success)} questions"
        if lowest >= tau:
            self._warn(
                f"{after} none is hard: the lowest success of a question is {lowest:.2g}, and {name}.tau = "
                f"{tau:g}; name the reward that decides by success.reward, or raise {name}.tau"
            )
        elif highest < tau and len(self._rewards) > 1:  # the engine warns if all rewards are equal
            self._warn(
                f"{after} every one is hard: the highest success of a question is {highest:.2g}, below "
                f"{name}.tau = {tau:g}; {self._measure}"
            )

    @property
    def _measure(self) -> str:
        """Explain how success is measured and what to check if it is too low."""
        name = self._settings.method
        if self._settings.bare_hardness:
            return (
                f"a rollout succeeds from a deciding reward of {name}.solved_at = "
                f"{self._settings.solved_at:g} on, so look at success.reward, success.high and that"
            )
        return (
            f"success is a group's mean deciding reward ({name}.hardness is literal), so look at "
            "success.reward and success.high"
        )

    def _warn(self, sentence: str) -> None:
        self._context.warn_early("hardness", f"{self._settings.method}: {sentence}")
