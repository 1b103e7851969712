"""A world of words that mean two skills in sequence, questions about one word each, and their reward.

A question is `use dax on 3 1 4 1 5`, its answer `dax first reverse 5 1 4 1 3 dax then rotate 3 5 1 4 1`. A
template explains words: `dax first reverse dax then rotate .`. A word can mean any of 47 functions, all of
them different, and a half-right explanation is worth nothing.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from prompt_coevo.demo.digits import SKILL_NAMES, SKILLS, Digits, Kind, spell, strict_reward
from prompt_coevo.errors import SettingsError

Meaning: TypeAlias = tuple[str, str]
"""The first skill, then the second."""

MARKERS: Final = ("first", "then")
"""The words before the first and the second skill."""

COUNTS: Final[Mapping[Kind, int]] = {"easy": 8, "medium": 8, "hard": 24}
"""Number of words of each kind."""
FUNCTION_WORDS: Final = ("use", "on", *MARKERS, ".")


def _invented() -> tuple[str, ...]:
    """Return syllables in alphabetical order, the same in every draw because they are the vocabulary."""
    syllables = ["".join(letters) for letters in product("bdfgklmnprstvz", "aeiou", "bdgklmnprtx")]
    return tuple(sorted(random.Random(5).sample(syllables, sum(COUNTS.values()))))


WORDS: Final = _invented()
LENGTHS: Final = (4, 5)
"""Lengths of the lists."""

_ALIKE: Final = 0.3
"""Two functions count as the same if they agree on a larger fraction of lists than this."""
_PROBES: Final = 40
_MEANINGS: Final = tuple(product(SKILL_NAMES, SKILL_NAMES))
_HEADS: Final = [(WORDS, (marker,), SKILLS) for marker in MARKERS]


@dataclass(frozen=True)
class Task:
    """One question: a word, a list of digits, and the right answer."""

    word: str
    digits: Digits
    answer: Digits
    kind: Kind

    @property
    def question(self) -> str:
        return f"use {self.word} on {spell(self.digits)}"


@dataclass(frozen=True)
class World:
    """The meaning of every word, and how well this draw's base policy knows it.

    `benchmarks/worlds/facts/beliefs.py` draws what the base policy believes about each word.
    """

    draw: int = 0

    @cached_property
    def functions(self) -> tuple[Meaning, ...]:
        """Return the possible meanings of a word: one per function that changes most lists."""
        rng = self.rng("functions")
        found: list[Meaning] = []
        for number in rng.permutation(len(_MEANINGS)):
            one = _MEANINGS[number]
            outputs = self.outputs[one]
            others = (self.outputs[other] for other in found)
            if agreement(outputs, self._probes) <= _ALIKE and all(
                agreement(outputs, other) < _ALIKE for other in others
            ):
                found.append(one)
        return tuple(found)

    @cached_property
    def meaning(self) -> Mapping[str, Meaning]:
        """Return the hidden meaning of each word."""
        order = self.rng("meanings").permutation(len(self.functions))
        chosen = [self.functions[number] for number in order[: len(WORDS)]]
        return dict(zip(WORDS, chosen, strict=True))

    @cached_property
    def kind(self) -> Mapping[str, Kind]:
        """Return how well the base policy knows each word."""
        kinds: list[Kind] = [kind for kind, count in COUNTS.items() for _ in range(count)]
        order = self.rng("kinds").permutation(len(WORDS))
        return {word: kinds[place] for word, place in zip(WORDS, order, strict=True)}

    def words(self, kind: Kind) -> list[str]:
        return [word for word in WORDS if self.kind[word] == kind]

    def task(self, word: str, digits: Digits) -> Task:
        """Build a question with its right answer."""
        return Task(word, digits, apply(self.meaning[word], digits), self.kind[word])

    # Internals

    def rng(self, name: str) -> np.random.Generator:
        """Return a random generator for one purpose."""
        names = ("probes", "functions", "meanings", "kinds", "beliefs")
        return np.random.default_rng([self.draw, names.index(name)])

    @cached_property
    def _probes(self) -> list[Digits]:
        """Return the lists on which functions are compared."""
        rng = self.rng("probes")
        return [tuple(rng.integers(0, 10, n).tolist()) for n in LENGTHS for _ in range(_PROBES)]

    @cached_property
    def outputs(self) -> Mapping[Meaning, list[Digits]]:
        """Apply each pair of skills to the lists on which functions are compared."""
        return {one: [apply(one, digits) for digits in self._probes] for one in _MEANINGS}


def apply(meaning: Meaning, digits: Digits) -> Digits:
    """Apply both skills, one after the other."""
    for skill in meaning:
        digits = SKILLS[skill](digits)
    return digits


def clause(word: str, meaning: Meaning) -> str:
    """Write an explanation as it stands in a template."""
    parts = [f"{word} {marker} {skill}" for marker, skill in zip(MARKERS, meaning, strict=True)]
    return " ".join([*parts, "."])


def reward(completion: str, answer: str) -> float:
    """Return 1 if the format is strict and the last list is right, else 0."""
    return strict_reward(completion, answer, _HEADS)


def base_path(world: World) -> Path:
    """Return the folder of the packaged base policy. Only the first draw has one."""
    if world.draw:
        raise SettingsError(
            f"draw {world.draw} of the world needs a base policy of its own: make one with "
            f"python benchmarks/worlds facts --draw {world.draw} --out DIR"
        )
    return Path(str(resources.files("prompt_coevo.demo") / "base"))


def agreement(left: list[Digits], right: list[Digits]) -> float:
    """Return the fraction of lists on which two functions agree."""
    return sum(one == other for one, other in zip(left, right, strict=True)) / len(left)
