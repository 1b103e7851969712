"""Run tier 2 with more easy and medium questions: of ten in training, three, three and four hard.

The words, their meanings, the base policy and the held-out questions are those of `transformer.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import transformer
from arms import ARMS as ALL
from arms import Studied
from store import Key

from prompt_coevo.demo.splits import Shares
from prompt_coevo.demo.world import World

WORLD: Final = "facts, balanced"
SHARES: Final[Shares] = {"easy": 0.3, "medium": 0.3, "hard": 0.4}
ARMS: Final[Mapping[str, Studied]] = {name: ALL[name] for name in ("grpo", "stream")}

labels, check = transformer.labels, transformer.check


def frozen() -> dict[str, Any]:
    """Return the values that determine each arm's runs, by its name, as JSON values."""
    worlds = {draw: transformer.contents(World(draw), SHARES) for draw in transformer.DRAWS}
    return {
        name: {**values, "shares": SHARES, "balanced": worlds}
        for name, values in transformer.frozen().items()
        if name in ARMS
    }


def plan(arms: Sequence[str], seeds: int | None, draws: int | None) -> list[Key]:
    """Return the runs of the published table, in the first draw; or this many seeds and draws."""
    return [(WORLD, *rest) for _, *rest in transformer.plan(arms, seeds, draws or 1)]


def run(world: str, arm: str, seed: int, draw: int) -> dict[str, Any]:
    """Run once and return JSON values."""
    return transformer.run(world, arm, seed, draw, SHARES)
