"""Questions about all words, most of them hard; and questions behind explanations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from prompt_coevo.demo.facts.world import LENGTHS, Task, World, clause
from prompt_coevo.demo.splits import distinct
from prompt_coevo.demo.world import Digits, Kind
from prompt_coevo.rng import counter_rng

_SHARES: Final[Mapping[Kind, float]] = {"easy": 0.12, "medium": 0.08, "hard": 0.8}
"""Of the questions, by kind of word, as in the second world."""


def held_out_tasks(world: World, count: int) -> tuple[Task, ...]:
    """New lists for the words that are trained on; the same for every seed."""
    return _draw(world, "held-out", count, frozenset())


def training_tasks(world: World, seed: int, count: int, held_out: int) -> tuple[Task, ...]:
    """Questions to train on, none of the so many held out among them."""
    return _draw(world, f"train-{seed}", count, frozenset(held_out_tasks(world, held_out)))


def _draw(world: World, name: str, count: int, exclude: frozenset[Task]) -> tuple[Task, ...]:
    rng = counter_rng(world.draw, "gpu-world/questions", name)
    words = {kind: world.words(kind) for kind in _SHARES}
    kinds, shares = list(_SHARES), list(_SHARES.values())

    def one() -> Task:
        of_kind = words[kinds[rng.choice(len(kinds), p=shares)]]
        word = of_kind[rng.integers(len(of_kind))]
        return world.task(word, tuple(rng.integers(0, 10, size=rng.choice(LENGTHS)).tolist()))

    return distinct(one, count, exclude)


@dataclass(frozen=True)
class Explained:
    """A question behind explanations."""

    task: Task
    explanations: str

    @property
    def question(self) -> str:
        return f"{self.explanations} {self.task.question}"

    @property
    def answer(self) -> Digits:
        return self.task.answer


def explained(world: World, tasks: Sequence[Task], others: int) -> list[Explained]:
    """Each question behind the right explanation of its word and those of so many other words."""
    rng = counter_rng(world.draw, "gpu-world/explained", others)
    asked = []
    for task in tasks:
        strangers = [word for word in world.vocabulary if word != task.word]
        words = rng.permutation([task.word, *rng.choice(strangers, others, replace=False)])
        text = " ".join(clause(word, world.meaning[word]) for word in words.tolist())
        asked.append(Explained(task, text))
    return asked


def by_kind(found: np.ndarray, tasks: Sequence[Task]) -> dict[str, float]:
    """Mean reward by kind of word."""
    kinds = np.array([task.kind for task in tasks])
    return {kind: round(float(found[kinds == kind].mean()), 4) for kind in _SHARES}
