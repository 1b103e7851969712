"""Estimate means and differences with 95 % intervals, resampled by word and by seed.

A word is learned or it is not, so the questions about it are not independent observations: the unit is the
word. Runs differ, too, so seeds are resampled as well, both at once and independently of each other (the
pigeonhole bootstrap, Owen 2007). With few seeds a bootstrap is overconfident, so its deviations are
widened as Student's t is against the normal distribution, for the degrees of freedom that seeds and words
have together (Satterthwaite). Draws of the world are kept as they are: three are too few to be resampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_REPLICATES: Final = 4_000
_TAIL: Final = 2.5
_FEWEST: Final = 2
_INVERSE_FREEDOM: Final = (0.0, 1 / 60, 1 / 30, 1 / 15, 1 / 9, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 1.0)
_STUDENT: Final = (1.960, 2.000, 2.042, 2.131, 2.262, 2.447, 2.776, 3.182, 4.303, 12.706)
"""Where 97.5 % of Student's distribution lie below, by one over its degrees of freedom."""

Scores = dict[int, NDArray[np.float64]]
"""By draw: a row for each seed, a column for each word."""


@dataclass(frozen=True)
class Estimate:
    """A mean and its 95 % interval; without an interval if there is a single seed."""

    mean: float
    low: float | None
    high: float | None
    runs: int


def scores(runs: Sequence[Mapping[str, Any]], kind: str, column: int) -> Scores:
    """Return one number of each word in each run; `column` is its place in the runs' `words`.

    `kind` is that of the words, or `all`.
    """
    found: Scores = {}
    for draw in sorted({run["draw"] for run in runs}):
        of_draw = sorted((run for run in runs if run["draw"] == draw), key=lambda run: run["seed"])
        rows = [
            [one[column] for _, one in sorted(run["words"].items()) if kind in (one[0], "all")]
            for run in of_draw
        ]
        found[draw] = np.array(rows, dtype=float)
    return found


def estimate(values: Scores) -> Estimate:
    """Estimate the mean over words, seeds and draws."""
    runs = sum(len(rows) for rows in values.values())
    mean = float(np.mean([rows.mean() for rows in values.values()]))
    if min(min(rows.shape) for rows in values.values()) < _FEWEST:
        return Estimate(mean, None, None, runs)
    rng = np.random.default_rng(0)
    drawn = np.mean([_resampled(rows, rng) for rows in values.values()], axis=0)
    low, high = np.percentile(drawn, [_TAIL, 100 - _TAIL])
    wider = _widening(list(values.values()))
    return Estimate(mean, mean + wider * (low - mean), mean + wider * (high - mean), runs)


def _widening(tables: Sequence[NDArray[np.float64]]) -> float:
    """Correct a bootstrap's small deviations with few samples: 1/n of a variance, and Student's t."""
    parts = []
    for rows in tables:
        seeds, words = rows.shape
        parts.append((rows.mean(axis=1).var(ddof=1) / seeds, seeds - 1))
        parts.append((rows.mean(axis=0).var(ddof=1) / words, words - 1))
    total = sum(variance for variance, _ in parts)
    if not total:
        return 1.0
    freedom = total**2 / sum(variance**2 / count for variance, count in parts)
    short = sum(variance * count / (count + 1) for variance, count in parts)
    student = np.interp(1 / freedom, _INVERSE_FREEDOM, _STUDENT) / _STUDENT[0]
    return float(student * np.sqrt(total / short))


def difference(
    runs: Sequence[Mapping[str, Any]],
    others: Sequence[Mapping[str, Any]],
    kind: str,
    column: int,
) -> Estimate | None:
    """Estimate the mean of `runs` less that of `others`, paired by draw, seed and word; None if nothing
    pairs."""
    shared = {_pair(run) for run in runs} & {_pair(run) for run in others}
    if not shared:
        return None
    ours, theirs = (
        scores([run for run in some if _pair(run) in shared], kind, column)
        for some in (runs, others)
    )
    return estimate({draw: ours[draw] - theirs[draw] for draw in ours})


def _pair(run: Mapping[str, Any]) -> tuple[int, int]:
    return run["draw"], run["seed"]


def _resampled(rows: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return means of the table with seeds and words drawn again, with replacement."""
    seeds, words = rows.shape
    by_seed = rng.multinomial(seeds, np.full(seeds, 1 / seeds), _REPLICATES)
    by_word = rng.multinomial(words, np.full(words, 1 / words), _REPLICATES)
    means: NDArray[np.float64] = np.einsum("bs,sw,bw->b", by_seed, rows, by_word) / rows.size
    return means
