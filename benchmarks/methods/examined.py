"""Examine a run beyond what the demo shows: which rollouts had which templates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from prompt_coevo import hookimpl
from prompt_coevo.demo.held_out import HeldOut, share
from prompt_coevo.demo.results import Share
from prompt_coevo.demo.splits import longer_tasks
from prompt_coevo.demo.teacher import CLAUSE
from prompt_coevo.demo.under_templates import UnderTemplates
from prompt_coevo.demo.world import Task, World
from prompt_coevo.placement import question_text
from prompt_coevo.types import Group
from worlds.facts.explained import Explained


class Seen(UnderTemplates):
    """Counts the training groups' members under templates, too."""

    def __init__(self) -> None:
        super().__init__()
        self.templated: Counter[str] = Counter()
        """Members under templates, by the text of the question."""

        self.texts: Counter[str] = Counter()
        """Members by the text of their template."""

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        super().coevo_observe(groups)
        assert self._policy is not None
        for group in groups:
            question = question_text(self._policy.question(group.question_id).prompt)
            for rollout in group.rollouts:
                template = rollout.assignment.template
                if template is not None and rollout.assignment.templated:
                    self.templated[question] += 1
                    self.texts[template.text] += 1

    def best_by_word(self, tasks: Sequence[Task]) -> Mapping[str, str]:
        """Return for each word the template under which most of these questions were solved."""
        words = {task.question: task.word for task in tasks}
        totals: dict[str, Counter[str]] = {}
        for question, by_template in self.successes.items():
            if question in words:
                totals.setdefault(words[question], Counter()).update(by_template)
        return {word: counts.most_common(1)[0][0] for word, counts in totals.items()}


class Examined(HeldOut):
    """Score the held-out questions of one draw, and at the end those of training, by their templates."""

    def __init__(self, world: World, trained_on: Sequence[Task], seen: Seen) -> None:
        super().__init__(world)
        self._trained_on, self._seen = trained_on, seen

    def last(self, model: Any, tokenizer: Any, instruction: str | None) -> dict[str, Share]:
        """Score hard words at the end of a run.

        `longer`: longer lists than any in training. `explained` and `not explained`: new lists, by
        whether a template in training had the word's meaning right. `never templated`: questions of
        training that themselves never ran under a template, and `templated`: those that did. `under
        templates`: new lists, each under the template that solved most training questions about its
        word. `without instruction`: new lists, without the instruction that the others have.
        """
        hard = [task for task in self._tasks if task.kind == "hard"]
        explained, seen = self._explained(), self._seen
        best = seen.best_by_word(self._trained_on)
        trained = [task for task in self._trained_on if task.kind == "hard"]
        sets: dict[str, list[Any]] = {
            "longer": [task for task in longer_tasks(self._world) if task.kind == "hard"],
            "explained": [task for task in hard if task.word in explained],
            "not explained": [task for task in hard if task.word not in explained],
            "templated": [task for task in trained if seen.templated[task.question]],
            "never templated": [task for task in trained if not seen.templated[task.question]],
            "under templates": [
                Explained(task, best[task.word]) if task.word in best else task for task in hard
            ],
        }
        shares = {name: share(model, tokenizer, tasks, instruction) for name, tasks in sets.items()}
        if instruction is not None:
            shares["without instruction"] = share(model, tokenizer, hard, None)
        return shares

    def _explained(self) -> set[str]:
        """Return the words whose meaning some template in training had right."""
        return {
            word
            for text in self._seen.texts
            for word, first, second in CLAUSE.findall(text)
            if word in self._world.meaning and self._world.meaning[word] == (first, second)
        }
