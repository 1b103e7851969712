"""Training and held-out questions about the same words, disjoint by construction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

import numpy as np

from prompt_coevo.demo.digits import Kind
from prompt_coevo.demo.world import COUNTS, LENGTHS, WORDS, Task, World
from prompt_coevo.rng import counter_rng

Drawn = TypeVar("Drawn")

Shares: TypeAlias = Mapping[Kind, float]
"""Fraction of the questions, by kind of word."""

SHARES: Final[Shares] = {"easy": 0.12, "medium": 0.08, "hard": 0.8}
LONGER: Final = (6,)


def training_tasks(
    world: World, seed: int, count: int = 512, shares: Shares = SHARES
) -> tuple[Task, ...]:
    """Draw questions to train on, none of them held out."""
    unseen = frozenset(held_out_tasks(world))
    return _draw(world, f"train-{seed}", count, unseen, shares=shares)


def held_out_tasks(world: World) -> tuple[Task, ...]:
    """Draw new lists for the trained words; the same for every seed."""
    return _draw(world, "held-out", 512, frozenset())


def longer_tasks(world: World) -> tuple[Task, ...]:
    """Draw lists longer than any in training, for the trained words."""
    return _draw(world, "longer", 256, frozenset(), LONGER)


def _draw(
    world: World,
    name: str,
    count: int,
    exclude: frozenset[Task],
    lengths: Sequence[int] = LENGTHS,
    shares: Shares = SHARES,
) -> tuple[Task, ...]:
    rng = counter_rng(world.draw, "facts/questions", name)
    chances = [shares[world.kind[word]] / COUNTS[world.kind[word]] for word in WORDS]

    def one() -> Task:
        word = WORDS[rng.choice(len(WORDS), p=np.array(chances))]
        return world.task(word, tuple(rng.integers(0, 10, size=rng.choice(lengths)).tolist()))

    return distinct(one, count, exclude)


def distinct(
    draw: Callable[[], Drawn], count: int, exclude: frozenset[Drawn] = frozenset()
) -> tuple[Drawn, ...]:
    """Return `count` different draws in order of first appearance, none of them in `exclude`."""
    drawn: dict[Drawn, None] = {}
    while len(drawn) < count:
        if (one := draw()) not in exclude:
            drawn[one] = None
    return tuple(drawn)
