"""Words that mean two skills, one after the other; questions about one word each; their reward.

A question is `use dax on 3 1 4 1 5`, its answer `dax first reverse 5 1 4 1 3 dax then rotate 3 5 1 4 1`.
A template explains words: `dax first reverse dax then rotate .`. There are 47 functions that a word can
mean, no two of them alike, and an explanation that is half right is worth nothing.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from prompt_coevo.demo.world import SKILL_NAMES, SKILLS, Digits, Kind, spell, strict_reward

Meaning: TypeAlias = tuple[str, str]
"""The first skill, then the second."""

_MEANINGS: Final = tuple(product(SKILL_NAMES, SKILL_NAMES))
COUNTS: Final[Mapping[Kind, int]] = {"easy": 8, "medium": 8, "hard": 24}
FUNCTION_WORDS: Final = ("use", "on", "first", "then", ".")
LENGTHS: Final = (4, 5)
"""Of the lists."""

# The base policy's chance of the right skill in each of the two places without a hint. Otherwise it
# falls for one of three traps, or, with the floor, for any skill.
_RIGHT: Final[Mapping[Kind, float]] = {"easy": 0.67, "medium": 0.22, "hard": 1e-4}
_FLOOR: Final = 1e-4
_TRAPS: Final = (0.5, 0.3, 0.2)
_ALIKE, _NEARLY_NEVER = 0.3, 0.05
"""Functions that agree on more lists are taken for the same; a trap agrees with the truth on fewer."""
_PROBES: Final = 40


def _invented(count: int) -> tuple[str, ...]:
    """Syllables, in alphabetical order. They are the same in every draw: they are the vocabulary."""
    syllables = ["".join(letters) for letters in product("bdfgklmnprstvz", "aeiou", "bdgklmnprtx")]
    return tuple(sorted(random.Random(5).sample(syllables, count)))


WORDS: Final = _invented(sum(COUNTS.values()))


@dataclass(frozen=True)
class Task:
    """One question: a word, a list of digits, and the list that is the right answer."""

    word: str
    digits: Digits
    answer: Digits
    kind: Kind

    @property
    def question(self) -> str:
        return f"use {self.word} on {spell(self.digits)}"


@dataclass(frozen=True)
class World:
    """Which word means what, and what the base policy of this draw believes about it."""

    draw: int = 0

    @cached_property
    def functions(self) -> tuple[Meaning, ...]:
        """What a word can mean: one meaning for every function that changes most lists."""
        rng = self._rng("functions")
        found: list[Meaning] = []
        for number in rng.permutation(len(_MEANINGS)):
            one = _MEANINGS[number]
            outputs = self._outputs[one]
            others = (self._outputs[other] for other in found)
            if _agreement(outputs, self._probes) <= _ALIKE and all(
                _agreement(outputs, other) < _ALIKE for other in others
            ):
                found.append(one)
        return tuple(found)

    @cached_property
    def meaning(self) -> Mapping[str, Meaning]:
        """The hidden truth."""
        order = self._rng("meanings").permutation(len(self.functions))
        chosen = [self.functions[number] for number in order[: len(WORDS)]]
        return dict(zip(WORDS, chosen, strict=True))

    @cached_property
    def kind(self) -> Mapping[str, Kind]:
        """How well the base policy knows each word."""
        kinds: list[Kind] = [kind for kind, count in COUNTS.items() for _ in range(count)]
        order = self._rng("kinds").permutation(len(WORDS))
        return {word: kinds[place] for word, place in zip(WORDS, order, strict=True)}

    @cached_property
    def prior(self) -> NDArray[np.float64]:
        """P(skill | word, place) of the base policy without a hint, (40 words x 2 places x 8 skills)."""
        rng = self._rng("beliefs")
        prior = np.full((len(WORDS), 2, len(SKILLS)), _FLOOR)
        for row, word in enumerate(WORDS):
            right = _RIGHT[self.kind[word]]
            traps = self._traps(self.meaning[word], rng)
            for place, skill in enumerate(self.meaning[word]):
                for trap, share in zip(traps[place], _TRAPS, strict=True):
                    prior[row, place, SKILL_NAMES.index(trap)] += (1 - right) * share
                prior[row, place, SKILL_NAMES.index(skill)] = right
        prior /= prior.sum(axis=-1, keepdims=True)
        return prior

    def words(self, kind: Kind) -> list[str]:
        return [word for word in WORDS if self.kind[word] == kind]

    def task(self, word: str, digits: Digits) -> Task:
        """A question with its right answer."""
        return Task(word, digits, apply(self.meaning[word], digits), self.kind[word])

    # Inside

    def _rng(self, name: str) -> np.random.Generator:
        names = ("probes", "functions", "meanings", "kinds", "beliefs")
        return np.random.default_rng([self.draw, names.index(name)])

    @cached_property
    def _probes(self) -> list[Digits]:
        """Lists on which functions are compared."""
        rng = self._rng("probes")
        return [tuple(rng.integers(0, 10, n).tolist()) for n in LENGTHS for _ in range(_PROBES)]

    @cached_property
    def _outputs(self) -> Mapping[Meaning, list[Digits]]:
        return {one: [apply(one, digits) for digits in self._probes] for one in _MEANINGS}

    def _traps(self, truth: Meaning, rng: np.random.Generator) -> list[list[str]]:
        """Three wrong skills for each place that together do not do what the word means, either."""
        while True:
            traps = [
                rng.permutation([name for name in SKILL_NAMES if name != skill])[:3].tolist()
                for skill in truth
            ]
            if all(
                _agreement(self._outputs[first, second], self._outputs[truth]) < _NEARLY_NEVER
                for first, second in product(*traps)
            ):
                return traps


def apply(meaning: Meaning, digits: Digits) -> Digits:
    """Both skills, one after the other."""
    return SKILLS[meaning[1]](SKILLS[meaning[0]](digits))


def clause(word: str, meaning: Meaning) -> str:
    """An explanation as it stands in a template."""
    return f"{word} first {meaning[0]} {word} then {meaning[1]} ."


def answer_text(word: str, meaning: Meaning, digits: Digits) -> str:
    """What the policy writes if it takes the word to mean this and makes no slip."""
    half = SKILLS[meaning[0]](digits)
    last = SKILLS[meaning[1]](half)
    return f"{word} first {meaning[0]} {spell(half)} {word} then {meaning[1]} {spell(last)}"


def reward(completion: str, answer: str) -> float:
    """1 iff the format is strict and the last list is right."""
    heads = [(WORDS, ("first",), SKILLS), (WORDS, ("then",), SKILLS)]
    return strict_reward(completion, answer, heads)


def _agreement(left: list[Digits], right: list[Digits]) -> float:
    return float(np.mean([one == other for one, other in zip(left, right, strict=True)]))
