"""Mean rewards with what is not known of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from prompt_coevo.rng import counter_rng

_Z: Final = 1.959964
_DRAWS: Final = 10_000


@dataclass(frozen=True)
class Score:
    """A mean of `n` rewards and its 95 % interval."""

    n: int
    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}], n = {self.n}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def score(rewards: Sequence[float], seed: int) -> Score:
    """Of one reward a question: Wilson's interval if all are 0 or 1, else resampled questions."""
    mean = math.fsum(rewards) / len(rewards)
    if all(reward in (0.0, 1.0) for reward in rewards):
        return Score(len(rewards), mean, *_wilson(mean, len(rewards)))
    return Score(len(rewards), mean, *_resampled(rewards, seed))


def difference(before: Sequence[float], after: Sequence[float], seed: int) -> Score:
    """Of the same questions: after minus before, by resampled questions."""
    changes = [late - early for early, late in zip(before, after, strict=True)]
    mean = math.fsum(changes) / len(changes)
    return Score(len(changes), mean, *_resampled(changes, seed))


def _wilson(share: float, n: int) -> tuple[float, float]:
    middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def _resampled(values: Sequence[float], seed: int) -> tuple[float, float]:
    rng = counter_rng(seed, "evolve/interval")
    drawn = rng.choice(np.asarray(values), size=(_DRAWS, len(values)))
    low, high = np.quantile(drawn.mean(axis=1), [0.025, 0.975])
    return float(low), float(high)
