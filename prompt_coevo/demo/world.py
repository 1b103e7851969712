"""The world: problem words with hidden skills, questions about lists of digits, and their reward.

A question names two words and a list: "use dax then wug on 3 1 4 1 5". Each word stands for one of
eight skills. The answer names the first word, its skill and the list after it, then the same for the
second word: "dax reverse 5 1 4 1 3 wug rotate 1 4 1 3 5". A template that says what a word means
("dax means reverse .") helps exactly when it is right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Digits: TypeAlias = tuple[int, ...]
Kind: TypeAlias = Literal["easy", "medium", "hard"]

WORDS: Final = (
    "bex", "dax", "fip", "gorp", "hud", "jil", "kiv", "lom",
    "mib", "norp", "pim", "quo", "rax", "sul", "tov", "wug",
)  # fmt: skip
FILLERS: Final = ("please", "note", "remember", "carefully", "always", "now")
FUNCTION_WORDS: Final = ("use", "then", "on", "means", ".")

SKILLS: Final[dict[str, Callable[[Digits], Digits]]] = {
    "reverse": lambda x: x[::-1],
    "rotate": lambda x: x[-1:] + x[:-1],
    "swap-ends": lambda x: x[-1:] + x[1:-1] + x[:1],
    "add-index": lambda x: tuple((value + place + 1) % 10 for place, value in enumerate(x)),
    "add-last": lambda x: tuple((value + x[-1]) % 10 for value in x),
    "add-first": lambda x: tuple((value + x[0]) % 10 for value in x),
    "swap-pairs": lambda x: tuple(
        x[place ^ 1] if place ^ 1 < len(x) else x[place] for place in range(len(x))
    ),
    "negate-odd": lambda x: tuple(9 - v if place % 2 else v for place, v in enumerate(x)),
}
SKILL_NAMES: Final = tuple(SKILLS)

# The base policy's chance of the right skill without a hint, and what it does otherwise: it falls
# for three trap skills. A hard word's right skill gets the floor.
_RIGHT: Final[dict[Kind, float]] = {"easy": 0.45, "medium": 0.05, "hard": 2e-4}
_FLOOR: Final = 2e-4
_TRAPS: Final = (0.5, 0.3, 0.2)


class Asked(Protocol):
    """A question with its right answer, of this world or another one about lists of digits."""

    @property
    def question(self) -> str: ...

    @property
    def answer(self) -> Digits: ...


@dataclass(frozen=True)
class Task:
    """One question: two words, a list of digits, and the list that is the right answer."""

    words: tuple[str, str]
    digits: Digits
    answer: Digits
    kind: Kind

    @property
    def question(self) -> str:
        return f"use {self.words[0]} then {self.words[1]} on {spell(self.digits)}"


@dataclass(frozen=True)
class World:
    """Which word means which skill, and what the base policy believes about it."""

    seed: int = 0

    @cached_property
    def _draws(self) -> tuple[dict[str, str], dict[str, Kind], NDArray[np.float64]]:
        rng = np.random.default_rng(self.seed)
        skills = np.concatenate([rng.permutation(len(SKILLS)) for _ in range(2)])
        kinds: tuple[Kind, ...] = (*("easy",) * 4, *("medium",) * 4, *("hard",) * 8)
        order = rng.permutation(len(WORDS))
        meaning = {word: SKILL_NAMES[skill] for word, skill in zip(WORDS, skills, strict=True)}
        kind = {word: kinds[place] for word, place in zip(WORDS, order, strict=True)}
        prior = np.full((len(WORDS), len(SKILLS)), _FLOOR)
        for row, word in enumerate(WORDS):
            right = int(skills[row])
            chance = _RIGHT[kind[word]]
            wrong = [skill for skill in range(len(SKILLS)) if skill != right]
            prior[row, rng.permutation(wrong)[:3]] += (1 - chance) * np.array(_TRAPS)
            prior[row, right] = chance
        return meaning, kind, prior / prior.sum(axis=1, keepdims=True)

    @property
    def meaning(self) -> dict[str, str]:
        """The hidden truth: word to skill."""
        return self._draws[0]

    @property
    def kind(self) -> dict[str, Kind]:
        """How well the base policy knows each word."""
        return self._draws[1]

    @property
    def prior(self) -> NDArray[np.float64]:
        """P(skill | word) of the base policy without a hint, (16 words x 8 skills)."""
        return self._draws[2]

    def task(self, words: tuple[str, str], digits: Digits) -> Task:
        """A question with its right answer; it is as hard as its harder word."""
        ranks: tuple[Kind, ...] = ("easy", "medium", "hard")
        kind = max((self.kind[word] for word in words), key=ranks.index)
        return Task(words, digits, self._solve(words, digits), kind)

    def _solve(self, words: tuple[str, str], digits: Digits) -> Digits:
        for word in words:
            digits = SKILLS[self.meaning[word]](digits)
        return digits


def spell(digits: Sequence[int]) -> str:
    """Digits as text, separated by spaces."""
    return " ".join(map(str, digits))


def answer_text(words: tuple[str, str], skills: tuple[str, str], digits: Digits) -> str:
    """What the policy writes if it takes the words to mean these skills and makes no slip."""
    parts = []
    for word, skill in zip(words, skills, strict=True):
        digits = SKILLS[skill](digits)
        parts.append(f"{word} {skill} {spell(digits)}")
    return " ".join(parts)


def reward(completion: str, answer: str) -> float:
    """1 iff the format is strict (word, skill, list; word, skill, list) and the last list is right."""
    return strict_reward(completion, answer, [(WORDS, SKILLS)] * 2)


Head: TypeAlias = Sequence[Collection[str]]
"""What each of some words may be."""


def strict_reward(completion: str, answer: str, heads: Sequence[Head]) -> float:
    """1 iff the completion is a head and a list for each of `heads`, and the last list is the answer.

    All lists are as long as the answer.
    """
    tokens = completion.split()
    size = len(answer.split())
    if len(tokens) != sum(len(head) + size for head in heads):
        return 0.0
    start = 0
    for head in heads:
        end = start + len(head) + size
        if any(token not in known for token, known in zip(tokens[start:end], head, strict=False)):
            return 0.0
        digits = tokens[start + len(head) : end]
        if not all(len(digit) == 1 and digit.isdecimal() for digit in digits):
            return 0.0
        start = end
    return float(" ".join(tokens[-size:]) == answer)
