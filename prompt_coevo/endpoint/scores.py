"""Mean rewards with what is not known of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from prompt_coevo.rng import counter_rng

FEWEST: Final = 10
"""Values that are resampled; fewer say too little of how much they vary."""

_Z: Final = 1.959964
_DRAWS: Final = 10_000
_AT_ONCE: Final = 1_000_000
"""Values that are drawn at once: 16 MB."""


@dataclass(frozen=True)
class Score:
    """A mean of `n` rewards, or changes, and its 95 % interval; None where so many say nothing of it."""

    n: int
    mean: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            why = f"fewer than {FEWEST} questions" if self.n < FEWEST else "all are the same"
            return f"{self.mean:.3f} (no interval: {why}), n = {self.n}"
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}], n = {self.n}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def score(rewards: Sequence[float], seed: int) -> Score:
    """Of one reward a question: Wilson's interval if all are 0 or 1, else resampled questions."""
    mean = math.fsum(rewards) / len(rewards)
    if _binary(rewards):
        return Score(len(rewards), mean, *_wilson(mean, len(rewards)))
    return Score(len(rewards), mean, *_resampled(rewards, seed))


def difference(before: Sequence[float], after: Sequence[float], seed: int) -> Score:
    """Of the same questions: after minus before, by Newcombe's interval for paired shares if all rewards
    are 0 or 1, else by resampled questions."""
    changes = [late - early for early, late in zip(before, after, strict=True)]
    mean = math.fsum(changes) / len(changes)
    if _binary(before) and _binary(after):
        return Score(len(changes), mean, *_newcombe(before, after))
    return Score(len(changes), mean, *_resampled(changes, seed))


def _binary(rewards: Sequence[float]) -> bool:
    return all(reward in (0.0, 1.0) for reward in rewards)


def _wilson(share: float, n: int) -> tuple[float, float]:
    middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def _newcombe(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """Newcombe, Statistics in Medicine 17 (1998) 2635, method 10: both shares' Wilson intervals, put
    together by how far the two go with each other."""
    n, both = len(before), math.fsum(map(math.prod, zip(before, after, strict=True)))
    early, late = math.fsum(before), math.fsum(after)
    together = both * (n - early - late + both) - (late - both) * (early - both)
    if together > 0:
        together = max(0.0, together - n / 2)
    spread = math.sqrt(early * (n - early) * late * (n - late))
    phi = together / spread if spread else 0.0
    first, second = early / n, late / n
    (first_low, first_high), (second_low, second_high) = _wilson(first, n), _wilson(second, n)

    def distance(one: float, other: float) -> float:
        return math.sqrt(max(0.0, one**2 - 2 * phi * one * other + other**2))

    change = second - first
    low = change - distance(second - second_low, first_high - first)
    high = change + distance(second_high - second, first - first_low)
    return max(-1.0, low), min(1.0, high)


def _resampled(values: Sequence[float], seed: int) -> tuple[float, float] | tuple[None, None]:
    """The bootstrap's percentiles, widened for few values as Hesterberg has it (The American Statistician
    69 (2015) 371, the expanded percentile interval)."""
    n = len(values)
    if n < FEWEST or min(values) == max(values):
        return None, None
    rng, kept = counter_rng(seed, "evolve/interval"), np.asarray(values, dtype=np.float64)
    means = np.empty(_DRAWS)
    rows = max(1, _AT_ONCE // n)
    for start in range(0, _DRAWS, rows):
        count = min(rows, _DRAWS - start)
        means[start : start + count] = kept[rng.integers(n, size=(count, n))].mean(axis=1)
    tail = NormalDist().cdf(-math.sqrt(n / (n - 1)) * _student(n - 1))
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def _student(freedom: int) -> float:
    """Student's t at 97.5 %, by Cornish and Fisher's series: right to 0.0003 from 9 degrees on."""
    z, v = _Z, freedom
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )
