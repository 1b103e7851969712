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
"""What stands in front of each skill."""

COUNTS: Final[Mapping[Kind, int]] = {"easy": 8, "medium": 8, "hard": 24}
"""So many words of each kind."""
FUNCTION_WORDS: Final = ("use", "on", *MARKERS, ".")


def _invented() -> tuple[str, ...]:
    """Syllables, in alphabetical order. They are the same in every draw: they are the vocabulary."""
    syllables = ["".join(letters) for letters in product("bdfgklmnprstvz", "aeiou", "bdgklmnprtx")]
    return tuple(sorted(random.Random(5).sample(syllables, sum(COUNTS.values()))))


WORDS: Final = _invented()
LENGTHS: Final = (4, 5)
"""Of the lists."""

_ALIKE: Final = 0.3
"""Functions that agree on more lists are taken for the same."""
_PROBES: Final = 40
_MEANINGS: Final = tuple(product(SKILL_NAMES, SKILL_NAMES))
_HEADS: Final = [(WORDS, (marker,), SKILLS) for marker in MARKERS]


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
    """Which word means what, and how well the base policy of this draw knows it.

    What that believes of each word, `benchmarks/worlds/facts/beliefs.py` draws.
    """

    draw: int = 0

    @cached_property
    def functions(self) -> tuple[Meaning, ...]:
        """What a word can mean: one meaning for every function that changes most lists."""
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
        """The hidden truth."""
        order = self.rng("meanings").permutation(len(self.functions))
        chosen = [self.functions[number] for number in order[: len(WORDS)]]
        return dict(zip(WORDS, chosen, strict=True))

    @cached_property
    def kind(self) -> Mapping[str, Kind]:
        """How well the base policy knows each word."""
        kinds: list[Kind] = [kind for kind, count in COUNTS.items() for _ in range(count)]
        order = self.rng("kinds").permutation(len(WORDS))
        return {word: kinds[place] for word, place in zip(WORDS, order, strict=True)}

    def words(self, kind: Kind) -> list[str]:
        return [word for word in WORDS if self.kind[word] == kind]

    def task(self, word: str, digits: Digits) -> Task:
        """A question with its right answer."""
        return Task(word, digits, apply(self.meaning[word], digits), self.kind[word])

    # Inside

    def rng(self, name: str) -> np.random.Generator:
        """Random numbers for one purpose."""
        names = ("probes", "functions", "meanings", "kinds", "beliefs")
        return np.random.default_rng([self.draw, names.index(name)])

    @cached_property
    def _probes(self) -> list[Digits]:
        """Lists on which functions are compared."""
        rng = self.rng("probes")
        return [tuple(rng.integers(0, 10, n).tolist()) for n in LENGTHS for _ in range(_PROBES)]

    @cached_property
    def outputs(self) -> Mapping[Meaning, list[Digits]]:
        """What each pair of skills makes of the lists on which functions are compared."""
        return {one: [apply(one, digits) for digits in self._probes] for one in _MEANINGS}


def apply(meaning: Meaning, digits: Digits) -> Digits:
    """Both skills, one after the other."""
    for skill in meaning:
        digits = SKILLS[skill](digits)
    return digits


def clause(word: str, meaning: Meaning) -> str:
    """An explanation as it stands in a template."""
    parts = [f"{word} {marker} {skill}" for marker, skill in zip(MARKERS, meaning, strict=True)]
    return " ".join([*parts, "."])


def reward(completion: str, answer: str) -> float:
    """1 iff the format is strict and the last list is right."""
    return strict_reward(completion, answer, _HEADS)


def base_path(world: World) -> Path:
    """Return the folder of the base policy that comes with the package; only the first draw has one."""
    if world.draw:
        raise SettingsError(
            f"draw {world.draw} of the world needs a base policy of its own: make one with "
            f"python benchmarks/worlds facts --draw {world.draw} --out DIR"
        )
    return Path(str(resources.files("prompt_coevo.demo") / "base"))


def agreement(left: list[Digits], right: list[Digits]) -> float:
    """The share of lists on which two functions do the same."""
    return sum(one == other for one, other in zip(left, right, strict=True)) / len(left)
