"""Means and differences with 95 % intervals, resampled by word and by seed.

A word is learned or it is not, so the questions about it are no independent observations: the unit is the
word. Runs differ, too, so seeds are resampled as well, both at once and independently of each other (the
pigeonhole bootstrap, Owen 2007, which errs on the side of wide intervals). Draws of the world are kept
as they are: three are too few to be resampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_REPLICATES: Final = 4_000
_TAIL: Final = 2.5

Scores = dict[int, NDArray[np.float64]]
"""By draw: a row for each seed, a column for each word."""


@dataclass(frozen=True)
class Estimate:
    """A mean and its 95 % interval; without an interval if there is a single seed."""

    mean: float
    low: float | None
    high: float | None
    runs: int

    @property
    def above_zero(self) -> bool:
        return self.low is not None and self.low > 0

    @property
    def below_zero(self) -> bool:
        return self.high is not None and self.high < 0


def scores(runs: Sequence[Mapping[str, Any]], kind: str, column: int) -> Scores:
    """One number of each word in each run; `column` is its place in the runs' `words`.

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
    """The mean over words, seeds and draws."""
    runs = sum(len(rows) for rows in values.values())
    mean = float(np.mean([rows.mean() for rows in values.values()]))
    if min(len(rows) for rows in values.values()) < 2:
        return Estimate(mean, None, None, runs)
    rng = np.random.default_rng(0)
    drawn = np.mean([_resampled(rows, rng) for rows in values.values()], axis=0)
    low, high = np.percentile(drawn, [_TAIL, 100 - _TAIL])
    return Estimate(mean, float(low), float(high), runs)


def difference(
    runs: Sequence[Mapping[str, Any]],
    others: Sequence[Mapping[str, Any]],
    kind: str,
    column: int,
) -> Estimate | None:
    """The mean of `runs` less that of `others`, paired by draw, seed and word; None if nothing pairs."""
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
    """Means of the table with seeds and words drawn again, with replacement."""
    seeds, words = rows.shape
    by_seed = rng.multinomial(seeds, np.full(seeds, 1 / seeds), _REPLICATES)
    by_word = rng.multinomial(words, np.full(words, 1 / words), _REPLICATES)
    means: NDArray[np.float64] = np.einsum("bs,sw,bw->b", by_seed, rows, by_word) / rows.size
    return means
