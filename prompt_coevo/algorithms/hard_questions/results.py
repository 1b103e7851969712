"""Collect what a search for templates needs for its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from prompt_coevo.algorithms.hard_questions.outcomes import Outcomes, OutcomesState
from prompt_coevo.algorithms.hard_questions.repeated_answers import AnswersState, RepeatedAnswers
from prompt_coevo.algorithms.hard_questions.settings import HardQuestionSettings
from prompt_coevo.algorithms.hard_questions.verdict import Compared, Verdict
from prompt_coevo.policy import Policy
from prompt_coevo.types import Group, Rollout


class ResultsState(TypedDict):
    """The saved `Results`."""

    outcomes: OutcomesState
    answers: AnswersState


class Results:
    """Outcomes of hard questions, and signs of a hacked reward. The method feeds `outcomes` itself."""

    def __init__(self, settings: HardQuestionSettings) -> None:
        self.outcomes = Outcomes(settings.tau, settings.solved_from)
        self._answers = RepeatedAnswers(settings.solved_from)
        self._signs: tuple[str, ...] = ()

    def observe(self, groups: Sequence[Group]) -> list[Rollout]:
        """Choose answers of a round and return their rollouts. `settle` reads their completions, so the
        caller may fetch them before, together with others."""
        return self._answers.observe(groups)

    def settle(self) -> None:
        """Read and examine the chosen answers."""
        self._answers.settle()

    def end(self, policy: Policy) -> None:
        """Collect the signs of a hacked reward, now that training is over."""
        self._signs = tuple(self._answers.signs(policy))

    def verdict(self, step: int, compared: Compared | None, why_not: str) -> Verdict:
        """Return the verdict so far."""
        return Verdict(self.outcomes, step, compared, why_not, self._signs)

    def to_json(self) -> ResultsState:
        return {"outcomes": self.outcomes.to_json(), "answers": self._answers.to_json()}

    def load(self, state: ResultsState) -> None:
        self.outcomes.load(state["outcomes"])
        self._answers.load(state["answers"])
