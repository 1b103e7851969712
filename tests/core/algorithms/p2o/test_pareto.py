"""Check Algorithm 4 and the greedy cover against hand-computed cases and the paper's own loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from prompt_coevo.algorithms.p2o.pareto import (
    greedy_cover,
    mean_score_weights,
    non_dominated,
    select_pareto_front,
)


def algorithm_4_step_1(scores: np.ndarray) -> list[int]:
    """Compute the front with the paper's double loop, unchanged."""
    front = []
    for i in range(len(scores)):
        dominated = False
        for j in range(len(scores)):
            better_somewhere = any(scores[j][n] > scores[i][n] for n in range(scores.shape[1]))
            as_good = all(scores[j][n] >= scores[i][n] for n in range(scores.shape[1]))
            if j != i and better_somewhere and as_good:
                dominated = True
                break
        if not dominated:
            front.append(i)
    return front


def algorithm_2_step_1(scores: np.ndarray, solved_at: float) -> list[int]:
    covered: set[int] = set()
    chosen: list[int] = []
    solves = [{n for n in range(scores.shape[1]) if row[n] >= solved_at} for row in scores]
    while True:
        rest = [i for i in range(len(scores)) if i not in chosen]
        best = max(rest, key=lambda i: len(solves[i] - covered), default=None)
        if best is None or not solves[best] - covered:
            return chosen
        chosen.append(best)
        covered |= solves[best]


@pytest.mark.parametrize(
    ("scores", "front"),
    [
        ([[0, 0], [1, 0], [0, 1]], [1, 2]),
        ([[1, 1], [1, 0], [0, 1]], [0]),
        ([[1, 0], [1, 0]], [0, 1]),  # equal rows both stay
        ([[0, 0], [0, 0], [0, 1]], [2]),
        ([[0.5, 0.5], [0.5, 0.6], [0.6, 0.5]], [1, 2]),
        ([[0, 0, 0]], [0]),
        ([[3], [1], [3], [2]], [0, 2]),
        ([[-1, -2], [-1, -3]], [0]),
    ],
)
def test_front_by_hand(scores: Sequence[Sequence[float]], front: list[int]) -> None:
    assert non_dominated(scores).tolist() == front


def test_front_of_nothing() -> None:
    assert non_dominated(np.zeros((0, 4))).tolist() == []
    assert non_dominated(np.zeros((3, 0))).tolist() == [0, 1, 2]


def test_differences_that_a_sum_rounds_away_still_dominate() -> None:
    assert non_dominated([[1.0, 0.0], [1.0, 1e-300]]).tolist() == [1]
    assert non_dominated([[1e16, 0.0], [1e16, 1.0]]).tolist() == [1]


def test_a_twin_of_a_dominated_row_is_dominated() -> None:
    assert non_dominated([[0, 1], [0, 1], [1, 1], [0, 1], [1, 1]]).tolist() == [2, 4]


TABLES = arrays(
    np.float64,
    array_shapes(min_dims=2, max_dims=2, max_side=9),
    elements=st.sampled_from([0.0, 0.0, 0.5, 1.0, 1e-300, 1e16, -1.0]),
)


@given(TABLES)
def test_front_equals_the_papers_loop(scores: np.ndarray) -> None:
    assert non_dominated(scores).tolist() == algorithm_4_step_1(scores)


@given(TABLES, st.integers(1, 9), st.integers(0, 99))
def test_selection_is_part_of_the_front(scores: np.ndarray, width: int, seed: int) -> None:
    front = algorithm_4_step_1(scores)
    chosen = select_pareto_front(scores, width, np.random.default_rng(seed)).tolist()
    assert len(chosen) == min(width, len(front))
    assert chosen == sorted(set(chosen))
    assert set(chosen) <= set(front)


@given(TABLES, st.sampled_from([0.5, 1.0]))
def test_cover_equals_the_papers_loop(scores: np.ndarray, solved_at: float) -> None:
    assert greedy_cover(scores, solved_at).tolist() == algorithm_2_step_1(scores, solved_at)


def test_a_small_front_is_taken_whole() -> None:
    assert select_pareto_front([[1, 0], [0, 1]], 5, np.random.default_rng(0)).tolist() == [0, 1]


def test_selection_follows_the_mean_scores() -> None:
    # Means 0.75 and 0.25: drawn one at a time, the first comes three times as often.
    scores = np.array([[1, 1, 1, 0], [0, 0, 0, 1]])
    picks = [select_pareto_front(scores, 1, np.random.default_rng(seed))[0] for seed in range(4000)]
    assert np.mean(np.array(picks) == 0) == pytest.approx(0.75, abs=0.03)


def test_zero_means_are_drawn_uniformly() -> None:
    scores = np.zeros((4, 2))
    picks = [select_pareto_front(scores, 1, np.random.default_rng(seed))[0] for seed in range(2000)]
    assert np.bincount(picks, minlength=4).min() > 400


def test_all_weighted_rows_are_taken_before_the_others() -> None:
    # Incomparable rows with means 1, 0, 0, 0 (after no shift: the smallest is 0).
    scores = np.array([[3, -3, 0], [0, 0, 0], [-3, 3, 0], [6, -3, 0]])
    assert non_dominated(scores).tolist() == [1, 2, 3]
    for seed in range(50):
        assert 3 in select_pareto_front(scores, 2, np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("scores", "weights"),
    [
        ([[1, 0], [1, 1]], [0.5, 1.0]),
        ([[0, 0], [0, 0]], [1.0, 1.0]),
        ([[-1, -1], [1, 1]], [0.0, 2.0]),
        ([[-1, -1], [-1, -1]], [1.0, 1.0]),
    ],
)
def test_weights(scores: Sequence[Sequence[float]], weights: list[float]) -> None:
    assert mean_score_weights(scores).tolist() == weights


@pytest.mark.parametrize(
    ("scores", "cover"),
    [
        ([[0, 0, 0], [1, 1, 0], [0, 1, 1]], [1, 2]),
        ([[1, 1, 0], [1, 1, 0]], [0]),  # a tie goes to the older one
        ([[0, 0], [0, 0]], []),
        ([[0.9, 0.9]], []),
        ([[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 1, 1, 1]], [3]),
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [0, 1, 2]),
    ],
)
def test_cover_by_hand(scores: Sequence[Sequence[float]], cover: list[int]) -> None:
    assert greedy_cover(scores).tolist() == cover


def test_cover_of_nothing() -> None:
    assert greedy_cover(np.zeros((0, 3))).tolist() == []
    assert greedy_cover(np.zeros((2, 0))).tolist() == []


@pytest.mark.parametrize("scores", [[1.0, 2.0], [[[1.0]]]])
def test_another_shape_is_refused(scores: list[object]) -> None:
    with pytest.raises(ValueError, match="shape"):
        non_dominated(scores)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scores_must_be_finite(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        greedy_cover([[value, 1.0]])


def test_width_must_be_positive() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        select_pareto_front([[1.0]], 0, np.random.default_rng(0))
