"""Define the base policy's beliefs about words in a draw, which the pretraining teaches it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prompt_coevo.demo.digits import SKILL_NAMES, SKILLS, Digits, Kind, spell
from prompt_coevo.demo.world import MARKERS, WORDS, Meaning, World, agreement

# The chance of the right skill in each place without a hint. Otherwise the policy falls for one
# of three traps, or, with the floor, for any skill.
_RIGHT: Final[Mapping[Kind, float]] = {"easy": 0.67, "medium": 0.22, "hard": 1e-4}
_FLOOR: Final = 1e-4
_TRAPS: Final = (0.5, 0.3, 0.2)
_NEARLY_NEVER: Final = 0.05
"""A trap agrees with the truth on fewer lists."""


@lru_cache(maxsize=8)
def prior(world: World) -> NDArray[np.float64]:
    """Return P(skill | word, place) without a hint, (words x places x 8 skills)."""
    rng = world.rng("beliefs")
    found = np.full((len(WORDS), len(MARKERS), len(SKILLS)), _FLOOR)
    for row, word in enumerate(WORDS):
        right = _RIGHT[world.kind[word]]
        traps = _traps(world, world.meaning[word], rng)
        for place, skill in enumerate(world.meaning[word]):
            for trap, share in zip(traps[place], _TRAPS, strict=True):
                found[row, place, SKILL_NAMES.index(trap)] += (1 - right) * share
            found[row, place, SKILL_NAMES.index(skill)] = right
    found /= found.sum(axis=-1, keepdims=True)
    return found


def answer_text(word: str, meaning: Meaning, digits: Digits) -> str:
    """Return what the policy writes if it believes this meaning and makes no slip."""
    parts = []
    for marker, skill in zip(MARKERS, meaning, strict=True):
        digits = SKILLS[skill](digits)
        parts.append(f"{word} {marker} {skill} {spell(digits)}")
    return " ".join(parts)


def _traps(world: World, truth: Meaning, rng: np.random.Generator) -> list[list[str]]:
    """Return three wrong skills per place that together also differ from the word's meaning."""
    while True:
        traps = [
            rng.permutation([name for name in SKILL_NAMES if name != skill])[:3].tolist()
            for skill in truth
        ]
        if all(
            agreement(world.outputs[one], world.outputs[truth]) < _NEARLY_NEVER
            for one in product(*traps)
        ):
            return traps
