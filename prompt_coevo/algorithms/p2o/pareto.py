"""Pareto selection over dev scores: P2O Algorithm 4 and step 1 of Algorithm 2.

Scores are an (M templates x N samples) float array; row `i` holds the dev rewards of template `z_i`.
Lower rows are older templates. All functions return index arrays into the rows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prompt_coevo.candidates.trials import Scores

Indices: TypeAlias = NDArray[np.intp]

# Rounds of the pairwise filter below. Each leaves about a quarter of the pairs of random binary rows.
_FILTER_ROUNDS = 6


def non_dominated(scores: ArrayLike) -> Indices:
    """The rows that no other row dominates, ascending (P2O Algorithm 4, step 1).

    `z_j` dominates `z_i` iff it is at least as good on every sample and better on one. Equal rows
    do not dominate each other. `scores`: (M, N); N may be 0 (then nothing dominates). Raises
    ValueError for another number of dimensions or scores that are not finite.
    """
    table = _as_table(scores)
    return np.flatnonzero(~_dominated(table)) if table.size else np.arange(len(table))


def select_pareto_front(scores: ArrayLike, width: int, rng: np.random.Generator) -> Indices:
    """At most `width` rows of the Pareto front, ascending (P2O Algorithm 4).

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
    """A small set of rows that together solve what can be solved (P2O Algorithm 2, step 1).

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
    """Sampling weights of the rows: the mean score, with the corner cases the paper leaves open.

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


def _dominated(rows: Scores) -> NDArray[np.bool_]:
    """Which rows are dominated.

    `alive[i, j]` says that j may still dominate i. Its sum cannot be smaller (rounding keeps the
    order of sums), and comparing on one telling column each rules nearly all other pairs out. What
    is left is compared in full, the strongest possible dominators of each row first.
    """
    count = len(rows)
    sums = rows.sum(axis=1)
    alive = sums[None, :] >= sums[:, None]
    np.fill_diagonal(alive, False)
    _filter_pairs(rows, alive)
    twins = _set_twins_aside(rows, alive)
    strongest_first = np.argsort(-sums, kind="stable")
    alive = alive[:, strongest_first]
    dominated = np.zeros(count, dtype=bool)
    at_once = 1
    while len(open_rows := np.flatnonzero(alive.any(axis=1) & ~dominated)):
        candidates = alive[open_rows]
        candidates &= candidates.cumsum(axis=1) <= at_once
        alive[open_rows] ^= candidates
        mine, theirs = np.nonzero(candidates)
        beaten = _dominates(rows, strongest_first[theirs], open_rows[mine])
        dominated[open_rows[mine[beaten]]] = True
        at_once = min(4 * at_once, 8)
    return dominated[twins]


def _dominates(rows: Scores, theirs: Indices, mine: Indices) -> NDArray[np.bool_]:
    """For each pair of row numbers, whether the first row dominates the second."""
    as_good = np.arange(len(mine))
    for columns in (slice(0, 64), slice(64, None)):  # most pairs are decided by a few columns
        beaten = rows[theirs[as_good], columns] < rows[mine[as_good], columns]
        as_good = as_good[~beaten.any(axis=1)]
    result = np.zeros(len(mine), dtype=bool)
    result[as_good] = (rows[theirs[as_good]] > rows[mine[as_good]]).any(axis=1)
    return result


def _filter_pairs(rows: Scores, alive: NDArray[np.bool_]) -> None:
    """Clear pairs in which j is worse where i stands out, or i is better where j is weakest.

    The first round looks for these columns in the whole table, each later one in another part of it.
    """
    count, width = rows.shape
    each = np.arange(count)
    bounds = np.linspace(0, width, min(_FILTER_ROUNDS, width)).astype(int)
    for first, end in [(0, width), *pairwise(bounds)]:
        if np.count_nonzero(alive) <= 2 * count:
            return
        part = rows[:, first:end]
        centred = part - part.mean(axis=0)
        mine = centred.argmax(axis=1) + first
        alive &= (rows[:, mine] >= rows[each, mine]).T
        theirs = centred.argmin(axis=1) + first
        alive &= rows[each, theirs] >= rows[:, theirs]


def _set_twins_aside(rows: Scores, alive: NDArray[np.bool_]) -> Indices:
    """Map each row to the first row equal to it, and clear the pairs of the others: same row, same fate."""
    twins = np.arange(len(rows))
    mutual = np.tril(alive & alive.T, -1)
    later = np.flatnonzero(mutual.any(axis=1))
    first = mutual[later].argmax(axis=1)
    equal = (rows[later] == rows[first]).all(axis=1)
    twins[later[equal]] = first[equal]
    alive[later[equal], :] = False
    alive[:, later[equal]] = False
    return twins
