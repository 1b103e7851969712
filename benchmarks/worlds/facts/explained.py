"""Put questions after explanations: right ones among those of other words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prompt_coevo.demo.digits import Digits
from prompt_coevo.demo.world import WORDS, Task, World, clause


@dataclass(frozen=True)
class Explained:
    """A question after a template."""

    task: Task
    template: str

    @property
    def question(self) -> str:
        return f"{self.template}\n\n{self.task.question}"

    @property
    def answer(self) -> Digits:
        return self.task.answer


def explained(world: World, task: Task, others: int, rng: np.random.Generator) -> Explained:
    """Put the question after its word's explanation, among those of this many other words."""
    rest = [word for word in WORDS if word != task.word]
    words = [task.word, *rng.choice(rest, others, replace=False).tolist()]
    order = rng.permutation(words).tolist()
    return Explained(task, " ".join(clause(word, world.meaning[word]) for word in order))
