"""The questions that nobody trains on, and what a policy answers to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from prompt_coevo.demo.evaluate import rewards, undisturbed
from prompt_coevo.demo.facts.explained import Explained
from prompt_coevo.demo.facts.splits import held_out_tasks, longer_tasks
from prompt_coevo.demo.facts.teacher import CLAUSE
from prompt_coevo.demo.facts.world import Task, World, reward
from prompt_coevo.demo.results import Share, WordScore
from prompt_coevo.demo.under_templates import UnderTemplates

LONGEST_ANSWER: Final = 22
"""Tokens of an answer about the longest list, with room to be wrong."""


class HeldOut:
    """The held-out questions of one draw. All answers are greedy."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tasks = held_out_tasks(world)
        self._asked = Counter(task.word for task in self._tasks)

    def score(self, model: Any, tokenizer: Any, instruction: str | None) -> dict[str, int]:
        """How many questions about each word are answered right: new lists, no template."""
        with undisturbed(model):
            found = rewards(model, tokenizer, self._tasks, instruction=instruction, grade=reward)
        right: Counter[str] = Counter()
        for task, got in zip(self._tasks, found, strict=True):
            right[task.word] += int(got)
        return {word: right[word] for word in sorted(self._asked)}

    def accuracy(self, right: Mapping[str, int], kind: str) -> float:
        """The mean over words of this kind."""
        words = [word for word in self._asked if self._world.kind[word] == kind]
        return sum(right[word] / self._asked[word] for word in words) / len(words)

    def words(self, right: Sequence[Mapping[str, int]]) -> dict[str, WordScore]:
        """The scores of all points, by word."""
        return {
            word: WordScore(
                self._world.kind[word], self._asked[word], tuple(one[word] for one in right)
            )
            for word in sorted(self._asked)
        }

    def last(
        self,
        model: Any,
        tokenizer: Any,
        trained_on: Sequence[Task],
        instruction: str | None,
        seen: UnderTemplates,
    ) -> dict[str, Share]:
        """What is scored at the end alone, all of it about hard words.

        `longer`: longer lists than any in training. `explained` and `not explained`: new lists, by
        whether a template in training had the word's meaning right. `never templated`: questions of
        training that themselves never ran under a template, and `templated`: those that did. `under
        templates`: new lists, each under the template that solved most training questions about its
        word. `without instruction`: new lists, without the instruction that the others have.
        """
        hard = [task for task in self._tasks if task.kind == "hard"]
        explained = self._explained(seen)
        best = seen.best_by({task.question: task.word for task in trained_on})
        trained = [task for task in trained_on if task.kind == "hard"]
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
        if instruction is not None:
            sets["without instruction"] = hard
        shares = {}
        for name, tasks in sets.items():
            text = None if name == "without instruction" else instruction
            with undisturbed(model):
                found = rewards(
                    model, tokenizer, tasks, 0.0, text, reward, max_completion=LONGEST_ANSWER
                )
            shares[name] = Share(int(found.sum()), len(tasks))
        return shares

    def _explained(self, seen: UnderTemplates) -> set[str]:
        """The words whose meaning a template in training had right."""
        return {
            word
            for text in seen.texts
            for word, first, second in CLAUSE.findall(text)
            if word in self._world.meaning and self._world.meaning[word] == (first, second)
        }
