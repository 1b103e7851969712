"""Define the world of pairs: words with hidden skills, questions about lists of digits, their reward.

A question names two words and a list: "use dax then wug on 3 1 4 1 5". Each word stands for one of
eight skills. The answer names the first word, its skill and the list after it, then the same for the
second word: "dax reverse 5 1 4 1 3 wug rotate 1 4 1 3 5". A template that says what a word means
("dax means reverse .") helps exactly when it is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prompt_coevo.demo.digits import SKILL_NAMES, SKILLS, Digits, Kind, spell, strict_reward

WORDS: Final = (
    "bex", "dax", "fip", "gorp", "hud", "jil", "kiv", "lom",
    "mib", "norp", "pim", "quo", "rax", "sul", "tov", "wug",
)  # fmt: skip
FUNCTION_WORDS: Final = ("use", "then", "on", "means", ".")

# The base policy's chance of the right skill without a hint, and what it does otherwise: it falls
# for three trap skills. A hard word's right skill gets the floor.
_RIGHT: Final[dict[Kind, float]] = {"easy": 0.45, "medium": 0.05, "hard": 2e-4}
_FLOOR: Final = 2e-4
_TRAPS: Final = (0.5, 0.3, 0.2)


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
    """The skill that each word means, and the base policy's belief about it."""

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
        """Return the hidden truth: word to skill."""
        return self._draws[0]

    @property
    def kind(self) -> dict[str, Kind]:
        """Return how well the base policy knows each word."""
        return self._draws[1]

    @property
    def prior(self) -> NDArray[np.float64]:
        """Return P(skill | word) of the base policy without a hint, (16 words x 8 skills)."""
        return self._draws[2]

    def task(self, words: tuple[str, str], digits: Digits) -> Task:
        """Return a question with its right answer; it is as hard as its harder word."""
        ranks: tuple[Kind, ...] = ("easy", "medium", "hard")
        kind = max((self.kind[word] for word in words), key=ranks.index)
        return Task(words, digits, self._solve(words, digits), kind)

    def _solve(self, words: tuple[str, str], digits: Digits) -> Digits:
        for word in words:
            digits = SKILLS[self.meaning[word]](digits)
        return digits


def answer_text(words: tuple[str, str], skills: tuple[str, str], digits: Digits) -> str:
    """Return what the policy writes if it believes these skills and makes no slip."""
    parts = []
    for word, skill in zip(words, skills, strict=True):
        digits = SKILLS[skill](digits)
        parts.append(f"{word} {skill} {spell(digits)}")
    return " ".join(parts)


def reward(completion: str, answer: str) -> float:
    """Return 1 iff the format is strict (word, skill, list; twice) and the last list is right."""
    return strict_reward(completion, answer, [(WORDS, SKILLS)] * 2)


def base_policy_path() -> Path:
    """Return the folder of the committed base policy."""
    return Path(__file__).parent / "base"
