"""Questions behind explanations, and what answers are worth by kind of word."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prompt_coevo.demo.splits import SHARES
from prompt_coevo.demo.world import Task, World
from prompt_coevo.rng import counter_rng
from worlds.facts import explained as facts


def explained(world: World, tasks: Sequence[Task], others: int) -> list[facts.Explained]:
    """Each question behind the right explanation of its word and those of so many other words."""
    rng = counter_rng(world.draw, "gpu-world/explained", others)
    return [facts.explained(world, task, others, rng) for task in tasks]


def by_kind(found: np.ndarray, tasks: Sequence[Task]) -> dict[str, float]:
    """Mean reward by kind of word."""
    kinds = np.array([task.kind for task in tasks])
    return {kind: round(float(found[kinds == kind].mean()), 4) for kind in SHARES}
