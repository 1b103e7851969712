"""What a search keeps of a run for its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prompt_coevo.algorithms.hard_questions.outcomes import Outcomes
from prompt_coevo.algorithms.hard_questions.repeated_answers import RepeatedAnswers
from prompt_coevo.algorithms.hard_questions.settings import HardQuestionSettings
from prompt_coevo.algorithms.hard_questions.verdict import Compared, Verdict
from prompt_coevo.policy import Policy
from prompt_coevo.types import Group, Rollout


class Results:
    """The outcomes of hard questions, and signs of a hacked reward. A method feeds `outcomes` itself."""

    def __init__(self, settings: HardQuestionSettings) -> None:
        self.outcomes = Outcomes(settings.tau, settings.solved_at)
        self._answers = RepeatedAnswers(settings.solved_at)
        self._signs: tuple[str, ...] = ()

    def observe(self, groups: Sequence[Group]) -> list[Rollout]:
        """Choose answers of a round, and return their rollouts: `settle` reads their completions, which may
        be brought with others in one call before."""
        return self._answers.observe(groups)

    def settle(self) -> None:
        """Look at the answers that were chosen."""
        self._answers.settle()

    def end(self, policy: Policy) -> None:
        """Training is over."""
        self._signs = tuple(self._answers.signs(policy))

    def verdict(self, step: int, compared: Compared | None, why_not: str) -> Verdict:
        """Say what they come to so far."""
        return Verdict(self.outcomes, step, compared, why_not, self._signs)

    def to_json(self) -> dict[str, Any]:
        return {"outcomes": self.outcomes.to_json(), "answers": self._answers.to_json()}

    def load(self, state: Mapping[str, Any]) -> None:
        self.outcomes.load(state["outcomes"])
        self._answers.load(state["answers"])
