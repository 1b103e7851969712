"""Pareto selection over dev scores: P2O Algorithm 4 and step 1 of Algorithm 2.

Scores are an (M templates x N samples) float array; row `i` holds the dev rewards of template `z_i`.
Lower rows are older templates. All functions return index arrays into the rows.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prompt_coevo.candidates.trials import Scores

Indices: TypeAlias = NDArray[np.intp]


def non_dominated(scores: ArrayLike) -> Indices:
    """Return the rows that no other row dominates, ascending (P2O Algorithm 4, step 1).

    `z_j` dominates `z_i` iff it is at least as good on every sample and better on one. Equal rows
    do not dominate each other. `scores`: (M, N); N may be 0 (then nothing dominates). Raises
    ValueError for another number of dimensions or scores that are not finite.
    """
    table = _as_table(scores)
    return np.array(
        [row for row, own in enumerate(table) if not _beaten(own, table)], dtype=np.intp
    )


def select_pareto_front(scores: ArrayLike, width: int, rng: np.random.Generator) -> Indices:
    """Return at most `width` rows of the Pareto front, ascending (P2O Algorithm 4).

    A larger front is sampled without replacement, with probability proportional to the mean score
    (see `mean_score_weights`). If fewer rows than `width` have a weight, all of them are taken and
    the rest is drawn uniformly. Raises ValueError if `width` is below 1.
    """
    if width < 1:
        raise ValueError(f"the width of a Pareto front must be at least 1, but is {width}")
    table = _as_table(scores)
    front = non_dominated(table)
    if len(front) <= width:
        return front
    weights = _shifted(table.mean(axis=1)[front])
    weighted = np.flatnonzero(weights)
    if len(weighted) >= width:
        chosen = rng.choice(len(front), size=width, replace=False, p=weights / weights.sum())
    else:
        others = np.flatnonzero(weights == 0)
        drawn = rng.choice(others, size=width - len(weighted), replace=False)
        chosen = np.concatenate([weighted, drawn])
    return np.sort(front[chosen])


def greedy_cover(scores: ArrayLike, solved_at: float = 1.0) -> Indices:
    """Return a small set of rows that together solve all that can be solved (P2O Algorithm 2, step 1).

    A row solves a sample if its score there is at least `solved_at`. Rows come in the order in which
    greedy set cover picks them; a tie goes to the lowest index. Empty if nothing is solved.
    """
    solved = _as_table(scores) >= solved_at
    by_sample = np.ascontiguousarray(solved.T).view(np.uint8)
    gains = np.count_nonzero(solved, axis=1)
    uncovered = np.ones(solved.shape[1], dtype=bool)
    picked: list[int] = []
    while len(gains) and gains.max() > 0:
        best = int(gains.argmax())
        picked.append(best)
        newly = np.flatnonzero(solved[best] & uncovered)
        uncovered[newly] = False
        gains -= by_sample[newly].sum(axis=0, dtype=np.intp)
    return np.array(picked, dtype=np.intp)


def mean_score_weights(scores: ArrayLike) -> NDArray[np.float64]:
    """Return sampling weights of the rows: the mean score, and a rule for cases the paper leaves open.

    Negative means are shifted so that the smallest weight is 0; if no row has a weight, all weigh the same.
    """
    table = _as_table(scores)
    return _shifted(table.mean(axis=1) if table.shape[1] else np.zeros(len(table)))


def _shifted(means: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = means - min(0.0, float(means.min(initial=0.0)))
    return weights if weights.any() else np.ones(len(means))


def _as_table(scores: ArrayLike) -> Scores:
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2:
        raise ValueError(
            f"scores must be a (templates x samples) array, but have shape {table.shape}"
        )
    if not np.isfinite(table).all():
        raise ValueError(
            "scores must be finite: give a rollout without a usable reward the score of a failure"
        )
    return table


def _beaten(row: Scores, others: Scores) -> bool:
    """Return True if one of the others dominates the row."""
    as_good = others[(others >= row).all(axis=1)]
    return bool((as_good > row).any())
