"""The results of one training run of the demo."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from prompt_coevo.lines import JSON

Report = Callable[[int, float | None], None]
"""Called with all rollouts so far, after every step; after an evaluation also with the accuracy on hard
questions."""


@dataclass(frozen=True)
class WordScore:
    """Right answers to the held-out questions about a word, at every point of the curve."""

    kind: str
    asked: int
    right: tuple[int, ...]


@dataclass(frozen=True)
class Cracked:
    """A template, and a question that the policy answered under it but not without it."""

    template: str
    question: str
    answer: str


@dataclass(frozen=True)
class Share:
    """The right answers, out of all."""

    right: int
    asked: int


def area(spent: Sequence[int], values: Sequence[float], budget: int) -> float:
    """Return the mean of a curve over the budget, with straight lines between points."""
    return float(np.interp(np.linspace(0, budget, 201), spent, values).mean())


@dataclass(frozen=True)
class ArmResult:
    """One arm with one seed, in one draw of the world.

    `spent`: all rollouts before each evaluation, including those of searches and verifications. `words`:
    scores without a template, under the best instruction if there is one. `last`: the sets that are scored
    only at the end. `other_rollouts`: rollouts outside training, in `batches` that
    training waited for. `tokens`: those of the reflection model, prompts and replies. `seconds` and
    `cpu_seconds` exclude evaluation.
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
    instructions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By instruction: the first round of training that had it, from 0, and its rollouts."""
    said: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """First and last answer to held-out questions."""

    def curve(self, *kinds: str) -> tuple[float, ...]:
        """Return the mean accuracy over words of these kinds, or `all`, at every point."""
        words = [word for word in self.words.values() if word.kind in kinds or "all" in kinds]
        return tuple(
            sum(word.right[point] / word.asked for word in words) / len(words)
            for point in range(len(self.spent))
        )

    def area(self, *kinds: str) -> float:
        """Return the mean of the curve over the budget."""
        return area(self.spent, self.curve(*kinds), self.budget)

    def to_json(self) -> dict[str, JSON]:
        return asdict(self)
