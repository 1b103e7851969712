"""What one training run of the demo ends with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

Report = Callable[[int, float | None], None]
"""Told all rollouts so far, after every step; after an evaluation also the accuracy on hard questions."""


@dataclass(frozen=True)
class WordScore:
    """How many of the held-out questions about a word were answered right, at every point of the curve."""

    kind: str
    asked: int
    right: tuple[int, ...]


@dataclass(frozen=True)
class Cracked:
    """A template and a question that the policy answered under it, and not without it."""

    template: str
    question: str
    answer: str


@dataclass(frozen=True)
class Share:
    """So many of so many were answered right."""

    right: int
    asked: int


def area(spent: Sequence[int], values: Sequence[float], budget: int) -> float:
    """The mean of a curve over the budget, a straight line between two points."""
    return float(np.interp(np.linspace(0, budget, 201), spent, values).mean())


@dataclass(frozen=True)
class ArmResult:
    """One arm with one seed, in one draw of the world.

    `spent` has all rollouts until each evaluation, those of searches and verifications included;
    `words` is greedy, without any template, under the best instruction if there is one. `last` has the
    sets that are scored at the end alone, hard words only. `other_rollouts` are those outside training,
    in `batches` that training waited for; `tokens` those of the reflection model, prompts and replies.
    `seconds` and `cpu_seconds` are without evaluation.
    """

    arm: str
    seed: int
    draw: int
    budget: int
    spent: tuple[int, ...]
    words: Mapping[str, WordScore]
    last: Mapping[str, Share]
    train_rollouts: int
    other_rollouts: int
    batches: int
    calls: int
    tokens: int
    seconds: float
    cpu_seconds: float
    cracked: tuple[Cracked, ...] = ()
    instruction: str | None = None
    said: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """What was answered to held-out questions, first and last."""

    def curve(self, *kinds: str) -> tuple[float, ...]:
        """The accuracy on words of these kinds, or `all`, at every point: the mean over words."""
        words = [word for word in self.words.values() if word.kind in kinds or "all" in kinds]
        return tuple(
            sum(word.right[point] / word.asked for word in words) / len(words)
            for point in range(len(self.spent))
        )

    def area(self, *kinds: str) -> float:
        """The mean of the curve over the budget."""
        return area(self.spent, self.curve(*kinds), self.budget)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
