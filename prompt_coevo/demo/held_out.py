"""Held-out questions, and a policy's score on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from prompt_coevo.demo.digits import Asked
from prompt_coevo.demo.evaluate import Model, rewards, undisturbed
from prompt_coevo.demo.results import Share, WordScore
from prompt_coevo.demo.splits import held_out_tasks, longer_tasks
from prompt_coevo.demo.world import World, reward
from prompt_coevo.tokens import Tokenizer

LONGEST_ANSWER: Final = 22
"""Tokens of an answer about the longest list, with room to be wrong."""


class HeldOut:
    """The held-out questions of one draw. All answers are greedy."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tasks = held_out_tasks(world)
        self._asked = Counter(task.word for task in self._tasks)

    def score(self, model: Model, tokenizer: Tokenizer, instruction: str | None) -> dict[str, int]:
        """Count the right answers by word, on new lists and without a template."""
        with undisturbed(model):
            found = rewards(model, tokenizer, self._tasks, instruction=instruction, grade=reward)
        right: Counter[str] = Counter()
        for task, got in zip(self._tasks, found, strict=True):
            right[task.word] += int(got)
        return {word: right[word] for word in sorted(self._asked)}

    def accuracy(self, right: Mapping[str, int], kind: str) -> float:
        """Average over the words of this kind."""
        words = [word for word in self._asked if self._world.kind[word] == kind]
        return sum(right[word] / self._asked[word] for word in words) / len(words)

    def words(self, right: Sequence[Mapping[str, int]]) -> dict[str, WordScore]:
        """Collect the scores of all points by word."""
        return {
            word: WordScore(
                self._world.kind[word], self._asked[word], tuple(one[word] for one in right)
            )
            for word in sorted(self._asked)
        }

    def last(self, model: Model, tokenizer: Tokenizer, instruction: str | None) -> dict[str, Share]:
        """Score what is scored only at the end: `longer` has hard words and lists longer than any in
        training."""
        tasks = [task for task in longer_tasks(self._world) if task.kind == "hard"]
        return {"longer": share(model, tokenizer, tasks, instruction)}


def share(
    model: Model, tokenizer: Tokenizer, tasks: Sequence[Asked], instruction: str | None
) -> Share:
    """Count the right answers to questions with lists of any length."""
    with undisturbed(model):
        found = rewards(
            model, tokenizer, tasks, 0.0, instruction, grade=reward, max_completion=LONGEST_ANSWER
        )
    return Share(int(found.sum()), len(tasks))
