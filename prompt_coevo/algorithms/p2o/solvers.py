"""Remember which templates solved a question in training, for `hardness = "bare"`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, TypedDict

import numpy as np

from prompt_coevo.lines import JSON
from prompt_coevo.types import Candidate, Group

_PER_QUESTION: Final = 4


class SolversState(TypedDict):
    """The saved `Solvers`: templates, and the ids of those that solved each question."""

    templates: list[dict[str, JSON]]
    by_question: dict[str, list[str]]


class Solvers:
    """The latest templates, four at most, that solved each question. Not in the paper.

    A search scores templates on a few questions only and forgets them with the next search. Without this,
    the template that solved a question in training would have to be found again.
    """

    def __init__(self, solved_at: float) -> None:
        self._solved_at = solved_at
        self._templates: dict[str, Candidate] = {}
        self._by_question: dict[str, list[str]] = {}

    def observe(self, groups: Iterable[Group]) -> None:
        for group in groups:
            for rollout in group.rollouts:
                template = rollout.assignment.template
                if template and template.text and rollout.fit and rollout.reward >= self._solved_at:
                    self._remember(group.question_id, template)

    def keep_only(self, hard: Collection[str]) -> None:
        """Forget questions that no longer need a template, and templates that no question needs."""
        self._by_question = {
            question_id: ids
            for question_id, ids in self._by_question.items()
            if question_id in hard
        }
        needed = {template_id for ids in self._by_question.values() for template_id in ids}
        self._templates = {name: one for name, one in self._templates.items() if name in needed}

    def draw(self, question_id: str, count: int, rng: np.random.Generator) -> list[Candidate]:
        """Draw `count` of a question's templates with replacement; return none if nothing has solved it."""
        known = self._by_question.get(question_id, [])
        if not known:
            return []
        return [self._templates[known[index]] for index in rng.integers(len(known), size=count)]

    def to_json(self) -> SolversState:
        return {
            "templates": [template.to_json() for template in self._templates.values()],
            "by_question": {name: list(ids) for name, ids in self._by_question.items()},
        }

    def load(self, state: SolversState) -> None:
        templates = [Candidate.from_json(one) for one in state["templates"]]
        self._templates = {template.id: template for template in templates}
        self._by_question = {name: list(ids) for name, ids in state["by_question"].items()}

    def _remember(self, question_id: str, template: Candidate) -> None:
        self._templates.setdefault(template.id, template)
        known = self._by_question.setdefault(question_id, [])
        if template.id in known:
            known.remove(template.id)
        known.append(template.id)
        del known[:-_PER_QUESTION]
