"""Track whether hard questions are later solved without a template, and which templates led there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, TypedDict

from prompt_coevo.types import Candidate, Group


@dataclass
class Outcome:
    """A question that was found hard, or first met after one like it was found hard. The latter has `hard`
    False until it is hard itself.

    `latest` is the share of bare (untemplated) rollouts that succeeded in the latest group; None until
    there is a group after the one by which it entered. `since` is the step from which that share is `tau`
    or more. The four counts are of rollouts in groups with templates. `solver` is the template that solved
    it last before `since`.
    """

    hard: bool = True
    latest: float | None = None
    since: int | None = None
    templated: int = 0
    templated_solved: int = 0
    bare: int = 0
    bare_solved: int = 0
    solver: str | None = None


class OutcomesState(TypedDict):
    """The saved `Outcomes`: the fields of each question's `Outcome`, and the texts of the solvers by id."""

    questions: dict[str, list[Any]]
    texts: dict[str, str]


class Outcomes:
    """The outcomes of a run's questions, by id, in the order in which they were found hard."""

    def __init__(self, tau: float, solved_at: float) -> None:
        self._tau, self._solved_at = tau, solved_at
        self._by_question: dict[str, Outcome] = {}
        self._texts: dict[str, str] = {}
        """Texts of the templates that solved a question, by id."""

    def __len__(self) -> int:
        return len(self._by_question)

    def __contains__(self, question_id: object) -> bool:
        return question_id in self._by_question

    def __iter__(self) -> Iterator[tuple[str, Outcome]]:
        return iter(self._by_question.items())

    def observe(
        self,
        group: Group,
        step: int,
        *,
        enters: bool,
        follows: bool = False,
        hard: bool | None = None,
    ) -> None:
        """Add the outcome of a group. `enters`: its question is found hard. `follows`: it is like one that
        was found hard before. `hard`: whether it counts as hard; default: as `enters`.

        The group by which a question enters is not an outcome itself.
        """
        hard = enters if hard is None else hard
        outcome = self._by_question.get(group.question_id)
        if outcome is None:
            if enters and not follows:
                self._by_question[group.question_id] = Outcome(hard=hard)
                return
            if not follows:
                return
            outcome = self._by_question[group.question_id] = Outcome(hard=hard)
        outcome.hard |= hard
        share = group.bare.solved_share(self._solved_at)
        if share is not None:
            outcome.latest = share
            if share < self._tau:
                outcome.since = None
            elif outcome.since is None:
                outcome.since = step
        self._count(group, outcome)

    def forget(self, known: Collection[str]) -> None:
        """Forget the questions that are no longer known."""
        self._by_question = {name: one for name, one in self if name in known}

    # Aggregates

    @property
    def found_hard(self) -> int:
        return sum(one.hard for _, one in self)

    def solved(self) -> list[Outcome]:
        """Return the hard questions that are now solved without a template."""
        return [one for _, one in self if one.hard and one.since is not None]

    @staticmethod
    def held_for(solved: Sequence[Outcome], step: int) -> float:
        """Return the median number of weight updates for which they have been solved."""
        return median(step - (one.since or 0) for one in solved) if solved else 0.0

    def solvers(self) -> list[tuple[str, int]]:
        """Return the templates that led to the solved questions: text and number of questions each."""
        counts = Counter(one.solver for one in self.solved() if one.solver is not None)
        return [(self._texts[name], count) for name, count in counts.most_common()]

    def gains(self) -> list[float]:
        """Return by question its success with templates minus its bare success in the same groups."""
        return [
            one.templated_solved / one.templated - one.bare_solved / one.bare
            for _, one in self
            if one.templated and one.bare
        ]

    def shares(self) -> tuple[float | None, float | None]:
        """Return the success with and without a template, over groups with both kinds of rollouts."""
        both = [one for _, one in self if one.templated and one.bare]
        templated, bare = sum(one.templated for one in both), sum(one.bare for one in both)
        if not both:
            return None, None
        solved = sum(one.templated_solved for one in both)
        return solved / templated, sum(one.bare_solved for one in both) / bare

    # State

    def to_json(self) -> OutcomesState:
        used = {one.solver for _, one in self}
        return {
            "questions": {name: list(vars(one).values()) for name, one in self},
            "texts": {name: text for name, text in self._texts.items() if name in used},
        }

    def load(self, state: OutcomesState) -> None:
        self._by_question = {name: Outcome(*line) for name, line in state["questions"].items()}
        self._texts = dict(state["texts"])

    # Inside

    def _count(self, group: Group, outcome: Outcome) -> None:
        fit = [one for one in group.rollouts if one.fit]
        if not any(one.assignment.templated for one in fit):
            return
        for rollout in fit:
            solved = rollout.reward >= self._solved_at
            if not rollout.assignment.templated:
                outcome.bare += 1
                outcome.bare_solved += solved
                continue
            outcome.templated += 1
            outcome.templated_solved += solved
            if solved and outcome.since is None and rollout.assignment.template is not None:
                self._note_solver(outcome, rollout.assignment.template)

    def _note_solver(self, outcome: Outcome, template: Candidate) -> None:
        outcome.solver = template.id
        self._texts[template.id] = template.text
